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

// Every record but those of `open` names is right at once.
class Spending {
 public:
  void let_go(UnusedValues& values) {
    values.let_go([&](const DTensor& value) { return spent && !value.is_same(open); },
                  [&](const HeldValue& value) {
                    ended.push_back(value.name);
                    return snapshot(value.own);
                  });
  }
  static DTensor snapshot(const DTensor& x) { return DTensor(x.local().snapshot()); }

  bool spent = true;
  DTensor open;
  std::vector<std::string> ended;
};

DTensor value() { return DTensor(local_tensor({2}, DType::kF32, {1, 2})); }
DTensor snapshot(const DTensor& x) { return DTensor(x.local().snapshot()); }
bool is_gone(const DTensor& x) { return shardlab::is_gone(x.local()); }

TEST_CASE("B-29 a name is unused behind the last statement that mentions it") {
  const std::string code = "a = ones([2])\nb = a + 1\nc = b * a\nd = c\n";
  const UnusedNames found = unused(code);
  CHECK(found.all == std::unordered_set<std::string>{"a", "b"});  // the last one keeps c and d
  CHECK(found.from.at(static_cast<std::uint32_t>(code.find("d = "))) ==
        std::vector<std::string>{"a", "b"});
}

TEST_CASE("B-29 statements of a with are those of the program, of a loop they are not") {
  const std::string code = R"(
a = ones([2])
with no_grad():
    b = a + 1
    c = b + 1
for i in range(2):
    d = c
e = ones([2])
)";
  const UnusedNames found = unused(code);
  CHECK(found.all == std::unordered_set<std::string>{"a", "b"});
  const auto names_at = [&](const char* text) {
    return found.from.at(static_cast<std::uint32_t>(code.find(text)));
  };
  CHECK(names_at("c = ") == std::vector<std::string>{"a"});
  CHECK(names_at("for i") == std::vector<std::string>{"b"});
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
  Spending drain;
  DTensor x = value(), kept = snapshot(x);
  UnusedValues values;
  values.add({"x", x, kept});
  drain.let_go(values);
  CHECK_FALSE(is_gone(x));  // a statement will use it
  values.is_unused("x");
  drain.spent = false;
  drain.let_go(values);
  CHECK_FALSE(is_gone(x));
  drain.spent = true;
  {
    const Tensor view = x.local();
    drain.let_go(values);
    CHECK_FALSE(is_gone(x));
  }
  drain.let_go(values);
  CHECK(is_gone(x));
  CHECK(is_gone(kept));
  CHECK(x.local().size_bytes() == 8);
  CHECK(drain.ended.empty());
}

TEST_CASE("B-29 two names of one memory go together") {
  Spending drain;
  DTensor x = value(), view = DTensor(x.local()), kept = snapshot(x), of_view = snapshot(view);
  UnusedValues values;
  values.add({"x", x, kept});
  values.add({"view", view, of_view});
  values.is_unused("x");
  drain.let_go(values);
  CHECK_FALSE(is_gone(x));
  values.is_unused("view");
  drain.let_go(values);
  CHECK(is_gone(x));
  CHECK(is_gone(of_view));
}

TEST_CASE("B-29 a record of what was written to goes alone, and is known by its elements") {
  Spending drain;
  DTensor x = value(), before = snapshot(x);
  UnusedValues values;
  values.add({"x", x, before});
  x.local().mutable_data<float>()[0] = 5;
  drain.open = before;
  drain.let_go(values);
  CHECK(values_of(before.local()) == std::vector<double>{1, 2});
  drain.open = {};
  drain.let_go(values);
  CHECK(is_gone(before));
  CHECK_FALSE(is_gone(x));
  CHECK_FALSE(same_elements(before.local(), x.local()));
  x.local().mutable_data<float>()[0] = 1;
  CHECK(same_elements(before.local(), x.local()));
  CHECK(drain.ended.empty());
}

TEST_CASE("B-29 an unused value that was written to is recorded again before it goes") {
  Spending drain;
  DTensor x = value(), before = snapshot(x);
  UnusedValues values;
  values.add({"x", x, before});
  x.local().mutable_data<float>()[0] = 5;
  values.is_unused("x");
  {
    const Tensor view = x.local();  // may write once more
    drain.let_go(values);
    CHECK(drain.ended.empty());
  }
  drain.let_go(values);
  CHECK(drain.ended == std::vector<std::string>{"x"});
  CHECK(is_gone(x));
}

TEST_CASE("B-29 a leaf that may get a gradient stays") {
  Spending drain;
  DTensor x = value(), kept = snapshot(x);
  x.impl()->requires_grad = true;
  UnusedValues values;
  values.add({"x", x, kept});
  values.is_unused("x");
  drain.let_go(values);
  CHECK_FALSE(is_gone(x));
}

TEST_CASE("B-29 values with wanted names alone keep their elements") {
  const auto program = parse_program(std::make_shared<const SourceText>("t", "a = 1\n"));
  WantedValues wanted(program, {"b"});
  RecordedValue a{"a", 0, value(), {}}, b{"b", 0, value(), {}};
  wanted.kept(0, a);
  wanted.kept(0, b);
  CHECK(is_gone(a.value));
  CHECK_FALSE(is_gone(b.value));
  CHECK(wanted.is_spent(0, a.value));
  CHECK_FALSE(wanted.is_spent(0, b.value));
}

}  // namespace
}  // namespace shardlab
