// A rank that waits is a node, what it waits for the next one: a walk either ends, at a rank that
// has ended or runs, or comes back to where it was.
#include "backends/shared/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardlab::backends {

Walk walk_from(std::size_t start, const std::function<std::int64_t(std::size_t)>& next) {
  Walk walk;
  auto at = static_cast<std::int64_t>(start);
  while (at >= 0) {
    const auto seen = std::ranges::find(walk.nodes, static_cast<std::size_t>(at));
    if (seen != walk.nodes.end()) {
      walk.nodes.erase(walk.nodes.begin(), seen);
      const auto lowest = std::ranges::min_element(walk.nodes);
      std::rotate(walk.nodes.begin(), lowest, walk.nodes.end());
      walk.circle = true;
      return walk;
    }
    walk.nodes.push_back(static_cast<std::size_t>(at));
    at = next(walk.nodes.back());
  }
  return walk;
}

// All that wait count as stuck at first. A wait whose missing ranks all come ends, until nothing
// changes.
std::vector<bool> stuck_ranks(std::span<const OpenWait> waits, std::vector<bool> waiting,
                              const std::vector<bool>& ended) {
  std::vector<bool> stuck = std::move(waiting);
  for (bool changed = true; changed;) {
    changed = false;
    for (const OpenWait& wait : waits) {
      const auto comes = [&](std::int64_t rank) {
        const auto index = static_cast<std::size_t>(rank);
        return !ended[index] && !stuck[index];
      };
      const bool enough = wait.any ? std::ranges::any_of(wait.missing, comes)
                                   : std::ranges::all_of(wait.missing, comes);
      if (wait.torn || !enough) continue;
      for (const std::int64_t rank : wait.blocked) {
        const auto index = static_cast<std::size_t>(rank);
        changed = changed || stuck[index];
        stuck[index] = false;
      }
    }
  }
  return stuck;
}

std::vector<std::int64_t> missed(std::span<const RankReport> reports) {
  std::vector<bool> awaited(reports.size());
  for (const RankReport& report : reports) {
    for (const std::int64_t rank : report.missing) awaited[static_cast<std::size_t>(rank)] = true;
  }
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> ended;
  for (const RankReport& report : reports) {
    if (!awaited[static_cast<std::size_t>(report.rank)]) continue;
    all.push_back(report.rank);
    if (report.state == RankReport::State::kEnded) ended.push_back(report.rank);
  }
  return ended.empty() ? all : ended;
}

namespace {

// Awaited by this one: of those that wait themselves the lowest, so that the walk finds a circle.
std::int64_t next_awaited(std::span<const RankReport> reports, const RankReport& report) {
  for (const std::int64_t rank : report.missing) {
    if (reports[static_cast<std::size_t>(rank)].state == RankReport::State::kWaits) return rank;
  }
  return -1;
}

std::string text_of_circle(std::span<const RankReport> reports, const Walk& walk) {
  std::string text;
  for (const std::size_t rank : walk.nodes) {
    const std::string_view between = walk.nodes.size() == 2 ? " while " : ", ";
    if (!text.empty()) text += between;
    text += fmt::format("rank {} {}", rank, reports[rank].does);
  }
  return text;
}

}  // namespace

std::string circle_of(std::span<const RankReport> reports) {
  for (const RankReport& report : reports) {
    if (report.state != RankReport::State::kWaits) continue;
    const bool all_ended = std::ranges::all_of(report.missing, [&](std::int64_t rank) {
      return reports[static_cast<std::size_t>(rank)].state == RankReport::State::kEnded;
    });
    if (!report.message || !all_ended) continue;
    return fmt::format("rank {} {}, {}", report.rank, report.does,
                       report.missing.size() > 1 ? "and all others have ended" : "which has ended");
  }
  for (const RankReport& report : reports) {
    if (report.state != RankReport::State::kWaits) continue;
    const Walk walk = walk_from(static_cast<std::size_t>(report.rank), [&](std::size_t rank) {
      return next_awaited(reports, reports[rank]);
    });
    const auto message = [&](std::size_t rank) { return reports[rank].message; };
    if (walk.circle && std::ranges::any_of(walk.nodes, message)) {
      return text_of_circle(reports, walk);
    }
  }
  return {};
}

}  // namespace shardlab::backends
