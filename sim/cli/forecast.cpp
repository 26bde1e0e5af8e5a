// Arithmetic and bytes of the reporting rank, times the ranks. Only the order of magnitude matters:
// a minute or an hour.
#include "sim/cli/forecast.h"

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/report/line_reports.h"
#include "sim/report/op_work.h"

namespace shardlab {

namespace {

// The speed of our kernels on one core with AVX2, measured with 2048 x 2048 f32: 4 products took
// 1.6 s, 40 additions 0.3 s.
constexpr double kFlopsPerSecond = 4e10, kBytesPerSecond = 4e9;
// Verified runs compute everything on the ranks, for the judge of each call, and on one device, in
// the program's dtypes and, if a doubt is left, in f64.
constexpr double kTimesWhenVerified = 3;
constexpr double kLong = 60;

std::string duration_text(double seconds) {
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return seconds < 2 * 86400 ? fmt::format("{:.0f} h", seconds / 3600)
                             : fmt::format("{:.0f} days", seconds / 86400);
}

}  // namespace

std::optional<std::string> forecast(const Scenario& scenario, const OpRegistry& registry,
                                    const ScenarioOptions& options) {
  ScenarioOptions shapes = options;
  shapes.backend = "fake";
  shapes.device = {};
  shapes.progress = nullptr;
  double flops = 0, bytes = 0;
  const std::optional<Refusal> unknown = refusal_of([&] {
    prepare_run(scenario, registry, options);  // a refused scenario is not run in another way first
    const ScenarioResult result = run_scenario(scenario, registry, shapes);
    if (result.run.error) return;
    for (const LineReport& line : line_reports(result, line_visits(result.run.events))) {
      flops += line.forward_flops + line.backward_flops;
      bytes += line.bytes;
    }
  });
  if (unknown) return std::nullopt;
  const auto ranks = static_cast<double>(scenario.mesh.size);
  const double times = scenario.expect.verify == Verify::kNone ? 1 : kTimesWhenVerified;
  const double seconds = times * ranks * (flops / kFlopsPerSecond + bytes / kBytesPerSecond);
  if (seconds < kLong) return std::nullopt;
  return fmt::format(
      "note: {} ranks would compute for about {} on one core ({} each); --backend fake shows all "
      "but "
      "values in seconds\n",
      scenario.mesh.size, duration_text(seconds), flops_text(flops));
}

}  // namespace shardlab
