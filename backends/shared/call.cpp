#include "backends/shared/call.h"

#include <algorithm>

#include "comm/verdict.h"

namespace shardlab::backends {

namespace {

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

std::string join(std::span<const std::int64_t> values) {
  return fmt::format("{}", fmt::join(values, ","));
}

std::string meta_text(const TensorMeta& meta) {
  return fmt::format("{}[{}]", to_string(meta.dtype), join(meta.shape));
}

bool equal(Lengths a, Lengths b) { return std::ranges::equal(a, b); }

// Dtype and shape, without the sizes of `a_dim` and `b_dim`.
bool shapes_agree(const Tensor& a, const Tensor& b, std::int64_t free_dim,
                  std::int64_t other_free_dim) {
  if (a.dtype() != b.dtype() || a.dim() != b.dim()) return false;
  for (std::int64_t i = 0; i < a.dim(); ++i) {
    const auto dim = static_cast<std::size_t>(i);
    if (i != free_dim && i != other_free_dim && a.size(dim) != b.size(dim)) return false;
  }
  return true;
}

bool same_expected(const Call& a, const Call& b) {
  return a.expected->dtype == b.expected->dtype && a.expected->shape == b.expected->shape;
}

}  // namespace

std::string signature(const Call& call) {
  std::vector<std::string> parts;
  const bool brings = call.x != nullptr && call.x->defined();
  if (brings) parts.push_back(meta_text(call.x->meta()));
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      parts.emplace_back(to_string(call.op));
      break;
    case CollectiveKind::kReduceScatter:
      parts.emplace_back(to_string(call.op));
      [[fallthrough]];
    case CollectiveKind::kAllGather:
    case CollectiveKind::kScatter:
    case CollectiveKind::kGather:
      parts.push_back(fmt::format("dim {}, lengths {}", call.dim, join(call.lengths)));
      break;
    case CollectiveKind::kAllToAll:
      parts.push_back(fmt::format("dim {} cut {}", call.dim, join(call.lengths)));
      parts.push_back(fmt::format("dim {} joined {}", call.concat_dim, join(call.concat_lengths)));
      break;
    case CollectiveKind::kPermute:
      parts.push_back(fmt::format("to {}, from {}", call.to, call.from));
      break;
    default:
      break;
  }
  if (call.root >= 0) parts.push_back(fmt::format("root {}", call.root));
  if (call.expected != nullptr) parts.push_back("receives " + meta_text(*call.expected));
  return fmt::format("{}({})", to_string(call.kind), fmt::join(parts, ", "));
}

bool compatible(const Call& a, const Call& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.root != b.root) return false;
  if (reduces(a.kind) && a.op != b.op) return false;
  switch (a.kind) {
    case CollectiveKind::kAllReduce:
      return shapes_agree(*a.x, *b.x, -1, -1);
    case CollectiveKind::kReduceScatter:
      return a.dim == b.dim && equal(a.lengths, b.lengths) && shapes_agree(*a.x, *b.x, -1, -1);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather:
      return a.dim == b.dim && equal(a.lengths, b.lengths) && shapes_agree(*a.x, *b.x, a.dim, -1);
    case CollectiveKind::kAllToAll:
      return a.dim == b.dim && a.concat_dim == b.concat_dim &&
             shapes_agree(*a.x, *b.x, a.dim, a.concat_dim);
    case CollectiveKind::kBroadcast:
      return same_expected(a, b);
    case CollectiveKind::kScatter:
      return a.dim == b.dim && equal(a.lengths, b.lengths) && same_expected(a, b);
    default:
      return true;
  }
}

namespace {

// Rank `from` cuts a piece that rank `to` joins.
bool piece_fits(const Call& from, std::size_t from_rank, const Call& to, std::size_t to_rank) {
  if (from.dim == from.concat_dim) {
    return from.lengths[to_rank] == to.concat_lengths[from_rank];
  }
  // Pieces that are joined have one size along the dim that was cut.
  return from.lengths[to_rank] == to.lengths[to_rank] &&
         from.x->size(static_cast<std::size_t>(from.concat_dim)) == to.concat_lengths[from_rank];
}

bool pieces_fit(std::span<Call* const> calls) {
  for (std::size_t from = 0; from < calls.size(); ++from) {
    for (std::size_t to = 0; to < calls.size(); ++to) {
      if (!piece_fits(*calls[from], from, *calls[to], to)) return false;
    }
  }
  return true;
}

bool matches(const Tensor& sent, const TensorMeta& expected) {
  return sent.dtype() == expected.dtype && sent.shape() == expected.shape;
}

bool partners_agree(std::span<Call* const> calls) {
  const auto size = static_cast<std::int64_t>(calls.size());
  for (std::int64_t rank = 0; rank < size; ++rank) {
    const Call& call = *calls[static_cast<std::size_t>(rank)];
    if (call.to >= 0) {
      const Call& target = *calls[static_cast<std::size_t>(call.to)];
      if (target.from != rank || !matches(*call.x, *target.expected)) return false;
    }
    if (call.from >= 0 && calls[static_cast<std::size_t>(call.from)]->to != rank) return false;
  }
  return true;
}

bool exchange_fits(std::span<Call* const> calls, std::size_t from, std::size_t to) {
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

bool exchanges_fit(std::span<Call* const> calls) {
  for (std::size_t from = 0; from < calls.size(); ++from) {
    for (std::size_t to = 0; to < calls.size(); ++to) {
      if (!exchange_fits(calls, from, to)) return false;
    }
  }
  return true;
}

}  // namespace

bool consistent(std::span<Call* const> calls) {
  for (const Call* call : calls) {
    if (!compatible(*calls[0], *call)) return false;
  }
  switch (calls[0]->kind) {
    case CollectiveKind::kAllToAll:
      return pieces_fit(calls);
    case CollectiveKind::kPermute:
      return partners_agree(calls);
    case CollectiveKind::kBatch:
      return exchanges_fit(calls);
    default:
      return true;
  }
}

}  // namespace shardlab::backends
