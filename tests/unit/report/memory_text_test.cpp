// The purposes of memory, as text, as JSON and as a picture.
#include "sim/report/memory_text.h"

#include <doctest/doctest.h>

#include "sim/files/json_value.h"
#include "sim/report/memory_text.h"

namespace shardlab {
namespace {

using Cells = std::vector<std::string>;

TEST_CASE("B-15 a peak says where it stands and what it consists of, without what is not held") {
  const PeakReport peak{.bytes = 3072, .held = {1024, 0, 2048, 0, 0, 0}, .line = 7};
  CHECK(peak_cells(peak) ==
        Cells{"at line 7: parameters and inputs 1 KiB", "kept for backward 2 KiB"});
  const PeakReport backward{
      .bytes = 512, .held = {0, 512, 0, 0, 0, 0}, .line = 7, .pass = Pass::kBackward};
  CHECK(peak_cells(backward) == Cells{"at line 7, in its backward: gradients 512 B"});
  const PeakReport inputs{.bytes = 512, .held = {512, 0, 0, 0, 0, 0}};
  CHECK(peak_cells(inputs) == Cells{"before the first line: parameters and inputs 512 B"});
  CHECK(peak_json(inputs)["line"].is_null());
  CHECK(peak_json(peak)["kept_for_backward"] == 2048);
}

TEST_CASE("B-15 a curve has a column for each point, as high as what is held") {
  const std::vector<MemoryPoint> points = {{1, Pass::kForward, 1024, {1024, 0, 0, 0, 0, 0}},
                                           {1, Pass::kBackward, 2048, {1024, 1024, 0, 0, 0, 0}}};
  const std::string picture = memory_curve(points);
  CHECK(picture.find("2 KiB │ ▓\n") != std::string::npos);
  CHECK(picture.find("1 KiB │██\n") != std::string::npos);
  CHECK(picture.find("pass  fb\n") != std::string::npos);
  CHECK(picture.find("█ parameters and inputs  ▓ gradients\n") != std::string::npos);
  CHECK(memory_curve({}).empty());
  CHECK(timeline_json(points).size() == 2);
}

}  // namespace
}  // namespace shardlab
