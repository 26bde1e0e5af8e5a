// Values that are let go while a program runs.
#include "sim/verify/early_judge.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/text.h"
#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "sim/language/syntax/parser.h"
#include "sim/run/recording.h"
#include "tests/support/local_tensor.h"
#include "tests/unit/scenario/scenario_text.h"

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

// A value with a name, as a rank holds it.
struct Held {
  Held() { values.add({"x", x, record}); }
  Spending drain;
  DTensor x = value(), record = snapshot(x);
  UnusedValues values;
};

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

TEST_CASE("B-29 names that a def or a block mentions stay") {
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
  CHECK(text_of_list(std::set<std::string>(found.all.begin(), found.all.end()), " ") == "b e g");
}

TEST_CASE("B-29 a value goes once it is spent and nothing else holds its memory") {
  Held held;
  auto& [drain, x, kept, values] = held;
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
  Held held;
  auto& [drain, x, before, values] = held;
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
  Held held;
  auto& [drain, x, before, values] = held;
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

TEST_CASE("B-29 the record of a value goes when its name has another one, and the value does not") {
  Spending drain;
  DTensor x = value(), first = snapshot(x), y = value(), second = snapshot(y);
  UnusedValues values;
  values.add({"x", x, first});
  values.add({"x", y, second});
  drain.open = first;
  drain.let_go(values);
  CHECK_FALSE(is_gone(first));
  drain.open = {};
  drain.let_go(values);
  CHECK(is_gone(first));
  CHECK_FALSE(is_gone(x));  // others may hold it
  CHECK_FALSE(is_gone(second));
  values.is_unused("x");
  drain.let_go(values);
  CHECK(is_gone(y));
}

TEST_CASE("B-29 a value whose record went at once has not been written to") {
  Held held;
  auto& [drain, x, kept, values] = held;
  let_go(kept.local());
  values.is_unused("x");
  drain.let_go(values);
  CHECK(is_gone(x));
  CHECK(drain.ended.empty());
}

TEST_CASE("B-29 an unused value that was written to is recorded once, until it is spent") {
  Held held;
  auto& [drain, x, before, values] = held;
  x.local().mutable_data<float>()[0] = 5;
  values.is_unused("x");
  drain.spent = false;
  drain.let_go(values);
  drain.let_go(values);
  CHECK(drain.ended == std::vector<std::string>{"x"});
  drain.spent = true;
  drain.let_go(values);
  CHECK(drain.ended.size() == 1);
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

// The values of one device, as they come.
struct Listening final : AloneListener {
  void kept(const RecordedValue& value) override { keys.push_back(value.key()); }
  void ends(bool whole) override { ended = whole; }
  std::vector<std::string> keys;
  bool ended = false;
};

std::string verdicts_of(const ScenarioResult& result) {
  std::string text = result.run.error ? result.run.error->text() : "";
  for (const ValueReport& value : result.judgement.values) {
    text += fmt::format("{} {} {}\n", value.key(), static_cast<int>(value.outcome()),
                        value.comparison.error);
  }
  return text;
}

// An optimizer's step by hand: names with several values, and writes in place.
constexpr const char* kStep = R"(
mean = (x @ w).sum() / 8
rounding = (x @ w).sum() - (x.sum(0) @ w).sum()
mean.backward()
g = w.grad * 2
m = g * 0.1
m = m + g
w2 = w.detach() + 0
aten.add_.Tensor(w2, w2)
w2 = w2 - m
m = m * g
last = w2.sum()
)";

Scenario step(const std::string& code) {
  return test::scenario_of(
      "mesh = { dp = 4 }\n[inputs]\nx = \"f32[10@dp, 6]\"\n"
      "w = { type = \"f32[6, 5]\", requires_grad = true }\n"
      "[program]\ncode = \"\"\"" +
      code + "\"\"\"\n");
}

TEST_CASE("B-29 values that are judged while one device runs have the verdicts of the end") {
  const auto listener = std::make_shared<Listening>();
  listener->most_ahead = 0;
  ScenarioOptions options;
  const Scenario scenario = step(kStep);
  REQUIRE(judges_early(scenario, options));
  const std::string expected = verdicts_of(run_scenario(scenario, all_ops(), options));
  options.beside = listener;
  const ScenarioResult result = run_scenario(scenario, all_ops(), options);
  CHECK_MESSAGE(result.met(), verdicts_of(result));
  CHECK(verdicts_of(result) == expected);
  REQUIRE(listener->ended);
  CHECK(listener->keys.front() == "mean#0");
  for (const char* key : {"g#0", "m#0", "m#1", "m#2", "w2#0", "w.grad#0"}) {
    CHECK_MESSAGE(std::ranges::count(listener->keys, key) == 1, key);
  }
}

TEST_CASE("B-29 a program that fails does so beside one device, too, behind values or before") {
  const std::string fails = "assert 1 == 2\n";
  for (const std::string& code : {fails + kStep, kStep + fails}) {
    const auto listener = std::make_shared<Listening>();
    listener->most_ahead = 0;
    const Scenario scenario = step(code);
    ScenarioOptions options;
    const std::string expected = verdicts_of(run_scenario(scenario, all_ops(), options));
    options.beside = listener;
    CHECK(verdicts_of(run_scenario(scenario, all_ops(), options)) == expected);
  }
}

// Both sides keep more than may wait: whoever is alone ends.
TEST_CASE("B-29 a side that is over is not waited for") {
  const auto program = parse_program(std::make_shared<const SourceText>("t", "a = 1\n"));
  const DTensor large(local_tensor({1 << 20}, DType::kF64, std::vector<double>(1 << 20)));
  EarlyJudge judge(program, {}, 1, 4 << 20);
  std::thread alone([&] {
    for (int i = 0; i < 3; ++i) judge.kept(judge.one_device(), {"a", i, large, {}});
  });
  judge.ranks_end();
  alone.join();
  judge.ends_alone();
  for (int i = 0; i < 3; ++i) judge.kept(0, {"a", i, large, {}});
  CHECK(judge.find("a#0") == nullptr);  // a rank's value that is not distributed is judged later
}

}  // namespace
}  // namespace shardlab
