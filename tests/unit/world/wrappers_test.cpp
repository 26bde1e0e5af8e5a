// A wrapper is one class with one function; here one that counts. It hears the same of every rank,
// in runs of all ranks and of one of each class.
#include <doctest/doctest.h>

#include <map>
#include <mutex>

#include "comm/forwarding_communicator.h"
#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

/// Calls of each rank, "all_reduce over tp (4)"; of several runs of one rank the last.
struct Heard {
  std::mutex mutex;
  std::map<std::int64_t, std::vector<std::string>> calls;
};

class Counting final : public ForwardingCommunicator {
 public:
  Counting(std::unique_ptr<Communicator> real, Heard& heard)
      : ForwardingCommunicator(std::move(real)), heard_(heard) {}

  Tensor perform(Call& call) override {
    {
      const std::lock_guard lock(heard_.mutex);
      heard_.calls[current_rank().rank].push_back(
          fmt::format("{} over {} ({})", to_string(call.kind), name(), size()));
    }
    return real().perform(call);
  }

 protected:
  std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override {
    return std::make_unique<Counting>(std::move(part), heard_);
  }

 private:
  Heard& heard_;
};

/// Uneven pieces, and with 2 rows over 4 ranks empty ones; a convolution asks its neighbours.
std::map<std::int64_t, std::vector<std::string>> heard_on(const std::string& backend) {
  const Scenario scenario = test::scenario_of(R"(
[mesh]
dp = 2
tp = 4
[inputs]
x = "f32[7@dp, 6@tp]"
w = "f32[6@tp, 5]"
z = "f32[2@tp, 3]"
image = "f32[1, 1, 8, 16@tp]"
filter = "f32[1, 1, 3, 3]"
[program]
code = """
y = (x @ w).redistribute(tp=R)
v = z.redistribute(tp=R)
edges = conv2d(image, filter, padding=1)
"""
)");
  Heard heard;
  ScenarioOptions options;
  options.backend = backend;
  options.communicator = [&](std::unique_ptr<Communicator> real) {
    const std::lock_guard lock(heard.mutex);
    heard.calls[current_rank().rank].clear();
    return std::make_unique<Counting>(std::move(real), heard);
  };
  const ScenarioResult result = run_scenario(scenario, all_ops(), options);
  if (result.run.error) FAIL(result.run.error->text());
  return heard.calls;
}

TEST_CASE(
    "a wrapper hears every rank of a world, and the same of the ranks that stand for others") {
  const auto all = heard_on("threads");
  const auto some = heard_on("fake");
  REQUIRE(all.size() == 8);
  REQUIRE_FALSE(some.empty());
  for (const auto& row : some) {
    const auto& rank = row.first;
    const auto& calls = row.second;
    CAPTURE(rank);
    CHECK(calls == all.at(rank));
  }
  CHECK(all.at(0) == std::vector<std::string>{"all_reduce over tp (4)", "all_gather over tp (4)",
                                              "batch over tp (4)"});
}

}  // namespace
}  // namespace shardlab
