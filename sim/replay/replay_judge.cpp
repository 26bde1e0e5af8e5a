// Only numbers are needed here: fingerprints, sizes, and which values share memory.
#include "sim/replay/replay_judge.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "mesh/type_string.h"
#include "ops/core/meta.h"
#include "schema/op_row.h"
#include "sim/replay/event_flow.h"
#include "sim/replay/library_nodes.h"

namespace shardlab {

namespace {

constexpr const char* kGaps = "X-74: gloo reads and writes as if the tensor had no gaps";

// The release whose placements, moves and collectives we follow.
constexpr std::string_view kRelease = "2.15.";

// For each value the index of the last event that names it.
std::vector<std::size_t> last_uses(const RecordedProgram& program) {
  std::vector<std::size_t> last(static_cast<std::size_t>(program.values), 0);
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const RecordedEvent& event = program.events[i];
    const auto use = [&](std::int32_t number) {
      if (number >= 0) last[static_cast<std::size_t>(number)] = i;
    };
    for_each_operand(event, use);
    for_each_given(event, [&](const EventValue& one) { use(one.id.id); });
  }
  return last;
}

// Our dispatcher refuses to move a DTensor that the call writes; PyTorch moves a copy of it.
bool moves_what_it_writes(const RecordedEvent& event, const Error& error) {
  const bool writes = is_in_place(event.op) ||
                      (event.row != nullptr &&
                       std::ranges::any_of(event.row->op.arguments, [](const SchemaArgument& one) {
                         return one.alias.write;
                       }));
  return event.distributed && writes && error.kind() == ErrorKind::kRuntime;
}

// A collective that writes a tensor with gaps between its elements, or with shared ones, on any
// rank: the others wait for it.
bool fills_gaps(const RecordedEvent& event) {
  return event.kind == RecordedKind::kCollect &&
         std::ranges::any_of(event.written, [](const EventValue& one) {
           if (one.of_ranks.empty()) return !is_dense(one.meta());
           return !std::ranges::all_of(one.of_ranks, is_dense);
         });
}

// It gave gloo a tensor whose memory is shorter.
bool reads_behind(const PlayedGraph& graph, std::size_t event) {
  const auto found = graph.unknown.find(graph.meeting(event));
  return found != graph.unknown.end() && found->second == event;
}

// Drawn numbers are taken from the file: an op that draws needs no row.
bool has_all_elements(const RecordedEvent& event) {
  const std::vector<Given> given = given_by(event);
  return std::ranges::none_of(given, [](const Given& one) { return one.value->elements.empty(); });
}

double rounding_of_element(DType dtype) { return 8 * unit_roundoff(dtype); }

// The mean magnitude of a sum that cancels keeps the rounding of its terms.
double noise_of(const PrintOrigin& origin, double size) {
  if (origin.exact || size == 0) return 0;
  return std::min(1.0, rounding_of_element(origin.coarsest) * std::max(1.0, origin.terms / size));
}

std::string rule_text(const Placements& placements) {
  std::string text;
  for (const Placement& one : placements) text += (text.empty() ? "" : ", ") + to_string(one);
  return "[" + text + "]";
}

std::string rule_text(const std::vector<RecordedMove>& moves) {
  std::string text;
  for (const RecordedMove& one : moves) {
    text += fmt::format("{}operand {} {} to {}", text.empty() ? "" : ", ", one.operand,
                        rule_text(one.from), rule_text(one.to));
  }
  return text.empty() ? "none" : text;
}

std::string rule_text(const std::vector<RecordedCollective>& collectives) {
  std::string text;
  for (const RecordedCollective& one : collectives) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", one.kind,
                        one.reduce.empty() ? "" : " " + one.reduce,
                        one.dim ? fmt::format(" over mesh dim {}", *one.dim) : "");
  }
  return text.empty() ? "none" : text;
}

// Along this mesh dim one tensor dim was cut, and then another one.
bool is_exchange(const RecordedEvent& event, const Placements& from,
                 const RecordedCollective& collective) {
  const auto dim = static_cast<std::size_t>(collective.dim.value_or(-1));
  const Placements& to = event.out[0].type.placements;
  return dim < from.size() && dim < to.size() && from[dim] != to[dim] && from[dim].is_shard() &&
         to[dim].is_shard();
}

// PyTorch gathers on a CPU where it would exchange pieces; the move is compared.
std::vector<RecordedCollective> recorded_collectives(const RecordedEvent& event) {
  std::vector<RecordedCollective> all = event.collectives;
  for (RecordedCollective& one : all) {
    const bool exchange = one.kind == "all_gather_into_tensor" && !event.out.empty() &&
                          is_exchange(event, event.from, one);
    if (exchange) one.kind = "shard_dim_alltoall";
  }
  return all;
}

}  // namespace

std::string text_of(const SeenValue& seen) {
  if (seen.whole) return seen.whole->text();
  std::vector<RecordedPrint> prints;
  for (const SeenPart& part : seen.parts) prints.push_back(part.print.sums);
  return text_of(prints);
}

PrintComparison compare_all(const EventValue& recorded, const SeenValue& ours,
                            const PrintOrigin& origin) {
  const auto of_rank = [&](std::size_t rank) {
    return recorded.prints[recorded.prints.size() == 1 ? 0 : rank];
  };
  if (ours.whole) return compare_prints(of_rank(0), *ours.whole, origin);
  PrintComparison worst;
  for (std::size_t rank = 0; rank < ours.parts.size(); ++rank) {
    const PrintComparison one = compare_prints(of_rank(rank), ours.parts[rank].print, origin);
    worst.verdict = std::max(worst.verdict, one.verdict);
    worst.drift = std::max(worst.drift, one.drift);
    worst.vague = worst.vague || one.vague;
  }
  return worst;
}

ReplayJudge::ReplayJudge(const RecordedProgram& program, const PlayedGraph& graph,
                         const SeenTable& seen)
    : program_(program),
      graph_(graph),
      seen_(seen),
      known_(static_cast<std::size_t>(program.values)),
      last_use_(last_uses(program)) {}

ReplayReport ReplayJudge::judge() {
  report_.rules_are_ours = program_.torch.starts_with(kRelease);
  std::vector<std::size_t> order(program_.events.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!graph_.messages.empty()) {
    std::ranges::stable_sort(order, {}, [&](std::size_t event) { return seen_.at(event).order; });
  }
  for (const std::size_t event : order) {
    at_ = event;
    judge_messages();
    judge_event();
    let_go();
  }
  const auto by_line = [](auto& list) {
    std::ranges::stable_sort(list, {}, &ReplayDifference::line);
  };
  by_line(report_.differences);
  by_line(report_.rules);
  return std::move(report_);
}

// Values that no later event names share no memory any more.
void ReplayJudge::let_go() {
  const auto drop = [&](std::int32_t number) {
    if (last_use_[static_cast<std::size_t>(number)] != at_) return;
    for (const Storage* memory : std::exchange(known(number).memory, {})) {
      const auto sharing = by_memory_.find(memory);
      if (sharing == by_memory_.end()) continue;
      std::erase(sharing->second, number);
      if (sharing->second.empty()) by_memory_.erase(sharing);
    }
  };
  for_each_operand(event(), drop);
  for_each_given(event(), [&](const EventValue& one) { drop(one.id.id); });
}

// A receive has the facts of what was sent, once that has been judged.
void ReplayJudge::judge_messages() {
  std::erase_if(awaited_, [&](std::size_t receive) {
    const auto sent = sent_.find(graph_.messages.at(receive));
    if (sent == sent_.end()) return false;
    known(value_of_message(program_.events[receive])) = sent->second;
    return true;
  });
}

void ReplayJudge::judge_event() {
  using enum RecordedKind;
  const RecordedEvent& now = event();
  if (seen_.at(at_).ranks.empty()) return;  // of a rank that is not played
  const SeenEvent& seen = seen_.at(at_);
  if (now.kind == kInput || now.kind == kConstant) {
    take_as_given(now.out[0].id.id, now.out[0], now.undefined);
    known(now.out[0].id.id).size = size_of(seen.values[0]);
    note_memory(now.out[0].id.id, seen.values[0]);
  } else if (now.kind == kAlias) {
    known(now.out[0].id.id) = known(now.takes[0]);
    note_memory(now.out[0].id.id, seen.values[0]);
  } else if (now.kind == kOfRanks) {
    std::optional<Known> all;
    for_each_operand(now, [&](std::int32_t number) {
      if (all) mix(*all, known(number));
      if (!all) all = known(number);
    });
    if (all) known(now.out[0].id.id) = *all;
    note_memory(now.out[0].id.id, seen.values[0]);
  } else if (now.kind == kCheck || now.kind == kArrived) {
    compare_again(given_by(now)[0]);
  } else if (is_played(program_, now)) {
    judge_call();
  }
}

// Elements of the file are the value's.
void ReplayJudge::take_as_given(std::int32_t number, const EventValue& value, bool undefined) {
  Known first;
  first.dtype = first.origin.coarsest = value.type.dtype;
  first.undefined = undefined;
  first.memory = known(number).memory;
  known(number) = first;
}

void ReplayJudge::judge_call() {
  const RecordedEvent& now = event();
  const SeenEvent& seen = seen_.at(at_);
  if (graph_.missing[at_]) {
    if (now.random && has_all_elements(now)) {
      const std::vector<Given> given = given_by(now);
      report_.unknown += std::ssize(given);
      for (const Given& one : given) take_as_given(one.value->id.id, *one.value, false);
      return;
    }
    return misses(now.op);
  }
  const auto any = [&](const auto& is) { return std::ranges::any_of(seen.ranks, is); };
  if (!now.misfit.empty() && now.error.empty()) {
    ++report_.ops;
    return differs("error", "a result", now.misfit);
  }
  if (any([](const SeenOnRank& one) { return !one.ran; })) return;  // the replay ended before it
  if (any([](const SeenOnRank& one) { return one.skipped; })) return void(++report_.skipped);
  ++report_.ops;
  if (any([](const SeenOnRank& one) { return one.supposed; })) {
    ++report_.skipped;
    return;
  }
  const bool fails = any([](const SeenOnRank& one) { return one.error.has_value(); });
  if (fails || !now.error.empty()) return compare_errors();
  if (is_recorded_message(now)) {
    const std::int32_t number = value_of_message(now);
    const bool sends = is_recorded_send(now);
    if (!sends) known(number).undefined = false;
    if (sends) sent_[at_] = known(number);
    if (!sends && graph_.messages.contains(at_)) awaited_.push_back(at_);
    return;
  }
  for (const SeenOnRank& one : seen.ranks) {
    const bool first = &one == &seen.ranks[0];
    for (const SeenSize& own : one.sizes) {
      double& size = known(own.number).size;
      if (first) size = own.size;
      if (!first && own.adds_up) size += own.size;
    }
  }
  compare_rule();
  if (reads_behind(graph_, at_) || (moves_memory(now.op) && fills_gaps(now))) {
    const std::string rank = now.rank < 0 ? "" : fmt::format(", on rank {}", now.rank);
    report_.reference.push_back(
        difference("mut[0]", "its elements", "what is stored behind the first one" + rank));
    report_.reference.back().known = kGaps;
  }
  const std::vector<Given> given = given_by(now);
  for (std::size_t i = 0; i < given.size(); ++i) compare(given[i], i, given.size());
}

// `op`: its name, with a reason if it exists.
void ReplayJudge::misses(const std::string& op) {
  ++report_.unjudged;
  if (std::ranges::count(report_.missing, op) == 0) report_.missing.push_back(op);
}

void ReplayJudge::compare_errors() {
  const auto& ranks = seen_.at(at_).ranks;
  const auto failed =
      std::ranges::find_if(ranks, [](const SeenOnRank& one) { return one.error.has_value(); });
  if (event().error.empty()) {
    ReplayDifference found = difference("error", "a result", failed->error->text());
    const bool known = moves_what_it_writes(event(), *failed->error);
    if (failed->error->kind() == ErrorKind::kUnsupported && !event().distributed)
      return misses(event().op + ": " + failed->error->summary());
    if (known) found.known = "X-82: it writes a copy that it has moved, and drops it";
    (found.known.empty() ? report_.differences : report_.reference).push_back(std::move(found));
  } else if (failed == ranks.end() && event().distributed) {
    ++report_.better;
  } else if (failed == ranks.end()) {
    differs("error", event().error, "a result");
  }
}

// The moves of operands and their collectives are a rule of a release and no value.
void ReplayJudge::compare_rule() {
  const RecordedEvent& now = event();
  const bool moves = is_move(now.kind);
  const std::optional<SeenRule>& ours = seen_.at(at_).rule;
  if ((!now.distributed && !moves) || of_loss_parallel(now) || !ours) return;
  const auto add = [&](std::string field, std::string expected, std::string got) {
    report_.rules.push_back(difference(std::move(field), std::move(expected), std::move(got)));
  };
  const bool composite = now.row != nullptr && now.row->parts() != nullptr;
  if (!moves && !composite && now.moves != ours->moves) {
    return add("moves", rule_text(now.moves), rule_text(ours->moves));
  }
  const auto collectives = recorded_collectives(now);
  if (collectives != ours->collectives) {
    return add("collectives", rule_text(collectives), rule_text(ours->collectives));
  }
  for (std::size_t i = 0; i < std::min(now.out.size(), ours->placements.size()); ++i) {
    const auto& placements = ours->placements[i];
    if (!placements || !now.out[i].whole() || *placements == now.out[i].type.placements) continue;
    return add(fmt::format("out[{}]", i), rule_text(now.out[i].type.placements),
               rule_text(*placements));
  }
}

// Facts about the operands of one result: of lists with one operand for each result, its own.
ReplayJudge::Known ReplayJudge::known_of(const Given& one, std::size_t results) const {
  const RecordedEvent& now = event();
  Known result;
  result.dtype = one.value->type.dtype;
  result.elements = product(one.value->meta().shape);
  result.origin.coarsest = result.dtype;
  result.origin.exact = is_integral(result.dtype);
  result.of_vague = true;
  bool any = false;
  const std::size_t rank = now.first_rank();
  const auto visit = [&](const GraphArgument& argument) {
    const auto* list = std::get_if<std::vector<GraphArgument>>(&argument.value);
    const bool of_values = list != nullptr && list->size() > 1 &&
                           std::holds_alternative<ValueRef>(list->front().value);
    const GraphArgument& own =
        of_values && results % list->size() == 0 ? (*list)[one.index % list->size()] : argument;
    for_each_value(own, [&](const ValueRef& value) { inherit(result, value.id, any); });
  };
  for (const GraphArgument& argument : now.args_on(rank)) visit(argument);
  for (const GraphArgument& argument : now.filled) visit(argument);
  if (is_move(now.kind)) inherit(result, now.takes[0], any);
  result.of_vague = result.of_vague && any;
  result.unknown = graph_.unknown.contains(graph_.meeting(at_));
  result.undefined = now.undefined || result.unknown;
  for_each_operand(now, [&](std::int32_t number) {
    if (result.undefined || !known(number).undefined) return;
    result.undefined = !overwrites(now) || !is_written(number);
  });
  // Terms of a gradient by a whole norm cancel, all but their rounding.
  const auto* first =
      now.args_on(rank).empty() ? nullptr : std::get_if<ValueRef>(&now.args_on(rank)[0].value);
  if (first != nullptr && bare_op(now.op).ends_with("norm_backward")) {
    result.origin.terms = std::max(result.origin.terms, known(first->id).size);
  }
  return result;
}

// Asks by number; what differs by rank is written under a new one, in the same memory.
bool ReplayJudge::is_written(std::int32_t number) const {
  const std::vector<Given> given = given_by(event());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::vector<SeenPart>& parts = seen_.at(at_).values[i].parts;
    const bool same = !parts.empty() && std::ranges::find(known(number).memory, parts[0].memory) !=
                                            known(number).memory.end();
    if (same || given[i].value->id.id == number) return true;
  }
  return false;
}

void ReplayJudge::inherit(Known& result, std::int32_t number, bool& any) const {
  const Known& from = known(number);
  PrintOrigin& origin = result.origin;
  origin.coarsest = coarser(origin.coarsest, from.origin.coarsest);
  origin.drift = std::max(origin.drift, from.origin.drift);
  result.noise = std::max(result.noise, from.noise);
  if (from.elements <= result.elements) {  // it makes no mean of them
    result.element_error = std::max(result.element_error, from.element_error);
  }
  result.parted = result.parted || from.parted;
  const bool floating = unit_roundoff(from.dtype) > 0;
  origin.exact = origin.exact && from.origin.exact && !floating;
  if (!floating || (from.size <= 0 && !from.vague)) return;  // NaN has no size
  result.of_vague = result.of_vague && from.vague;
  const double terms = origin.terms > 0 ? origin.terms : from.size;
  if (from.size > 0) origin.terms = std::min(terms, from.size);
  any = true;
}

bool ReplayJudge::has_shape(const Given& one, const SeenValue& seen) {
  const std::size_t first = seen_.ranks_of(at_).first;
  for (std::size_t i = 0; i < seen.parts.size(); ++i) {
    const SeenPart& part = seen.parts[i];
    const TensorMeta meta = one.value->meta(first + i);
    if (part.shape == meta.shape && part.dtype == meta.dtype) continue;
    differs(one.field(), type_string(meta),
            fmt::format("{} on rank {}", type_string(contiguous_meta(part.shape, part.dtype)),
                        first + i));
    return false;
  }
  return true;
}

void ReplayJudge::compare(const Given& one, std::size_t index, std::size_t results) {
  const SeenValue& seen = seen_.at(at_).values[index];
  const bool all = std::ranges::all_of(seen.parts, &SeenPart::there);
  if (!all || !has_shape(one, seen)) return;
  const std::int32_t number = one.value->id.id;
  Known now = known_of(one, results);
  compare_print(one.field(), one, index, now);
  known(number) = now;
  note_memory(number, seen);
  if (one.written() || (is_in_place(event().op) && one.index == 0)) spread(number);
}

void ReplayJudge::compare_print(const std::string& field, const Given& one, std::size_t index,
                                Known& now) {
  const SeenValue& seen = seen_.at(at_).values[index];
  now.size = size_of(seen);
  if (program_.shapes_only || one.value->prints.empty() || now.undefined) {
    ++report_.unknown;
    return;
  }
  const PrintComparison found = compare_all(*one.value, seen, now.origin);
  now.origin.drift = found.drift;
  const double of_one = found.drift * std::sqrt(static_cast<double>(now.elements));
  now.element_error = std::max(now.element_error, std::min(1.0, of_one));
  now.noise = std::min(1.0, std::hypot(now.noise, noise_of(now.origin, now.size)));
  // A NaN hides the elements beside it.
  now.vague = now.of_vague || found.vague || std::isnan(one.value->prints[0][0]);
  const bool differs_now = found.verdict == PrintVerdict::kDiffers;
  if (found.verdict == PrintVerdict::kAgrees) ++report_.agree;
  if (found.verdict == PrintVerdict::kUndecided) ++report_.undecided;
  if (differs_now && !now.origin.exact && now.of_vague) {
    ++report_.undecided;
  } else if (differs_now) {
    Suspect suspect{.event = at_, .index = index, .off = found.drift};
    suspect.may_be_rounding = !now.origin.exact;
    const auto each = [&](const auto& visit) {
      for_each_operand(event(), event().first_rank(), visit);
    };
    bool written = false;  // steps of optimizers write what they take
    each([&](std::int32_t number) { written = written || number == one.value->id.id; });
    each([&](std::int32_t number) {
      const Known& of = known(number);
      const double own = written ? of.noise : rounding_of_element(of.origin.coarsest);
      suspect.noise.emplace_back(number, std::max(of.element_error, own));
    });
    suspect.difference = difference(field, text_of(one.value->prints), text_of(seen));
    suspects_.push_back(std::move(suspect));
  }
  // Labels that a program puts on pieces may be wrong; results computed from right ones are not.
  using enum RecordedKind;
  const bool makes_pieces =
      event().distributed || event().kind == kRedistribute || event().kind == kRedistributeBack;
  if (!seen.fault.empty() && !now.parted && makes_pieces) {
    differs(field, "the same on ranks that hold one piece", seen.fault);
  }
  now.parted = now.parted || !seen.fault.empty();
}

// A value once more, by name.
void ReplayJudge::compare_again(const Given& one) {
  const SeenValue& seen = seen_.at(at_).values[0];
  const std::string name = event().name.empty() ? "arrived" : event().name;
  const auto count = std::ranges::count_if(seen.parts, &SeenPart::there);
  if (count == 0) return;
  if (count < std::ssize(seen.parts)) {
    return differs(name, fmt::format("a value on {} ranks", seen.parts.size()),
                   fmt::format("on {}", count));
  }
  Known& before = known(one.value->id.id);
  // A value that arrives has been written, or should have been.
  if (event().kind == RecordedKind::kArrived) before.undefined = before.unknown;
  Known now = before;
  compare_print(name, one, 0, now);
  // Results of a collective are compared when they arrive. The rounding of their terms stays.
  if (event().kind == RecordedKind::kArrived) {
    now.size = std::max(now.size, before.size);
    before = now;
  }
}

// The sum of magnitudes; of terms of a sum, of theirs, whose rounding the sum has.
double ReplayJudge::size_of(const SeenValue& seen) const {
  if (program_.shapes_only) return 0;
  if (seen.whole && !seen.terms) return seen.whole->sizes[0];
  double size = 0;
  for (const SeenPart& part : seen.parts) {
    const double own = part.print.sizes[0];
    size = seen.terms ? size + own : std::max(size, own);
  }
  return size;
}

void ReplayJudge::note_memory(std::int32_t number, const SeenValue& seen) {
  std::vector<const Storage*>& memory = known(number).memory;
  memory.clear();
  // The first rank alone: others free and take memory at their own time.
  for (const SeenPart& part :
       std::span(seen.parts).first(std::min<std::size_t>(1, seen.parts.size()))) {
    if (part.memory == nullptr) continue;
    memory.push_back(part.memory);
    std::vector<std::int32_t>& sharing = by_memory_[part.memory];
    if (std::ranges::find(sharing, number) == sharing.end()) sharing.push_back(number);
  }
}

void ReplayJudge::mix(Known& all, const Known& from) {
  all.origin.coarsest = coarser(all.origin.coarsest, from.origin.coarsest);
  all.origin.drift = std::max(all.origin.drift, from.origin.drift);
  all.origin.exact = all.origin.exact && from.origin.exact;
  all.noise = std::max(all.noise, from.noise);
  all.parted = all.parted || from.parted;
  all.vague = all.vague || from.vague;
  all.undefined = all.undefined || from.undefined;
  all.size = std::max(all.size, from.size);
}

// A write through one value shows in all that share its memory.
void ReplayJudge::spread(std::int32_t number) {
  const Known from = known(number);
  for (const Storage* memory : from.memory) {
    const auto sharing = by_memory_.find(memory);
    if (sharing == by_memory_.end()) continue;
    for (const std::int32_t other : sharing->second) {
      if (other == number) continue;
      const bool vague = known(other).vague;
      const bool undefined = known(other).undefined && from.undefined;
      mix(known(other), from);
      known(other).vague = vague;
      known(other).undefined = undefined;
      known(other).size = -1;
    }
  }
}

}  // namespace shardlab
