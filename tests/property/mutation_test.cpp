// Every collective of every shipped scenario, of long ones some, gives a wrong result once: the run
// must fail, by a value, or, if the single-device run does not verify the value, by the call or by
// an assert_close of the program.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "sim/judge/scenario_run.h"
#include "tests/property/recorded_numbers.h"
#include "tests/property/shipped_scenarios.h"
#include "tests/support/mutating_communicator.h"

namespace shardlab {
namespace {

using namespace test;

enum class Outcome : std::uint8_t {
  kCaught,        ///< by a verified value
  kCaughtByCall,  ///< by a call or an assertion alone
  kMissed,        ///< a verified value differs, and no report says so
  kUnverifiable,  ///< only values that the report calls not verified differ
  /// The step's result differs, but no recorded value is beyond rounding: the moved elements are
  /// only summed up, or the rank keeps none of them.
  kHarmless,
  kNoEffect,  ///< the step's result is the same, byte for byte
};
constexpr std::size_t kOutcomes = 6;
using Tally = std::array<int, kOutcomes>;
using Tallies = std::map<MutationKind, Tally>;

int& count(Tally& tally, Outcome outcome) { return tally[static_cast<std::size_t>(outcome)]; }

std::string text_of(Tally tally) {
  return fmt::format(
      "{} caught by a value, {} by a call alone, {} missed, {} not verifiable, {} harmless, {} "
      "without effect",
      count(tally, Outcome::kCaught), count(tally, Outcome::kCaughtByCall),
      count(tally, Outcome::kMissed), count(tally, Outcome::kUnverifiable),
      count(tally, Outcome::kHarmless), count(tally, Outcome::kNoEffect));
}

/// Values that differ in every run: the program means another value than one device has.
std::set<std::string> off_keys(const ScenarioResult& result) {
  std::set<std::string> keys;
  for (const ValueReport& value : result.judgement.values) {
    if (is_off(value)) keys.insert(value.key());
  }
  return keys;
}

bool has_wrong_value(const ScenarioResult& result, const std::set<std::string>& off_before) {
  return std::ranges::any_of(result.judgement.values, [&](const ValueReport& value) {
    return is_wrong(value) || (is_off(value) && !off_before.contains(value.key()));
  });
}

std::set<std::string> verified_keys(const ScenarioResult& result) {
  std::set<std::string> keys;
  for (const ValueReport& value : result.judgement.values) {
    if (is_verified(value)) keys.insert(fmt::format("{}#{}", value.name, value.occurrence));
  }
  return keys;
}

/// One scenario, and its run without a mutation.
struct Subject {
  Subject(const ShippedScenario& shipped, const OpRegistry& registry)
      : shipped(shipped), registry(registry), right(run({})) {
    right_numbers = last_numbers;
    right_off = off_keys(right);
  }

  ScenarioResult run(const CommunicatorDecorator& planted) {
    ScenarioOptions options;
    options.communicator = planted;
    options.explain = false;
    options.recorded = [this](const std::vector<Recording>& ranks) {
      last_numbers = numbers_of(ranks);
    };
    return run_scenario(shipped.scenario, registry, options);
  }

  Outcome outcome_of(const Mutation& mutation) {
    const auto effect = std::make_shared<MutationEffect>();
    const ScenarioResult result = run(plant(mutation, effect));
    if (has_wrong_value(result, right_off))
      return result.met() ? Outcome::kMissed : Outcome::kCaught;
    if (effect->changed == 0) return Outcome::kNoEffect;
    const bool asserted = result.run.error && result.run.error->kind() == ErrorKind::kAssert;
    if (result.judgement.steps.wrong || asserted) return Outcome::kCaughtByCall;
    const std::set<std::string> changed = different_numbers(right_numbers, last_numbers);
    if (changed.empty()) return result.met() ? Outcome::kHarmless : Outcome::kMissed;
    const std::set<std::string> verified = verified_keys(right);
    const bool unseen = std::any_of(changed.begin(), changed.end(),
                                    [&](const std::string& key) { return verified.contains(key); });
    return unseen ? Outcome::kMissed : Outcome::kUnverifiable;
  }

  const ShippedScenario& shipped;
  const OpRegistry& registry;
  RecordedNumbers last_numbers;
  ScenarioResult right;
  RecordedNumbers right_numbers;
  std::set<std::string> right_off;
};

/// Kinds of the observed collectives of the reporting rank, in order.
std::vector<CollectiveKind> collectives_of(const ScenarioResult& result) {
  std::vector<CollectiveKind> kinds;
  for (const TraceEvent& event : result.run.events) {
    if (event.kind == TraceEvent::Kind::kCollective) kinds.push_back(event.collective.kind);
  }
  return kinds;
}

/// Places of a mutation: all ranks, then each of them alone; of more than four ranks three, others
/// for each collective.
std::vector<std::optional<std::int64_t>> places(std::int64_t world, std::int64_t index) {
  std::vector<std::optional<std::int64_t>> ranks(1);
  const std::int64_t step = world > 4 ? (world + 2) / 3 : 1;
  for (std::int64_t rank = 0; rank < world; rank += step) {
    ranks.emplace_back((rank + index) % world);
  }
  return ranks;
}

/// All mutations of one collective.
void mutate(Subject& subject, std::int64_t index, CollectiveKind collective, Tallies& tallies) {
  for (const MutationKind kind : kMutationKinds) {
    if (!applies(kind, collective)) continue;
    for (const std::optional<std::int64_t>& rank : places(subject.shipped.scenario.world, index)) {
      const Outcome outcome = subject.outcome_of({kind, index, rank});
      ++count(tallies[kind], outcome);
      if (outcome != Outcome::kMissed) continue;
      FAIL_CHECK(subject.shipped.name << ": collective " << index << " (" << to_string(collective)
                                      << "), " << to_string(kind) << " on "
                                      << (rank ? fmt::format("rank {}", *rank) : "all ranks"));
    }
  }
}

/// Every fourth scenario, from the one at `first` on: four tests of a quarter of the length.
void mutate_scenarios(std::size_t first) {
  OpRegistry registry;
  register_all_ops(registry);
  Tallies all;
  const std::vector<ShippedScenario> scenarios = shipped_scenarios();
  for (std::size_t i = first; i < scenarios.size(); i += 4) {
    const ShippedScenario& shipped = scenarios[i];
    Subject subject(shipped, registry);
    if (subject.right.run.error || !subject.right.judgement.not_verified.empty()) {
      fmt::print("{}: left out, no values are verified\n", shipped.name);
      continue;
    }
    REQUIRE_MESSAGE(subject.right.met(), shipped.name);
    Tallies tallies;
    // Some of a long program, evenly spread: each is a run of its own for each kind and place. Few
    // of a very long one, and of programs over three mesh dims, whose plans take long.
    const std::vector<CollectiveKind> kinds = collectives_of(subject.right);
    const bool few = kinds.size() > 60 || subject.right.run.layout->ndim() > 2;
    const std::size_t most = few ? 3 : 6, step = (kinds.size() + most - 1) / most;
    for (std::size_t index = 0; index < kinds.size(); index += step) {
      mutate(subject, static_cast<std::int64_t>(index), kinds[index], tallies);
    }
    for (const auto& [kind, tally] : tallies) {
      fmt::print("{}: {}: {}\n", shipped.name, to_string(kind), text_of(tally));
      for (std::size_t k = 0; k < kOutcomes; ++k) all[kind][k] += tally[k];
    }
  }
  for (const MutationKind kind : kMutationKinds) {
    fmt::print("all: {}: {}\n", to_string(kind), text_of(all[kind]));
    CHECK(count(all[kind], Outcome::kMissed) == 0);
    CHECK(count(all[kind], Outcome::kCaught) + count(all[kind], Outcome::kCaughtByCall) > 0);
    CHECK(count(all[kind], Outcome::kUnverifiable) == 0);
  }
}

TEST_CASE("a wrong result of one collective is a wrong value in every shipped scenario: first") {
  mutate_scenarios(0);
}

TEST_CASE("a wrong result of one collective is a wrong value in every shipped scenario: second") {
  mutate_scenarios(1);
}

TEST_CASE("a wrong result of one collective is a wrong value in every shipped scenario: third") {
  mutate_scenarios(2);
}

TEST_CASE("a wrong result of one collective is a wrong value in every shipped scenario: fourth") {
  mutate_scenarios(3);
}

}  // namespace
}  // namespace shardlab
