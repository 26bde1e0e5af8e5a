// Predicted times of a run's collectives, worked out by hand: of a ring 6.6 us to start, a latency
// per hop, and each rank's sent bytes over the bandwidth of the slowest link, in GiB/s; of a tree
// 6.8 us, 5.0 / 2.7 of a hop a step, and twice the tensor over 0.92 of the bandwidth.
#include "sim/report/collective_sums.h"

#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "sim/scenario/scenario_file.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;

namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

std::vector<CollectiveSum> sums_of(const std::string& head, const std::string& code) {
  const std::string text = head + "[inputs]\nx = { type = \"f32[256]\" }\n" +
                           "y = { type = \"f32[7@tp, 8]\" }\nz = { type = \"f32[2@tp]\" }\n" +
                           "[program]\ncode = \"\"\"\n" + code + "\"\"\"\n";
  return collective_sums(run_scenario(test::scenario_of(text), all_ops(), {}).run);
}

const char* const kMesh = "[mesh]\ndp = 2\ntp = 4\n";
const char* const kSlowTp = "[topology]\ndp = { gbps = 100, us = 2 }\ntp = { gbps = 1, us = 5 }\n";

}  // namespace

TEST_CASE("B-60 a collective over the world waits for the slowest dim of the mesh") {
  const auto sums = sums_of(std::string(kMesh) + kSlowTp,
                            "a = all_reduce(x.to_local(), sum, group=\"tp\")\n"
                            "b = all_reduce(x.to_local(), sum)\n"
                            "c = all_reduce(x.to_local(), sum, group=\"dp\")\n");
  REQUIRE(sums.size() == 3);
  CHECK(sums[0].group.name == "tp");
  CHECK(sums[0].predicted_us == doctest::Approx(6.6 + 6 * 5 + 1536 / kGib / 1 * 1e6));
  CHECK(sums[1].group.name == "world");
  // Eight ranks: a tree of three levels, up and down, is faster than the 14 hops of a ring.
  CHECK(sums[1].predicted_us ==
        doctest::Approx(6.8 + 6 * 5 * (5.0 / 2.7) + 2048 / kGib / 0.92 * 1e6));
  CHECK(sums[2].group.name == "dp");
  CHECK(sums[2].predicted_us == doctest::Approx(6.6 + 2 * 2 + 1024 / kGib / 100 * 1e6));
}

TEST_CASE(
    "B-60 a world with ranks beyond the mesh waits for the link between hosts, if that is slower") {
  const std::string fast = "[topology]\ndp = { gbps = 100, us = 2 }\ntp = { gbps = 100, us = 2 }\n";
  const std::string code = "b = all_reduce(ones([256]), sum)\n";
  // The default link: 87.7 * 0.22 GiB/s, 2.7 us, 5 us a step of a tree. Nine ranks: four levels.
  CHECK(sums_of("world = 9\n" + std::string(kMesh) + fast, code)[0].predicted_us ==
        doctest::Approx(6.8 + 8 * 5 + 2048 / kGib / 0.92 / 19.294 * 1e6));
  CHECK(sums_of("world = 9\n" + std::string(kMesh) + kSlowTp, code)[0].predicted_us ==
        doctest::Approx(6.8 + 8 * 5 * (5.0 / 2.7) + 2048 / kGib / 0.92 * 1e6));
}

TEST_CASE("B-60 an all_gather of uneven and empty pieces costs what the whole does") {
  // Pieces of 2, 2, 2 and 1 rows of 32 bytes; and of 1, 1, 0 and 0 elements.
  const auto sums = sums_of(std::string(kMesh) + kSlowTp, "a = y.redistribute(tp=R)\n");
  REQUIRE(sums.size() == 1);
  CHECK(sums[0].predicted_us == doctest::Approx(6.6 + 3 * 5 + 168 / kGib / 1 * 1e6));
  const auto small = sums_of(std::string(kMesh) + kSlowTp, "a = z.redistribute(tp=R)\n");
  REQUIRE(small.size() == 1);
  CHECK(small[0].predicted_us == doctest::Approx(6.6 + 3 * 5 + 6 / kGib / 1 * 1e6));
}

TEST_CASE("B-60 a link is what the command line says, then the scenario, then that between hosts") {
  const std::string text = std::string(kMesh) +
                           "[topology]\ndp = { gbps = 100, us = 2 }\n[inputs]\n"
                           "z = { type = \"f32[7@tp]\" }\n[program]\ncode = \"y = z + 1\"\n";
  const auto links_of = [&](const std::vector<std::string>& given) {
    std::vector<Setting> settings;
    for (const std::string& one : given) settings.push_back(parse_setting(one));
    const auto source = std::make_shared<const SourceText>("t.toml", text);
    const ScenarioFile file = ScenarioFile::read(source, settings);
    return links_used(run_scenario(file.at(file.points()[0]), all_ops(), {}).run);
  };
  const auto written = links_of({});
  REQUIRE(written.size() == 2);
  CHECK(written[0].link == Link{100, 2});
  CHECK(written[0].given);
  CHECK(written[1].link == Link{});
  CHECK_FALSE(written[1].given);
  const auto set = links_of({"topology.dp.us=1.5", "topology.tp.gbps=400"});
  CHECK(set[0].link == Link{100, 1.5});
  CHECK(set[1].link == Link{400, 2.7});
  CHECK(set[1].given);
  CHECK_THROWS_AS(links_of({"topology.dp.gbps=0"}), ScenarioError);
  CHECK_THROWS_AS(links_of({"topology.pp.gbps=4"}), ScenarioError);
}
