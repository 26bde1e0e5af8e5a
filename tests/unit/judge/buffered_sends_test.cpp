// Runs whose sends do not wait, and the warnings about those that would not end otherwise.
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

// x is 1 in dp 0 and 2 in dp 1.
ScenarioResult run_with(std::optional<Transport> transport, const std::string& code,
                        const std::string& backend = "threads") {
  ScenarioOptions options;
  options.transport = transport;
  options.backend = backend;
  return run_scenario(
      test::scenario_of("[mesh]\ndp = 2\n[inputs]\nx = { type = \"f32[2@dp]\", values = [1, 2] }\n"
                        "[program]\ncode = \"\"\"\nmine = x.to_local()\nother = "
                        "torch.zeros_like(mine)\n" +
                        code + "\"\"\"\n"),
      all_ops(), options);
}

constexpr const char* kBothSend =
    "dist.send(mine, 1 - rank)\n"
    "dist.recv(other, 1 - rank)\n"
    "y = from_local(other, mesh=mesh, dp=S(0))\n"
    "assert y.full_tensor()[0].item() == 2\n";
constexpr const char* kOneSendsFirst =
    "if rank == 0:\n"
    "    dist.send(mine, 1)\n"
    "    dist.recv(other, 1)\n"
    "else:\n"
    "    dist.recv(other, 0)\n"
    "    dist.send(mine, 0)\n";

TEST_CASE("B-24 a program that needs buffered sends is reported with the ranks that wait") {
  for (const char* backend : {"threads", "fake"}) {
    CAPTURE(backend);
    const bool values = std::string_view(backend) == "threads";
    const std::string code = values ? kBothSend
                                    : "dist.send(mine, 1 - rank)\n"
                                      "dist.recv(other, 1 - rank)\n";
    const ScenarioResult waits = run_with(std::nullopt, code, backend);
    REQUIRE(waits.run.verdict.has_value());
    CHECK(waits.run.verdict->kind == VerdictKind::kDeadlock);
    const ScenarioResult buffered = run_with(Transport::kBuffered, code, backend);
    CHECK(buffered.met());
    const auto& warnings = buffered.judgement.warnings;
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0] ==
          "works only with buffered sends: rank 0 sends to rank 1 (line 9) while rank 1 sends to "
          "rank 0 (line 9)");
  }
}

TEST_CASE(
    "B-24 a program that needs no buffers is not warned of, and one that waits in vain is told") {
  for (const std::optional<Transport> transport :
       {std::optional<Transport>(), std::optional(Transport::kBuffered)}) {
    const ScenarioResult result = run_with(transport, kOneSendsFirst);
    CHECK(result.met());
    CHECK(result.judgement.warnings.empty());
    const ScenarioResult lost = run_with(transport, "if rank == 0:\n    dist.send(mine, 1)\n");
    REQUIRE(lost.run.verdict.has_value());
    CHECK(summary(*lost.run.verdict) ==
          "deadlock: no rank can advance, rank 1 missing: rank 0 sends to rank 1 (line 10), which "
          "has ended");
  }
}

}  // namespace
}  // namespace shardlab
