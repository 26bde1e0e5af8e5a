// Two calls can meet when the parts on which they must agree are equal (difference()); collectives
// that pass pieces between pairs also need each pair's pieces to fit (pair_fits()). Compatibility
// compares with the first call only, in O(ranks); pairs take O(ranks^2) and only all_to_all and
// batches need them.
#include "backends/shared/call.h"

#include <algorithm>

#include "base/text.h"
#include "comm/verdict.h"

namespace shardlab::backends {

namespace {

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kReduceScatter;
}

std::string join(std::span<const std::int64_t> values) { return text_of_list(values, ","); }

// "8,8,4", or, of many ranks, "8 (1023 times), 4".
std::string lengths_text(Lengths lengths) {
  constexpr std::size_t kMostListed = 32;
  if (lengths.size() <= kMostListed) return join(lengths);
  std::vector<std::string> runs;
  for (auto first = lengths.begin(); first != lengths.end();) {
    const auto end =
        std::find_if(first, lengths.end(), [&](std::int64_t length) { return length != *first; });
    const auto times = end - first;
    runs.push_back(times == 1 ? fmt::format("{}", *first)
                              : fmt::format("{} ({} times)", *first, times));
    first = end;
  }
  return text_of_list(runs, ", ");
}

bool equal(Lengths a, Lengths b) {
  const bool same = a.begin() == b.begin() && a.size() == b.size();
  return same || std::ranges::equal(a, b);
}

constexpr std::string_view kDtypes = "different dtypes";
constexpr std::string_view kShapes = "different shapes";

// Compares dtype and shape, without the sizes of both dims.
std::string_view difference_of_inputs(const Tensor& a, const Tensor& b, std::int64_t free_dim,
                                      std::int64_t other_free_dim) {
  if (a.dtype() != b.dtype()) return kDtypes;
  if (a.dim() != b.dim()) return kShapes;
  for (std::int64_t i = 0; i < a.dim(); ++i) {
    const auto dim = static_cast<std::size_t>(i);
    if (i != free_dim && i != other_free_dim && a.size(dim) != b.size(dim)) return kShapes;
  }
  return "";
}

std::string_view difference_of_expected(const Call& a, const Call& b) {
  if (a.expected->dtype != b.expected->dtype) return kDtypes;
  return a.expected->shape == b.expected->shape ? "" : kShapes;
}

// Null where the backend keeps it elsewhere.
const SplitPart* part_of(const Call& split) {
  const auto* part = std::get_if<SplitPart*>(&split.part);
  return part == nullptr ? nullptr : *part;
}

// Parts of one mesh may be named in one call, under other colours.
std::string_view difference_of_splits(const Call& a, const Call& b) {
  const SplitPart* mine = part_of(a);
  const SplitPart* other = part_of(b);
  if (mine == nullptr || other == nullptr) return "";
  return mine->color == other->color && mine->name != other->name ? "different names" : "";
}

}  // namespace

void copy_plain(const Call& from, Call& to) {
  to.op = from.op;
  to.dim = from.dim;
  to.concat_dim = from.concat_dim;
  to.root = from.root;
  to.to = from.to;
  to.from = from.from;
  to.tag = from.tag;
  to.position = from.position;
  to.op_name = from.op_name;
}

std::string meta_text(const TensorMeta& meta) {
  return fmt::format("{}[{}]", to_string(meta.dtype), join(meta.shape));
}

std::string signature(const Call& call) {
  std::vector<std::string> parts;
  const bool has_source =
      call.kind == CollectiveKind::kBroadcast || call.kind == CollectiveKind::kScatter;
  const bool brings = call.x != nullptr && call.x->defined();
  // A source passes what all expect: it reads like the others.
  if (has_source) parts.push_back(meta_text(*call.expected));
  if (brings && !has_source) parts.push_back(meta_text(call.x->meta()));
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
      parts.emplace_back(to_string(call.op));
      break;
    case CollectiveKind::kReduceScatter:
      parts.emplace_back(to_string(call.op));
      [[fallthrough]];
    case CollectiveKind::kAllGather:
    case CollectiveKind::kScatter:
    case CollectiveKind::kGather:
      parts.push_back(fmt::format("dim {}, lengths {}", call.dim, lengths_text(call.lengths)));
      break;
    case CollectiveKind::kAllToAll:
      parts.push_back(fmt::format("dim {} cut {}", call.dim, lengths_text(call.lengths)));
      parts.push_back(
          fmt::format("dim {} joined {}", call.concat_dim, lengths_text(call.concat_lengths())));
      break;
    case CollectiveKind::kSplit:
      if (const SplitPart* part = part_of(call)) parts.emplace_back(part->name);
      break;
    case CollectiveKind::kPermute:
      parts.push_back(fmt::format("to {}, from {}", call.to, call.from));
      break;
    default:
      break;
  }
  if (call.root >= 0) {
    parts.push_back(fmt::format("{} {}", has_source ? "source" : "destination", call.root));
  }
  if (call.kind == CollectiveKind::kRecv) {
    parts.push_back(meta_text(*call.expected));
  } else if (call.from >= 0) {
    parts.push_back("receives " + meta_text(*call.expected));
  }
  return fmt::format("{}({})", to_string(call.kind), text_of_list(parts, ", "));
}

namespace {

// The shape is the business of either side.
std::string_view difference_of_message(const Call& sent, const Call& received) {
  const TensorMeta &meta = sent.x->meta(), &expected = *received.expected;
  if (meta.dtype != expected.dtype) return kDtypes;
  if (product(meta.shape) != product(expected.shape)) return "different sizes";
  const bool labelled = sent.op_name != nullptr && received.op_name != nullptr;
  return labelled && std::string_view(sent.op_name) != received.op_name ? kLabels : "";
}

}  // namespace

std::string_view difference(const Call& a, const Call& b) {
  if (&a == &b) return "";
  if (a.kind == CollectiveKind::kSend && b.kind == CollectiveKind::kRecv) {
    return difference_of_message(a, b);
  }
  if (a.kind == CollectiveKind::kRecv && b.kind == CollectiveKind::kSend) return difference(b, a);
  if (a.kind != b.kind) return "different collectives";
  if (a.root != b.root) {
    const bool to_one = a.kind == CollectiveKind::kGather || a.kind == CollectiveKind::kReduce;
    return to_one ? "different destinations" : "different sources";
  }
  if (reduces(a.kind) && a.op != b.op) return "different reductions";
  if (a.dim != b.dim || a.concat_dim != b.concat_dim) return "different dims";
  std::string_view found;
  switch (a.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
      return difference_of_inputs(*a.x, *b.x, -1, -1);
    case CollectiveKind::kReduceScatter:
      found = difference_of_inputs(*a.x, *b.x, -1, -1);
      break;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather:
      found = difference_of_inputs(*a.x, *b.x, a.dim, -1);
      break;
    case CollectiveKind::kAllToAll:
      return difference_of_inputs(*a.x, *b.x, a.dim, a.concat_dim);
    case CollectiveKind::kBroadcast:
      return difference_of_expected(a, b);
    case CollectiveKind::kScatter:
      found = difference_of_expected(a, b);
      break;
    case CollectiveKind::kSplit:
      return difference_of_splits(a, b);
    default:
      return "";
  }
  if (found.empty() && !equal(a.lengths, b.lengths)) return kLengths;
  return found;
}

namespace {

// Rank `from` cuts a piece that rank `to` joins.
bool piece_fits(const Call& from, std::size_t from_rank, const Call& to, std::size_t to_rank) {
  if (from.dim == from.concat_dim) return from.lengths[to_rank] == to.concat_lengths()[from_rank];
  // Pieces that are joined have one size along the dim that was cut.
  return from.lengths[to_rank] == to.lengths[to_rank] &&
         from.x->size(static_cast<std::size_t>(from.concat_dim)) == to.concat_lengths()[from_rank];
}

bool matches(const Tensor& sent, const TensorMeta& expected) {
  return sent.dtype() == expected.dtype && sent.shape() == expected.shape;
}

bool partner_fits(const Call& from, std::size_t from_rank, const Call& to, std::size_t to_rank) {
  const bool sends = from.to == static_cast<std::int64_t>(to_rank);
  const bool receives = to.from == static_cast<std::int64_t>(from_rank);
  return sends == receives && (!sends || matches(*from.x, *to.expected));
}

bool exchange_fits(std::span<const Call* const> calls, std::size_t from, std::size_t to) {
  std::vector<const SendRecv*> sends;
  for (const SendRecv& part : std::get<BatchPart*>(calls[from]->part)->exchange) {
    if (part.send.defined() && part.peer == static_cast<std::int64_t>(to)) sends.push_back(&part);
  }
  std::size_t next = 0;
  for (const SendRecv& part : std::get<BatchPart*>(calls[to]->part)->exchange) {
    if (!part.receives || part.peer != static_cast<std::int64_t>(from)) continue;
    if (next == sends.size() || !matches(sends[next]->send, part.receive)) return false;
    ++next;
  }
  return next == sends.size();
}

// Each rank checks its own two partners only.
bool partners_fit(std::span<const Call* const> calls) {
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const Call& call = *calls[rank];
    const auto to = static_cast<std::size_t>(call.to);
    const auto from = static_cast<std::size_t>(call.from);
    if (call.to >= 0 && !partner_fits(call, rank, *calls[to], to)) return false;
    if (call.from >= 0 && !partner_fits(*calls[from], from, call, rank)) return false;
  }
  return true;
}

bool all_pairs_fit(std::span<const Call* const> calls) {
  for (std::size_t from = 0; from < calls.size(); ++from) {
    for (std::size_t to = 0; to < calls.size(); ++to) {
      if (!pair_fits(calls, from, to)) return false;
    }
  }
  return true;
}

}  // namespace

bool pair_fits(std::span<const Call* const> calls, std::size_t from, std::size_t to) {
  switch (calls[from]->kind) {
    case CollectiveKind::kAllToAll:
      return piece_fits(*calls[from], from, *calls[to], to);
    case CollectiveKind::kPermute:
      return partner_fits(*calls[from], from, *calls[to], to);
    case CollectiveKind::kBatch:
      return exchange_fits(calls, from, to);
    default:
      return true;
  }
}

bool consistent(std::span<const Call* const> calls) {
  const bool brings_nothing = calls[0]->kind == CollectiveKind::kBarrier;
  for (const Call* call : calls) {
    if (brings_nothing ? call->kind != CollectiveKind::kBarrier : !compatible(*calls[0], *call)) {
      return false;
    }
  }
  switch (calls[0]->kind) {
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kBatch:
      return all_pairs_fit(calls);
    case CollectiveKind::kPermute:
      return partners_fit(calls);
    default:
      return true;
  }
}

}  // namespace shardlab::backends
