// Steps of a replay with the program's own waits: a live run would wait where values are used.
#include "sim/cli/recorded_promise.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/rank_context.h"
#include "sim/judge/posted_steps.h"
#include "sim/replay/played_calls.h"

namespace shardlab {

namespace {

// Conditions that the recorder saw fail, each line once. A receive from any rank is in the log.
void add_conditions(const RecordedProgram& program, Promise& promise) {
  for (const RecordedEvent& event : program.events) {
    if (event.kind != RecordedKind::kOther || event.name.empty()) continue;
    const bool of_rank = event.name == "barrier" || event.name == "synchronize";
    if (of_rank) continue;
    const bool thread = event.name == "thread";
    const OpenCondition fresh{
        thread ? "C4" : "C2",
        fmt::format("{}: {}", place_text(position_of(program, event)),
                    thread ? "another thread takes part, so that the order of calls is not the "
                             "program's"
                           : event.name + " depends on timing")};
    const bool known = std::ranges::any_of(
        promise.open, [&](const OpenCondition& one) { return one.text == fresh.text; });
    if (!known) promise.open.push_back(fresh);
  }
}

// The first collective of a group that ranks make in different ways: the replay has those alone to
// which all ranks come.
void add_parting(const FabricLog& log, Promise& promise) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> counts;  // by group and rank
  std::map<std::pair<std::int32_t, std::size_t>, const FabricLog::Call*> first;
  for (const FabricLog::Event& event : log.events) {
    if (event.kind != FabricLog::Event::Kind::kPost) continue;
    const FabricLog::Call& call = log.calls[static_cast<std::size_t>(event.call)];
    const std::int32_t group = call.what.group;
    if (call.what.kind != Operation::Kind::kCollective) continue;
    const std::size_t place = counts[{group, call.rank}]++;
    const FabricLog::Call& other = *first.try_emplace({group, place}, &call).first->second;
    if (other.kind == call.kind) continue;
    promise.open.push_back(
        {"C3", fmt::format("{}: rank {} is in {}, and rank {} in {} ({})",
                           place_text(call.position), call.rank, to_string(call.kind), other.rank,
                           to_string(other.kind), place_text(other.position))});
    return;
  }
}

}  // namespace

// A file of a recorder that notes no waits has the ranks' own order of calls, and where values are
// used: with waits for sends a rank may only stop earlier.
Promise promise_of(const RecordedProgram& program, const PromiseOptions& options) {
  const PlayedCalls played = played_calls(program);
  Promise promise = promise_of(played.log, static_cast<std::int64_t>(program.ranks));
  promise.file = program.path;
  promise.asked = options.asked.value_or(kUsualTransports);
  if (played.verdict) {
    promise.open.push_back(condition_of(*played.verdict));
    return promise;
  }
  const auto send =
      std::ranges::find(played.log.calls, CollectiveKind::kSend, &FabricLog::Call::kind);
  const bool any = !promise.open.empty();
  add_conditions(program, promise);
  add_parting(played.log, promise);
  if (!program.error.empty()) {
    promise.open.push_back({"the program failed when it was recorded:", program.error});
  }
  if (any) {
    // The program's next steps are those that it had with the sender that it met.
    const auto meet = [&, steps = promise.steps](Transport transport, const auto& way) {
      return meet_steps(steps, {.transport = transport, .lazy_groups = options.lazy_groups}, way);
    };
    promise.meet(options.runs, meet);
  } else {
    promise.run(options.lazy_groups);
  }
  const bool waits = std::ranges::any_of(program.events, [](const RecordedEvent& event) {
    return event.kind == RecordedKind::kOther && event.of;
  });
  if (send != played.log.calls.end() && !waits) {
    // Nor does it say which messages are a batch.
    std::erase_if(promise.outcomes, [](const auto& one) {
      return one.first >= Transport::kPairQueue && one.first <= Transport::kOneQueue;
    });
    promise.open.push_back(
        {"C5", fmt::format("{}: the recording does not say where a rank waits for a send: record "
                           "it again",
                           place_text(send->position))});
  }
  return promise;
}

int run_recorded(const RecordedProgram& program, const RunArguments& arguments) {
  const Transport transport = *arguments.transport;
  PromiseOptions options{.lazy_groups = arguments.lazy_groups};
  options.asked = std::vector{transport};
  Promise promise = promise_of(program, options);
  std::erase_if(promise.outcomes, [&](const auto& one) { return one.first != transport; });
  const int code = compare_recording(program, arguments, &promise);
  const bool fails = promise.kind() == Promise::Kind::kHangs || code != kFine;
  return fails ? kFailed : promise.outcomes.empty() ? kCannotRun : kFine;
}

}  // namespace shardlab
