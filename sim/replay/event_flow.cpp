// An op that overwrites all of what it writes does not read it; a broadcast reads its root alone.
#include "sim/replay/event_flow.h"

#include <algorithm>
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

bool has_own_numbers(const RecordedEvent& event) {
  const auto& ranks = event.args_of_ranks;
  const auto real = [](const EventValue& one) { return unit_roundoff(one.type.dtype) > 0; };
  if (std::ranges::any_of(event.out, real)) return false;
  for (std::size_t at = 0; !ranks.empty() && at < ranks[0].size(); ++at) {
    const auto* first = std::get_if<Scalar>(&ranks[0][at].value);
    const bool differs = first != nullptr && std::ranges::any_of(ranks, [&](const auto& args) {
                           const auto* own = std::get_if<Scalar>(&args.at(at).value);
                           return own == nullptr || !(*own == *first);
                         });
    if (differs) return true;
  }
  return false;
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
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const RecordedEvent& one = program.events[i];
    const bool same = one.op == own.op && one.place == own.place && one.pass == own.pass &&
                      one.node == own.node && one.rank == own.rank;
    if (!same || (!any_module && module_of(program, one) != module_of(program, own))) continue;
    const std::vector<std::int32_t> numbers = numbers_given(one);
    if (at < numbers.size()) places.emplace_back(i, numbers[at]);
  }
  return places;
}

bool draws(const std::string& op) {
  const auto has = [&](const char* part) { return op.find(part) != std::string::npos; };
  return has("dropout") || has("bernoulli") || has("rand") || has("normal_") || has("multinomial");
}

}  // namespace shardlab
