// The same scenario under seed after seed. Each run must meet its expectations, and every rank must
// hold the same bytes in all of them: a difference is a dependence on the order of ranks.
#include "sim/judge/schedules.h"

#include <fmt/format.h>

#include <map>

#include "base/hash.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

// Hashes of the bytes that every rank holds of every value, by rank.
using Fingerprints = std::vector<std::map<std::string, std::uint64_t>>;

Fingerprints fingerprints_of(const std::vector<Recording>& ranks) {
  Fingerprints result;
  for (const Recording& rank : ranks) {
    auto& held = result.emplace_back();
    for (const RecordedValue& value : rank.values()) {
      const Tensor& local = value.value.local();
      if (!local.defined()) continue;
      std::string bytes(static_cast<std::size_t>(local.size_bytes()), '\0');
      local.device()->read(local, bytes.data());
      held[value.key()] = hash_text(0, bytes);
    }
  }
  return result;
}

// "y on ranks 0-3, z on rank 1"; empty when all agree.
std::string differences(const Fingerprints& a, const Fingerprints& b) {
  std::map<std::string, std::vector<std::int64_t>> ranks;
  for (std::size_t rank = 0; rank < a.size(); ++rank) {
    for (const auto& [key, value] : a[rank]) {
      const auto other = b[rank].find(key);
      if (other != b[rank].end() && other->second == value) continue;
      ranks[key.substr(0, key.find('#'))].push_back(static_cast<std::int64_t>(rank));
    }
  }
  std::string text;
  for (const auto& [name, where] : ranks) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", name, fold_ranks(where));
  }
  return text;
}

}  // namespace

ScheduleSearch try_schedules(const Scenario& scenario, const OpRegistry& registry,
                             ScenarioOptions options, const ScheduleRange& range) {
  ScheduleSearch search;
  std::optional<Fingerprints> first;
  for (std::int64_t i = 0; i < range.count; ++i) {
    Fingerprints seen;
    options.schedule.kind = SchedulerKind::kSeeded;
    const std::uint64_t seed = range.first_seed + static_cast<std::uint64_t>(i);
    options.schedule.seed = search.steps == 0 ? seed : pct_seed(search.steps, seed);
    options.recorded = [&](const std::vector<Recording>& ranks) { seen = fingerprints_of(ranks); };
    search.result = run_scenario(scenario, registry, options);
    search.result.run.options.recorded = nullptr;
    search.steps = std::max(search.steps, search.result.run.steps);
    // The progress of ranks in a run that fails differs.
    if (!search.result.run.error) {
      if (!first) first = seen;
      if (const std::string text = differences(*first, seen); !text.empty()) {
        search.result.judgement.expectations.push_back(
            {.what = "schedule",
             .met = false,
             .text =
                 fmt::format("values depend on the order of ranks; other than under seed {}: {}",
                             range.first_seed, text)});
      }
    }
    if (!search.result.met()) return search;
    ++search.passed;
  }
  return search;
}

}  // namespace shardlab
