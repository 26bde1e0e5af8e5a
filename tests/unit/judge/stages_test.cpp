// Typed pipelines, each with one mistake in one stage: the value that is wrong, the stage and the
// cause. The programs, their mistakes and the lines are the test's own; the right twins differ from
// them in that place alone.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

struct Sizes {
  std::int64_t pp, tp, width, hidden;
};
constexpr Sizes kSizes[] = {{2, 2, 6, 12}, {4, 2, 5, 7}, {2, 4, 5, 7}, {4, 4, 6, 3}};

// Two products cut along tp in each stage, and a residual; `changes`: texts and what replaces them.
// The assertions of h and y are lines 23 and 26, the sum is line 25, the message line 28.
ScenarioResult pipeline(const Sizes& sizes,
                        const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  std::string text = fmt::format(
      "[mesh]\npp = {}\ntp = {}\n[inputs]\nx = \"f32[3, 4, {}]\"\n"
      "up0 = {{ type = \"f32[{}, {}, {}@tp]\", scale = 0.4 }}\n"
      "down0 = {{ type = \"f32[{}, {}@tp, {}]\", scale = 0.4 }}\n",
      sizes.pp, sizes.tp, sizes.width, sizes.pp, sizes.width, sizes.hidden, sizes.pp, sizes.hidden,
      sizes.width);
  text += R"([program]
code = """
import spmd_types as spmd
stage, last, pp = mesh.coordinate('pp'), mesh.size('pp') - 1, mesh.get_group('pp')
up = up0.to_local()[stage].detach().requires_grad_()
down = down0.to_local()[stage].detach().requires_grad_()
with spmd.set_current_mesh(mesh['tp']):
    spmd.assert_type(up, {'tp': spmd.S(1)})
    spmd.assert_type(down, {'tp': spmd.S(0)})
    for m in range(3):
        if stage > 0:
            h = torch.empty(x.shape[1:])
            dist.recv(h, group_src=stage - 1, group=pp)
        else:
            h = x.to_local()[m]
        spmd.assert_type(h, {'tp': spmd.I})
        z = torch.relu(spmd.convert(h, 'tp', src=spmd.I, dst=spmd.R) @ up)
        y = h + spmd.all_reduce(z @ down, 'tp', src=spmd.P, dst=spmd.I)
        spmd.assert_type(y, {'tp': spmd.I})
        if stage < last:
            dist.send(y.detach(), group_dst=stage + 1, group=pp)
        else:
            loss = y.pow(2).sum()
            loss.backward()
"""
)";
  for (const auto& [from, to] : changes) {
    const std::size_t at = text.find(from);
    const bool found = at != text.npos;
    REQUIRE(found);
    text.replace(at, from.size(), to);
  }
  return run_scenario(test::scenario_of(text), all_ops(), {});
}

const std::string kSum = "y = h + spmd.all_reduce(z @ down, 'tp', src=spmd.P, dst=spmd.I)";
const std::string kClaimOfH = "        spmd.assert_type(h, {'tp': spmd.I})\n";

std::int64_t number_of(const ScenarioResult& result, Outcome outcome) {
  return count_values(result.judgement.values)[outcome];
}

const ValueReport* wrong_of_stages(const ScenarioResult& result) {
  const auto& values = result.judgement.values;
  const auto found = std::ranges::find_if(values, is_wrong);
  return found == values.end() ? nullptr : &*found;
}

void check_stages(const ScenarioResult& result) {
  REQUIRE_MESSAGE(!result.run.error, result.run.error->text());
  const ValueReport* wrong = wrong_of_stages(result);
  CHECK_MESSAGE(wrong == nullptr, wrong->name, ": ", wrong->comparison.what);
  CHECK(number_of(result, Outcome::kVerified) == std::ssize(result.judgement.values));
  CHECK(result.met());
}

// "assert_type(y) 26: on pp=1"
std::string wrong_in(const ScenarioResult& result) {
  const ValueReport* wrong = wrong_of_stages(result);
  if (wrong == nullptr) return "right";
  const std::string& what = wrong->comparison.what;
  return fmt::format("{} {}: {}", wrong->name, wrong->line, what.substr(0, what.find(':')));
}

}  // namespace

TEST_CASE("V-44 each stage of a typed pipeline is verified by its rank of a smaller world") {
  for (const Sizes& sizes : kSizes) {
    CAPTURE(fmt::format("{} x {}", sizes.pp, sizes.tp));
    check_stages(pipeline(sizes));
    // The claims of stages on lines of their own.
    check_stages(pipeline(sizes, {{kClaimOfH, "        if stage == 0:\n    " + kClaimOfH +
                                                  "        else:\n    " + kClaimOfH}}));
    // Its own piece is sent, and put together again.
    check_stages(pipeline(
        sizes, {{"            h = torch.empty(x.shape[1:])\n"
                 "            dist.recv(h, group_src=stage - 1, group=pp)\n",
                 "            part = torch.empty([4 // mesh.size('tp'), x.shape[2]])\n"
                 "            dist.recv(part, group_src=stage - 1, group=pp)\n"
                 "            h = spmd.all_gather(part, 'tp', src=spmd.S(0), dst=spmd.I)\n"},
                {"dist.send(y.detach(),",
                 "dist.send(spmd.convert(y.detach(), 'tp', src=spmd.I, dst=spmd.S(0)),"}}));
  }
}

TEST_CASE("V-44 a mistake in one stage is found in that stage") {
  for (const Sizes& sizes : kSizes) {
    CAPTURE(fmt::format("{} x {}", sizes.pp, sizes.tp));
    // Each rank adds h to its term: tp times h.
    const auto scaled =
        pipeline(sizes, {{kSum, kSum + " if stage < last else spmd.all_reduce(h + z @ down, 'tp', "
                                       "src=spmd.P, dst=spmd.I)"}});
    CHECK(wrong_in(scaled) == fmt::format("assert_type(y) 26: on pp={}", sizes.pp - 1));
    REQUIRE(wrong_of_stages(scaled) != nullptr);
    CHECK(wrong_of_stages(scaled)->cause.id == causes::kTermAdded);
    CHECK(line_of_cause(*wrong_of_stages(scaled)) == 25);
    // The first stage forgets the sum: its y is no replica, nor is what it sends.
    const auto lost = pipeline(sizes, {{kSum, kSum + " if stage > 0 else h + z @ down"}});
    REQUIRE(wrong_of_stages(lost) != nullptr);
    CHECK(wrong_of_stages(lost)->cause.id == causes::kMissingSum);
    CHECK(line_of_cause(*wrong_of_stages(lost)) == 25);
    // Terms are sent in place of their sum: the first stage is right, the next ones are not.
    const auto sent = pipeline(sizes, {{"send(y.detach()", "send((h + z @ down).detach()"}});
    CHECK(wrong_in(sent) == "assert_type(h) 23: on pp=1");
  }
}

TEST_CASE("V-44 a claim of a later stage is judged on that stage's ranks") {
  // True of the first stage, where all ranks have the same.
  const std::string shifted = "        w = x.to_local()[m] + stage * mesh.coordinate('tp')\n";
  for (const Sizes& sizes : kSizes) {
    CAPTURE(fmt::format("{} x {}", sizes.pp, sizes.tp));
    const auto one_line = pipeline(
        sizes,
        {{kClaimOfH, shifted + "        spmd.assert_type(w, {'tp': spmd.I})\n" + kClaimOfH}});
    CHECK(wrong_in(one_line) == "assert_type(w) 24: on pp=1");
    const auto own_line =
        pipeline(sizes, {{kClaimOfH, shifted +
                                         "        if stage == 0:\n"
                                         "            spmd.assert_type(w, {'tp': spmd.I})\n"
                                         "        else:\n"
                                         "            spmd.assert_type(w, {'tp': spmd.R})\n" +
                                         kClaimOfH}});
    CHECK(wrong_in(own_line) == "assert_type(w) 27: on pp=1");
  }
}

TEST_CASE("V-44 a claim on a slice of the mesh is judged on every slice, without messages, too") {
  const auto judged = [](const std::string& more) {
    return run_scenario(
        test::scenario_of(
            "[mesh]\ndp = 2\ntp = 2\n[inputs]\nx = \"f32[4, 6]\"\n[program]\n"
            "code = \"\"\"\nimport spmd_types as spmd\nwith spmd.set_current_mesh(mesh['tp']):\n"
            "    w = x.to_local()" +
            more + "\n    spmd.assert_type(w, {'tp': spmd.I})\n\"\"\"\n"),
        all_ops(), {});
  };
  CHECK(wrong_of_stages(judged("")) == nullptr);
  CHECK(wrong_in(judged(" + mesh.coordinate('dp') * mesh.coordinate('tp')")) ==
        "assert_type(w) 11: on rank 2");
}

TEST_CASE("V-44 without a smaller world that sends alike there is no counterpart") {
  // The rank's number is a place in the whole mesh: one device of {pp:2} sends to no rank 2.
  const auto result = pipeline(kSizes[0], {{"group_dst=stage + 1, group=pp", "dst=rank + 2"},
                                           {"group_src=stage - 1, group=pp", "src=rank - 2"}});
  CHECK(wrong_of_stages(result) == nullptr);
  CHECK(number_of(result, Outcome::kNoCounterpart) > 0);
  // A message for each own column: the smaller world sends more of them, of the same values.
  const std::string each = "for c in range(up.shape[1]): dist.";
  const auto more =
      pipeline(kSizes[0], {{"dist.send(", each + "send("}, {"dist.recv(", each + "recv("}});
  CHECK(wrong_of_stages(more) == nullptr);
  CHECK(number_of(more, Outcome::kNoCounterpart) > 0);
  // The size of tp may be meant as a number of the text.
  const auto divided = pipeline(kSizes[0], {{kSum, kSum + " / mesh.size('tp')"}});
  CHECK(wrong_of_stages(divided) == nullptr);
}

}  // namespace shardlab
