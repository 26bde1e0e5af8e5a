// The global value stays the same: bit for bit if nothing is added up, within the rounding of a sum
// if pending terms are. Labels that the program gives (from_local) are not questioned, except that
// replicas must be equal.
#include "sim/verify/step_moves.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/autograd.h"
#include "dispatch/plain_calls.h"
#include "mesh/type_string.h"
#include "schema/argument.h"
#include "sim/verify/step_compare.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

using Pieces = std::vector<DTensor>;

Pieces pieces_of(const Step& step, bool results) {
  Pieces pieces;
  for (const StepPart& part : step.parts) {
    const Arguments& from = results ? part.results : part.args;
    pieces.push_back(from.at(0).tensor());
  }
  return pieces;
}

bool one_type(const Pieces& pieces) {
  for (const DTensor& piece : pieces) {
    if (!piece.defined() || piece.spec() != pieces.front().spec()) return false;
  }
  return true;
}

// The same global value before and after.
StepFinding judge_kept(const WholeValue& before, const WholeValue& after) {
  if (before.own.shape() != after.own.shape() || before.own.dtype() != after.own.dtype()) {
    WrongStep found;
    found.what = fmt::format("gives {} for {}", type_string(after.own.meta()),
                             type_string(before.own.meta()));
    return wrong(std::move(found));
  }
  const bool integers = is_integral(before.own.dtype());
  const bool adds = before.count > 1 || after.count > 1;
  if (integers || !adds) {
    if (same_values(before.own, after.own)) return {};
    return wrong(bitwise_miss(after.own, before.own));
  }
  FloatResult result;
  result.dtype = after.own.dtype();
  result.got = read_doubles(after.wide());
  result.exact = read_doubles(before.wide());
  result.terms = before.terms.empty() ? after.terms : before.terms;
  result.absolute = before.terms;
  result.divisor = before.divisor;
  // A sum that overflows its dtype also overflows in the single-device run.
  result.own = read_doubles(before.own);
  RoundingBound bound;
  bound.u = unit_roundoff(result.dtype);
  bound.ranks = static_cast<double>(std::max(before.count, after.count));
  bound.least = least_rounding(result.dtype) * (bound.ranks + 1);
  for (std::size_t i = 0; i < result.own.size(); ++i) {
    if (std::isfinite(result.own[i])) result.own[i] = result.exact[i];
  }
  const Misses missed = misses(result, bound);
  if (missed.count > 0) return wrong(float_miss(missed, result.dtype));
  StepFinding finding;
  finding.kind = missed.undecided > 0 ? StepFinding::Kind::kUndecided : StepFinding::Kind::kBounded;
  finding.undecided_elements = missed.undecided;
  return finding;
}

StepFinding judge_placed(const Step& step) {
  const Pieces from = pieces_of(step, false), to = pieces_of(step, true);
  if (!one_type(from) || !one_type(to)) return skipped("the ranks hold different types");
  const auto kind = step.first().placing;
  if (kind == PlacedRecord::Kind::kToLocal) {
    const WholeValue before = whole_value_of(from, step.ranks);
    return before.fault.empty() ? StepFinding() : wrong(unequal(before.fault));
  }
  const WholeValue after = whole_value_of(to, step.ranks);
  if (!after.fault.empty()) return wrong(unequal(after.fault));
  if (kind == PlacedRecord::Kind::kFromLocal) return {};
  const WholeValue before = whole_value_of(from, step.ranks);
  if (!before.fault.empty()) return wrong(unequal(before.fault));
  StepFinding finding = judge_kept(before, after);
  if (finding.kind == StepFinding::Kind::kWrong && finding.wrong.element >= 0) {
    finding.wrong.held_by = holders_text(*to.front().spec(), finding.wrong.element);
  }
  finding.makes_non_finite = !all_finite(after.own) && all_finite(before.own);
  return finding;
}

// A mesh of one dim over the ranks of a group.
const DTensorSpec* group_spec(std::size_t ranks, Placement placement, const TensorMeta& meta) {
  MeshLayout::Init init;
  init.shape = Dims{static_cast<std::int64_t>(ranks)};
  const MeshLayout* layout = process_arena().layout(std::move(init));
  return process_arena().spec(layout, Placements{placement}, meta);
}

Tensor joined(const Pieces& pieces, std::int64_t dim) {
  ArgumentList list;
  for (const DTensor& piece : pieces) list.emplace_back(piece);
  return plain_calls().one("aten::cat", {std::move(list), dim}).local();
}

WholeValue plain_whole(const Tensor& value) {
  WholeValue whole;
  whole.own = contiguous(value);
  return whole;
}

bool has_source(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kScatter;
}
bool has_destination(CollectiveKind kind) {
  return kind == CollectiveKind::kReduce || kind == CollectiveKind::kGather;
}

// True when each rank that brings or gets something has it.
bool complete(const CollectiveCall& call, const Pieces& inputs, const Pieces& results) {
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    const bool root = static_cast<std::int64_t>(rank) == call.source;
    if ((root || !has_source(call.kind)) && !inputs[rank].defined()) return false;
    if ((root || !has_destination(call.kind)) && !results[rank].defined()) return false;
  }
  return true;
}

// The terms that every rank brings, reduced.
WholeValue reduced(const Pieces& inputs, ReduceOp op, const std::vector<std::int64_t>& ranks) {
  const TensorMeta meta = contiguous_meta(inputs[0].shape(), inputs[0].dtype());
  const DTensorSpec* spec = group_spec(inputs.size(), Placement::partial(op), meta);
  Pieces terms;
  for (const DTensor& input : inputs) terms.emplace_back(input.local(), spec);
  return whole_value_of(terms, ranks);
}

// The parts of all others' inputs that rank `to` of the group gets.
Tensor dealt_to(const Step& step, const Pieces& inputs, std::size_t to) {
  Pieces parts;
  for (std::size_t from = 0; from < inputs.size(); ++from) {
    const CollectiveCall& call = step.parts[from].collective;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < to; ++i) offset += call.split_lengths[i];
    const auto dim = static_cast<std::size_t>(call.split_dim);
    parts.emplace_back(inputs[from].local().narrow(dim, offset, call.split_lengths[to]));
  }
  return joined(parts, step.first().collective.dim);
}

StepFinding judge_all_to_all(const Step& step, const Pieces& inputs, const Pieces& results) {
  for (std::size_t to = 0; to < results.size(); ++to) {
    const StepFinding finding =
        judge_kept(plain_whole(dealt_to(step, inputs, to)), plain_whole(results[to].local()));
    if (finding.kind != StepFinding::Kind::kBitwise) return finding;
  }
  return {};
}

StepFinding judge_collective(const Step& step) {
  const CollectiveCall& call = step.first().collective;
  const Pieces inputs = pieces_of(step, false);
  const Pieces results = pieces_of(step, true);
  if (!complete(call, inputs, results)) return skipped("collectives without a value on every rank");
  const auto root = static_cast<std::size_t>(call.source);
  using enum CollectiveKind;
  const CollectiveKind kind = call.kind;
  if (kind == kAllToAll) return judge_all_to_all(step, inputs, results);
  WholeValue before;
  if (kind == kAllReduce || kind == kReduce || kind == kReduceScatter) {
    before = reduced(inputs, call.op, step.ranks);
  } else if (kind == kAllGather || kind == kGather) {
    before = plain_whole(joined(inputs, call.dim));
  } else if (kind == kBroadcast || kind == kScatter) {
    before = plain_whole(inputs[root].local());
  } else {
    return skipped("collectives of this kind");
  }
  if (!before.fault.empty()) return wrong(unequal(before.fault));
  if (has_destination(kind)) return judge_kept(before, plain_whole(results[root].local()));
  const bool deals = kind == kReduceScatter || kind == kScatter;
  const WholeValue after =
      deals ? plain_whole(joined(results, call.dim)) : whole_value_of(results, step.ranks);
  return after.fault.empty() ? judge_kept(before, after) : wrong(unequal(after.fault));
}

}  // namespace

std::string move_name(const StepPart& part) {
  if (part.kind == PartKind::kCollective) return std::string(to_string(part.collective.kind));
  constexpr std::string_view kNames[] = {"redistribute", "distribute", "from_local", "to_local",
                                         "collective"};
  return std::string(kNames[static_cast<std::size_t>(part.placing)]);
}

StepFinding judge_move(const Step& step) {
  return step.first().kind == PartKind::kCollective ? judge_collective(step) : judge_placed(step);
}

}  // namespace shardlab
