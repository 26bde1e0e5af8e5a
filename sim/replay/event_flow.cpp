// An op that overwrites all of what it writes does not read it; a broadcast reads its root alone.
#include "sim/replay/event_flow.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "schema/op_row.h"
#include "sim/replay/library_nodes.h"

namespace shardlab {

// The global rank that a broadcast of one rank names; none: it names none, or is of all ranks.
static std::optional<std::int64_t> root_of(const RecordedProgram& program,
                                           const RecordedEvent& event) {
  const auto root = root_of_call(event);
  if (!root || event.rank < 0 || event.group < 0) return std::nullopt;
  return members_of(program, event, event.first_rank()).at(static_cast<std::size_t>(*root));
}

bool makes_values(const RecordedEvent& event) {
  using enum RecordedKind;
  return event.kind == kAlias || event.kind == kOfRanks || event.kind == kOp ||
         event.kind == kCollect || is_move(event.kind);
}

bool is_collective(const RecordedEvent& event) { return event.kind == RecordedKind::kCollect; }

bool copies(const RecordedEvent& event) {
  constexpr std::string_view kCopies[] = {"aten.clone.default", "aten.detach.default",
                                          "aten.alias.default", "aten._to_copy.default",
                                          "aten.copy_.default"};
  return std::ranges::find(kCopies, event.op) != std::end(kCopies);
}

std::string moved_by(const RecordedProgram& program, const RecordedEvent& event) {
  const std::string place = place_of(program, event);
  return place.empty() ? op_text(event) : op_text(event) + " " + place;
}

static bool have_other_numbers(const std::vector<GraphArgument>& a,
                               const std::vector<GraphArgument>& b) {
  for (std::size_t at = 0; at < a.size(); ++at) {
    const auto* one = std::get_if<Scalar>(&a[at].value);
    const auto* other = at < b.size() ? std::get_if<Scalar>(&b[at].value) : nullptr;
    if (one != nullptr && (other == nullptr || !(*other == *one))) return true;
  }
  return false;
}

std::set<std::size_t> events_of_own_numbers(const RecordedProgram& program) {
  using Line = std::pair<std::int32_t, std::string_view>;  // place and op
  std::map<std::pair<std::int32_t, Line>, std::size_t> met;
  std::map<std::pair<Line, std::size_t>, std::vector<std::size_t>> alike;  // of ranks that part
  std::set<std::size_t> own;
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const RecordedEvent& event = program.events[i];
    const auto real = [](const EventValue& one) { return unit_roundoff(one.type.dtype) > 0; };
    if (event.kind != RecordedKind::kOp || std::ranges::any_of(event.out, real)) continue;
    const Line line{event.place, event.op};
    if (event.rank >= 0) alike[{line, met[{event.rank, line}]++}].push_back(i);
    const bool differ = std::ranges::any_of(event.args_of_ranks, [&](const auto& args) {
      return have_other_numbers(event.args_of_ranks[0], args);
    });
    if (differ) own.insert(i);
  }
  for (const auto& [line, events] : alike) {
    const std::vector<GraphArgument>& first = program.events[events[0]].args;
    const bool differ = std::ranges::any_of(events, [&](std::size_t one) {
      return have_other_numbers(first, program.events[one].args);
    });
    if (differ) own.insert(events.begin(), events.end());
  }
  return own;
}

bool overwrites(const RecordedEvent& event) {
  constexpr std::string_view kOps[] = {"copy_",          "fill_",         "zero_",        "normal_",
                                       "uniform_",       "bernoulli_",    "exponential_", "random_",
                                       "_foreach_copy_", "_foreach_zero_"};
  const bool out =
      event.row != nullptr ? event.row->op.is_out_variant() : is_library_call(event.op);
  const bool draws = event.random && bare_op(event.op) == "rrelu_with_noise";
  return out || draws || std::ranges::find(kOps, bare_op(event.op)) != std::end(kOps);
}

bool reads(const RecordedProgram& program, const RecordedEvent& event, std::int32_t operand) {
  const std::string_view op = bare_op(event.op);
  if (op == "broadcast_") {
    const auto root = root_of(program, event);
    return !root || *root == event.rank;
  }
  if (op == "unflatten_dense_tensors") {  // the others say shapes alone
    std::int32_t flat = -1;
    for_each_operand(event, [&](std::int32_t one) { flat = flat < 0 ? one : flat; });
    return operand == flat;
  }
  const bool sums = op.starts_with("allreduce") || op.starts_with("all_reduce") || op == "reduce_";
  bool given = false;
  for_each_given(event, [&](const EventValue& one) { given = given || one.id.id == operand; });
  return sums || !given || !overwrites(event);
}

std::size_t end_of_line(const RecordedProgram& program, std::size_t event) {
  const std::size_t line = program.events[event].line;
  if (program.events[event].rank < 0) return event + 1;
  while (event < program.events.size() && program.events[event].line == line) ++event;
  return event;
}

namespace {

std::vector<std::int32_t> numbers_given(const RecordedEvent& event) {
  std::vector<std::int32_t> all;
  for_each_given(event, [&](const EventValue& one) { all.push_back(one.id.id); });
  return all;
}

}  // namespace

std::vector<std::pair<std::size_t, std::int32_t>> results_of_line(const RecordedProgram& program,
                                                                  std::size_t event,
                                                                  std::int32_t value,
                                                                  bool any_module) {
  std::vector<std::pair<std::size_t, std::int32_t>> places;
  const RecordedEvent& own = program.events[event];
  const std::vector<std::int32_t> given = numbers_given(own);
  const auto at = static_cast<std::size_t>(std::ranges::find(given, value) - given.begin());
  // The backward of one call may have the op several times, each for another operand.
  std::map<std::optional<std::size_t>, std::size_t> met;
  std::vector<std::pair<std::size_t, std::size_t>> alike;  // event, its place in its backward
  std::size_t own_place = 0;
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const RecordedEvent& one = program.events[i];
    const bool same = one.op == own.op && one.place == own.place && one.pass == own.pass &&
                      one.node == own.node && one.rank == own.rank;
    if (!same || (!any_module && module_of(program, one) != module_of(program, own))) continue;
    alike.emplace_back(i, one.of ? met[one.of]++ : 0);
    if (i == event) own_place = alike.back().second;
  }
  for (const auto& [i, place] : alike) {
    const std::vector<std::int32_t> numbers = numbers_given(program.events[i]);
    if (place == own_place && at < numbers.size()) places.emplace_back(i, numbers[at]);
  }
  return places;
}

bool draws(const std::string& op) {
  const auto has = [&](const char* part) { return op.find(part) != std::string::npos; };
  return has("dropout") || has("bernoulli") || has("rand") || has("normal_") || has("multinomial");
}

}  // namespace shardlab
