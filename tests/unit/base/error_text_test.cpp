// Small parts that all other code uses: the text of an error, counted references, interned values,
// names of reductions, dims counted from the end, sizes that do not fit.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "base/collective_kind.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "base/reduce_op.h"
#include "base/ref.h"
#include "base/saturating.h"
#include "base/tensor_dim.h"
#include "mesh/intern_table.h"

using namespace shardlab;

namespace {

/// Counts those that live.
class Living : public Counted {
 public:
  explicit Living(int& count) : count_(count) { ++count_; }
  ~Living() override { --count_; }

 private:
  int& count_;
};
class LivingMore : public Living {
 public:
  using Living::Living;
};

}  // namespace

TEST_CASE("the parts of an error stand in one order, whoever added them first") {
  Error error(ErrorKind::kValue, "aten::mm: shapes do not fit");
  error.with("fix", "turn one").with("at", "a.toml:3").with("verdict", "odd");
  error.with("placements", "S(0), R").with("ranks", "rank 1").with("mesh", "{x:2}");
  error.with("op", "mm(f32[2],\nf32[3])").with("excerpt", "    3 | y = x @ w");
  CHECK(error.text() ==
        "aten::mm: shapes do not fit\n"
        "  op          mm(f32[2],\n"
        "              f32[3])\n"
        "  mesh        {x:2}\n"
        "  placements  S(0), R\n"
        "  verdict     odd\n"
        "  ranks       rank 1\n"
        "  at          a.toml:3\n"
        "    3 | y = x @ w\n"
        "  fix         turn one");
  CHECK(std::string(error.what()) == error.text());
  CHECK(error.parts().size() == 8);
}

TEST_CASE("the part that was added first stays: the place nearest to the fault knows best") {
  Error error = Error(ErrorKind::kRuntime, "no").with("at", "inner");
  error.with("at", "outer");
  CHECK(*error.find("at") == "inner");
  CHECK(error.find("fix") == nullptr);
  CHECK(std::string(error.what()) == "no\n  at          inner");
  error.with("fix", "go");
  CHECK(std::string(error.what()) == "no\n  at          inner\n  fix         go");
}

TEST_CASE("the cause of an error stands below it, as deep as there are causes") {
  Error first(ErrorKind::kValue, "a");
  Error second(ErrorKind::kRuntime, "b");
  second.caused_by(first.with("fix", "x"));
  Error third(ErrorKind::kInternal, "c");
  third.caused_by(second);
  CHECK(third.text() ==
        "c\n"
        "  cause       b\n"
        "                cause       a\n"
        "                              fix         x");
  CHECK(third.cause()->cause()->summary() == "a");
  CHECK(first.cause() == nullptr);
  const Error copy = third;  // verdicts repeat one error on every rank
  CHECK(copy.text() == third.text());
}

TEST_CASE("kinds have names; fail formats; a broken invariant names its place and whose it is") {
  const ErrorKind kinds[] = {ErrorKind::kUnsupported, ErrorKind::kRuntime, ErrorKind::kValue,
                             ErrorKind::kInternal, ErrorKind::kAssert};
  const char* names[] = {"Unsupported", "Runtime", "Value", "Internal", "Assert"};
  for (std::size_t i = 0; i < 5; ++i) CHECK(to_string(kinds[i]) == names[i]);
  try {
    fail(ErrorKind::kRuntime, "{} of {}", 2, "x");
  } catch (const Error& error) {
    CHECK(error.summary() == "2 of x");
    CHECK(fix_of(error).empty());
  }
  try {
    fail(ErrorKind::kRuntime, Fix{"write y"}, "{}", 1);
  } catch (const Error& error) {
    CHECK(fix_of(error) == "write y");
  }
  check_invariant(true, "holds");
  const int line = __LINE__ + 2;
  try {
    check_invariant(false, "sizes agree");
    FAIL("it held");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInternal);
    CHECK(error.summary() == "invariant violated: sizes agree");
    CHECK(error.find("at")->ends_with("error_text_test.cpp:" + std::to_string(line)));
    CHECK(fix_of(error).starts_with("this is a defect of shardlab"));
  }
}

TEST_CASE("an object goes with its last reference: copies, moves, assignments, base classes") {
  int count = 0;
  {
    Ref<LivingMore> one = make_ref<LivingMore>(count);
    CHECK(one->use_count() == 1);
    Ref<Living> base = one;
    CHECK(one->use_count() == 2);
    CHECK(base.get() == one.get());
    Ref<Living> moved = std::move(base);
    CHECK_FALSE(static_cast<bool>(base));
    CHECK(one->use_count() == 2);
    Ref<Living>& itself = moved;
    moved = itself;
    CHECK(one->use_count() == 2);
    one = nullptr;
    CHECK(count == 1);
    moved = Ref<Living>(make_ref<Living>(count));
    CHECK(count == 1);  // the first is gone, the second has come
    CHECK(moved == moved);
    CHECK_FALSE(moved == Ref<Living>());
  }
  CHECK(count == 0);
}

TEST_CASE("references on many threads leave one object and no count behind") {
  int count = 0;
  const Ref<Living> shared = make_ref<Living>(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&shared] {
      for (int k = 0; k < 2000; ++k) {
        const Ref<Living> own = shared;
        const Ref<Living> other = own;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(shared->use_count() == 1);
  CHECK(count == 1);
}

TEST_CASE("an intern table has one object a value, also where hashes are the same") {
  InternTable<int> table(2);
  const auto same_hash = [&](int value) {
    return table.find_or_insert(
        7, [&](int other) { return other == value; },
        [&] { return std::make_unique<const int>(value); });
  };
  const int* one = same_hash(1);
  const int* two = same_hash(2);
  CHECK(one != two);
  CHECK(*two == 2);
  CHECK(same_hash(1) == one);
  CHECK(table.size() == 2);
  CHECK(table.find(7, [](int other) { return other == 3; }) == nullptr);
  CHECK(table.find(8, [](int) { return true; }) == nullptr);  // the other bucket
  int sum = 0;
  table.visit([&](int value) { sum += value; });
  CHECK(sum == 3);
}

TEST_CASE("names of reductions and collectives are read as they are written") {
  const char* ops[] = {"sum", "avg", "max", "min", "product", "band", "bor", "bxor"};
  for (int i = 0; i < kReduceOpCount; ++i) {
    CHECK(to_string(static_cast<ReduceOp>(i)) == ops[i]);
    CHECK(parse_reduce_op(ops[i]) == static_cast<ReduceOp>(i));
  }
  CHECK_FALSE(parse_reduce_op("mean").has_value());
  const char* kinds[] = {"all_reduce",       "all_gather", "reduce",  "reduce_scatter",
                         "all_to_all",       "broadcast",  "scatter", "gather",
                         "permute",          "batch",      "barrier", "split",
                         "all_gather_bytes", "send",       "recv"};
  std::size_t known = 0;
  for (std::size_t i = 0; i < kCollectiveKinds; ++i) {
    for (const char* name : kinds) known += to_string(static_cast<CollectiveKind>(i)) == name;
  }
  CHECK(known == kCollectiveKinds);
}

TEST_CASE("a ring sends every rank's piece round once, and twice for an all_reduce") {
  // Counted: n ranks in a ring, each passing one n-th of the tensor per hop.
  for (const std::int64_t n : {2, 3, 8}) {
    std::int64_t hops = 0;
    for (std::int64_t distance = 1; distance < n; ++distance) ++hops;
    const auto share = [&](std::int64_t times) {
      return 96.0 * static_cast<double>(times) / static_cast<double>(n);
    };
    CHECK(ring_hops(CollectiveKind::kAllGather, n) == hops);
    CHECK(ring_hops(CollectiveKind::kAllReduce, n) == 2 * hops);
    CHECK(ring_hops(CollectiveKind::kPermute, n) == 1);
    CHECK(ring_sends(CollectiveKind::kAllGather, 96, n) == doctest::Approx(share(hops)));
    CHECK(ring_sends(CollectiveKind::kAllReduce, 96, n) == doctest::Approx(share(2 * hops)));
    CHECK(ring_sends(CollectiveKind::kBatch, 96, n) == 96);
  }
}

TEST_CASE("dims count from the front or the end, and those outside say what to use") {
  for (std::int64_t ndim = 1; ndim <= 4; ++ndim) {
    for (std::int64_t dim = 0; dim < ndim; ++dim) {
      CHECK(wrap_dim(dim, static_cast<std::size_t>(ndim)) == dim);
      CHECK(wrap_dim(dim - ndim, static_cast<std::size_t>(ndim)) == dim);
    }
  }
  CHECK(wrap_dim(0, 0) == 0);  // no dims count as one
  CHECK(wrap_dim(-1, 0) == 0);
  struct Row {
    std::int64_t dim;
    std::size_t ndim;
    const char *summary, *fix;
  };
  const Row rows[] = {
      {3, 3, "dim 3 is out of range: it must lie in [-3, 2]",
       "use 0 to 2, or count from the last dim: -1 to -3"},
      {-4, 3, "dim -4 is out of range: it must lie in [-3, 2]",
       "use 0 to 2, or count from the last dim: -1 to -3"},
      {1, 0, "dim 1 is out of range: it must lie in [-1, 0]", "use 0, or -1, the last dim"},
      {-2, 1, "dim -2 is out of range: it must lie in [-1, 0]", "use 0, or -1, the last dim"},
  };
  for (const Row& row : rows) {
    try {
      wrap_dim(row.dim, row.ndim);
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kValue);
      CHECK(error.summary() == row.summary);
      CHECK(fix_of(error) == row.fix);
    }
  }
}

TEST_CASE("sizes that do not fit stay at the largest number") {
  constexpr std::int64_t kMost = INT64_MAX;
  CHECK(saturating_product(3, 7) == 21);
  CHECK(saturating_product(0, kMost) == 0);
  CHECK(saturating_product(kMost, 1) == kMost);
  CHECK(saturating_product(std::int64_t{1} << 32, std::int64_t{1} << 31) == kMost);
  CHECK(saturating_product((std::int64_t{1} << 31) - 1, std::int64_t{1} << 32) ==
        ((std::int64_t{1} << 31) - 1) << 32);
  CHECK(saturating_length(5, -7) == 12);
  CHECK(saturating_length(5, 7) == 12);
  CHECK(saturating_length(kMost - 1, 1) == kMost);
  CHECK(saturating_length(kMost - 1, 2) == kMost);
  CHECK(saturating_length(0, INT64_MIN) == kMost);
}

TEST_CASE("outside of a rank there is no context, and asking for one says what to do") {
  CHECK(current_rank_or_null() == nullptr);
  try {
    current_rank();
    FAIL("there was one");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kRuntime);
    CHECK_FALSE(fix_of(error).empty());
  }
  RankContext context;
  context.rank = 3;
  CHECK(set_current_rank(&context) == nullptr);
  CHECK(current_rank().rank == 3);
  CHECK(set_current_rank(nullptr) == &context);
}
