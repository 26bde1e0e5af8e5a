// Values that are let go while a program runs.
#include "sim/verify/early_judge.h"

#include <doctest/doctest.h>

#include "sim/language/syntax/parser.h"
#include "sim/run/recording.h"
#include "tests/support/local_tensor.h"

namespace shardlab {
namespace {

UnusedNames unused(const std::string& code) {
  const auto program = parse_program(std::make_shared<const SourceText>("t", code));
  return WantedValues(program, {}).unused();
}

class AllSpent final : public ValueDrain {
 public:
  void kept(std::size_t, std::size_t, const RecordedValue&) override {}
  bool is_spent(std::size_t, std::size_t) const override { return spent; }
  const UnusedNames& unused() const override { return none_; }
  bool spent = true;

 private:
  UnusedNames none_;
};

DTensor value() { return DTensor(local_tensor({2}, DType::kF32, {1, 2})); }
DTensor snapshot(const DTensor& x) { return DTensor(x.local().snapshot()); }
bool is_gone(const DTensor& x) { return x.local().storage()->buffer()->data() == nullptr; }

TEST_CASE("B-29 a name is unused behind the last statement that mentions it") {
  const std::string code = "a = ones([2])\nb = a + 1\nc = b * a\nd = c\n";
  const UnusedNames found = unused(code);
  CHECK(found.all == std::unordered_set<std::string>{"a", "b"});  // the last one keeps c and d
  CHECK(found.from.at(static_cast<std::uint32_t>(code.find("d = "))) ==
        std::vector<std::string>{"a", "b"});
}

TEST_CASE("B-29 names of defs, of two values and of blocks stay") {
  const UnusedNames found = unused(R"(
a = ones([2])
def f(x):
    return x + a
b = ones([2])
b = b + 1
c = ones([2])
if rank == 0:
    d = c
e = f(b)
g = ones([2])
del g
pass
)");
  CHECK(found.all == std::unordered_set<std::string>{"e"});
}

TEST_CASE("B-29 a value goes once it is spent and nothing else holds its memory") {
  AllSpent drain;
  DTensor x = value(), kept = snapshot(x);
  UnusedValues values;
  values.add({x, kept, 0, 0});
  drain.spent = false;
  values.let_go(drain);
  CHECK_FALSE(is_gone(x));
  drain.spent = true;
  {
    const Tensor view = x.local();
    values.let_go(drain);
    CHECK_FALSE(is_gone(x));
  }
  values.let_go(drain);
  CHECK(is_gone(x));
  CHECK(is_gone(kept));
  CHECK(x.local().size_bytes() == 8);
}

TEST_CASE("B-29 two names of one memory go together, and one that was written to stays") {
  AllSpent drain;
  DTensor x = value(), view = DTensor(x.local()), kept = snapshot(x), of_view = snapshot(view);
  UnusedValues values;
  values.add({x, kept, 0, 0});
  values.let_go(drain);
  CHECK_FALSE(is_gone(x));
  values.add({view, of_view, 0, 1});
  values.let_go(drain);
  CHECK(is_gone(x));
  CHECK(is_gone(of_view));
  DTensor y = value(), before = snapshot(y);
  y.local().mutable_data<float>()[0] = 5;
  UnusedValues others;
  others.add({y, before, 0, 0});
  others.let_go(drain);
  CHECK_FALSE(is_gone(y));
  CHECK(values_of(before.local()) == std::vector<double>{1, 2});
}

TEST_CASE("B-29 a leaf that may get a gradient stays") {
  AllSpent drain;
  DTensor x = value(), kept = snapshot(x);
  x.impl()->requires_grad = true;
  UnusedValues values;
  values.add({x, kept, 0, 0});
  values.let_go(drain);
  CHECK_FALSE(is_gone(x));
}

TEST_CASE("B-29 values with wanted names alone keep their elements") {
  const auto program = parse_program(std::make_shared<const SourceText>("t", "a = 1\n"));
  WantedValues wanted(program, {"b"});
  RecordedValue a{"a", 0, value(), {}}, b{"b", 0, value(), {}};
  wanted.kept(0, 0, a);
  wanted.kept(0, 1, b);
  CHECK(is_gone(a.value));
  CHECK_FALSE(is_gone(b.value));
  CHECK(wanted.is_spent(0, 0));
  CHECK_FALSE(wanted.is_spent(0, 1));
}

}  // namespace
}  // namespace shardlab
