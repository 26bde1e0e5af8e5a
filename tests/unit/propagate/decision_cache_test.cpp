// The lifetime of decisions.
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "propagate/propagator.h"
#include "schema/binder.h"
#include "schema/op_registry.h"

namespace shardlab {
namespace {

/// Decisions on calls of distinct shapes in one bucket of 8. The cache keeps the call with its
/// decision, and the call a generator, whose end shows when both are freed.
class Decisions {
 public:
  Decisions() {
    register_all_ops(registry_);
    propagator_ = std::make_unique<Propagator>(registry_, PlanOptions{}, 8);
  }

  InUse<OutputSharding> decide() {
    const OpRow& row = registry_.at("aten::uniform_");
    const MeshLayout* layout = arena_.layout({.shape = {4}, .names = {}, .ranks = {}});
    const auto size = static_cast<std::int64_t>(marks_.size());
    const DTensorSpec* x =
        arena_.spec(layout, {Placement::shard(0)}, contiguous_meta(Dims{size, 3}, DType::kF32));
    const auto mark = std::make_shared<RandomState>();
    marks_.push_back(mark);
    return propagator_->propagate(
        {&row, bind_arguments(row, {x}, {{"generator", Argument(mark)}}), layout});
  }
  bool lives(std::size_t number) const { return !marks_[number].expired(); }
  CacheStats stats() const { return propagator_->stats(); }

 private:
  Arena arena_;
  OpRegistry registry_;
  std::unique_ptr<Propagator> propagator_;
  std::vector<std::weak_ptr<RandomState>> marks_;
};

TEST_CASE("K-25 an evicted decision lives on while a call may still use it") {
  Decisions decisions;
  const InUse<OutputSharding> first = decisions.decide();
  for (int i = 0; i < 8; ++i) decisions.decide();
  CHECK(decisions.stats().evictions == 1);
  CHECK(decisions.stats().entries == 8);
  REQUIRE(decisions.lives(0));
  CHECK(first->outputs.at(0)->shape() == Dims{0, 3});
  for (int i = 0; i < 7; ++i) decisions.decide();
  CHECK(decisions.lives(0));
}

TEST_CASE("K-25 evicted decisions are freed once as many more were evicted as the cache holds") {
  Decisions decisions;
  for (int i = 0; i < 8 + 8 + 1; ++i) decisions.decide();
  CHECK_FALSE(decisions.lives(0));
  CHECK(decisions.lives(1));
  CHECK(decisions.lives(16));
}

}  // namespace
}  // namespace shardlab
