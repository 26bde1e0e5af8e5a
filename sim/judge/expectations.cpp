// Each line of [expect] becomes one report, met or not, with the value found. Counts of collectives
// are those of the rank with the most; a collective that is not listed is expected not to happen.
#include "sim/judge/expectations.h"

#include <fmt/format.h>

#include <algorithm>

#include "mesh/type_string.h"
#include "sim/run/mesh_names.h"
#include "sim/scenario/type_text.h"

namespace shardlab {

namespace {

// The last value of a name on the first rank that has one.
const DTensor* last_value(const std::vector<const Recording*>& recordings,
                          const std::string& name) {
  for (const Recording* rank : recordings) {
    const auto& values = rank->values();
    for (auto value = values.rbegin(); value != values.rend(); ++value) {
      if (value->name == name) return &value->value;
    }
  }
  return nullptr;
}

// The type on the mesh of the value, or on the scenario's if its names are not dims there.
const DTensorSpec* wanted_spec(const ExpectedType& expected, const MeshLayout* layout,
                               const DTensor* value) {
  const DType dtype = value != nullptr ? value->dtype() : DType::kF32;
  if (value != nullptr && value->distributed() && value->spec()->layout() != layout) {
    try {
      return spec_of(expected.type, value->spec()->layout(), dtype);
    } catch (const Error&) {
      return spec_of(expected.type, layout, dtype);
    }
  }
  return spec_of(expected.type, layout, dtype);
}

bool same_layout(const DTensor& value, const DTensorSpec& wanted) {
  if (value.shape() != wanted.shape() || value.dtype() != wanted.dtype()) return false;
  if (!value.distributed()) return wanted.is_replicated();
  return value.spec()->placements() == wanted.placements() &&
         value.spec()->order() == wanted.order();
}

ExpectationReport check_type(const ExpectedType& expected, const Run& run,
                             const std::vector<const Recording*>& recordings) {
  ExpectationReport report;
  report.what = expected.full_name();
  report.where = expected.where;
  const DTensor* value = last_value(recordings, expected.full_name());
  const DTensorSpec* wanted = wanted_spec(expected, run.layout, value);
  if (value == nullptr) {
    report.text = fmt::format("expected {}, got no value", type_string(*wanted));
    return report;
  }
  const std::string found = type_string(*value) + on_mesh(run, value->spec());
  const std::string& mesh = expected.type.mesh;
  const bool there =
      mesh.empty() || (value->distributed() && mesh_name(run, *value->spec()->layout()) == mesh);
  report.met = same_layout(*value, *wanted) && there;
  const std::string text =
      mesh.empty() ? shown_type(run, *wanted) : type_string(*wanted) + " on " + mesh;
  report.text = report.met ? text : fmt::format("expected {}, got {}", text, found);
  return report;
}

std::int64_t largest_count(const std::vector<const CollectiveCounts*>& counts,
                           CollectiveKind kind) {
  std::int64_t largest = 0;
  for (const CollectiveCounts* rank : counts) largest = std::max(largest, rank->total(kind));
  return largest;
}

void check_collectives(const Scenario& scenario, const std::vector<const CollectiveCounts*>& counts,
                       std::vector<ExpectationReport>& reports) {
  if (!scenario.expect.collectives) return;
  for (std::size_t index = 0; index < kCollectiveKinds; ++index) {
    const auto kind = static_cast<CollectiveKind>(index);
    const std::string name(to_string(kind));
    const auto& listed = collective_names();
    if (std::find(listed.begin(), listed.end(), name) == listed.end()) continue;
    const std::int64_t found = largest_count(counts, kind);
    const auto& bounds = *scenario.expect.collectives;
    const auto bound =
        std::find_if(bounds.begin(), bounds.end(), [&](const auto& b) { return b.first == name; });
    if (bound != bounds.end()) {
      reports.push_back(
          check_count("collectives." + name, bound->second, static_cast<double>(found)));
    } else if (found > 0) {
      reports.push_back({.what = "collectives." + name,
                         .text = fmt::format("expected none (not listed), got {}", found),
                         .where = bounds.empty() ? Where() : bounds.front().second.where});
    }
  }
}

void check_bytes(const Scenario& scenario, const std::vector<const CollectiveCounts*>& counts,
                 std::vector<ExpectationReport>& reports) {
  if (!scenario.expect.bytes) return;
  double largest = 0;
  for (const CollectiveCounts* rank : counts) largest = std::max(largest, rank->bytes());
  reports.push_back(check_count("bytes", *scenario.expect.bytes, largest));
}

std::int64_t bytes_of(const PeakReport& peak, std::string_view key) {
  for (std::size_t i = 0; i < kHeldForCount; ++i) {
    if (key_of(static_cast<HeldFor>(i)) == key) return peak.most[i];
  }
  return peak.bytes;
}

void check_memory(const Scenario& scenario, const PeakReport& peak,
                  std::vector<ExpectationReport>& reports) {
  for (const auto& [key, bound] : scenario.expect.memory) {
    reports.push_back(
        check_count("memory." + key, bound, static_cast<double>(bytes_of(peak, key))));
  }
}

}  // namespace

ExpectationReport check_count(std::string what, const Bound& bound, double found,
                              const std::string& more) {
  ExpectationReport report{
      .what = std::move(what), .met = bound.holds(found), .where = bound.where};
  report.text = report.met ? fmt::format("{:.0f}", found)
                           : fmt::format("expected {}, got {:.0f}{}", bound.text, found, more);
  return report;
}

std::vector<ExpectationReport> check_expectations(
    const Run& run, const std::vector<const Recording*>& recordings,
    const std::vector<const CollectiveCounts*>& counts) {
  const Scenario& scenario = run.scenario;
  std::vector<ExpectationReport> reports;
  for (const ExpectedType& expected : scenario.expect.types) {
    reports.push_back(check_type(expected, run, recordings));
  }
  check_collectives(scenario, counts, reports);
  check_bytes(scenario, counts, reports);
  check_memory(scenario, run.memory.largest(), reports);
  return reports;
}

}  // namespace shardlab
