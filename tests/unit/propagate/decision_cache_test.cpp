// How long decisions live.
#include "propagate/decision_cache.h"

#include <doctest/doctest.h>

#include "ops/register.h"

namespace shardlab {
namespace {

/// Decisions of distinct calls in one bucket of 8, each with a generator that tells when it goes.
class Decisions {
 public:
  Decisions() { register_all_ops(registry_); }

  const OutputSharding& insert() {
    const auto mark = std::make_shared<RandomState>();
    marks_.push_back(mark);
    Decision decision;
    decision.hash = marks_.size();
    decision.schema.row = &registry_.at("aten::neg");
    decision.schema.args = {Argument(mark)};
    decision.sharding.costs = {static_cast<double>(marks_.size())};
    return cache_.insert(std::move(decision));
  }
  bool lives(std::size_t number) const { return !marks_[number].expired(); }
  CacheStats stats() const { return cache_.stats(); }

 private:
  OpRegistry registry_;
  DecisionCache cache_{8};
  std::vector<std::weak_ptr<RandomState>> marks_;
};

TEST_CASE("K-25 an evicted decision lives on while a call may still use it") {
  Decisions decisions;
  const OutputSharding& first = decisions.insert();
  for (int i = 0; i < 8; ++i) decisions.insert();
  CHECK(decisions.stats().evictions == 1);
  CHECK(decisions.stats().entries == 8);
  REQUIRE(decisions.lives(0));
  CHECK(first.costs == std::vector<double>{1});
  for (int i = 0; i < 7; ++i) decisions.insert();
  CHECK(decisions.lives(0));
}

TEST_CASE("K-25 evicted decisions are freed once as many more were evicted as the cache holds") {
  Decisions decisions;
  for (int i = 0; i < 8 + 8 + 1; ++i) decisions.insert();
  CHECK_FALSE(decisions.lives(0));
  CHECK(decisions.lives(1));
  CHECK(decisions.lives(16));
}

}  // namespace
}  // namespace shardlab
