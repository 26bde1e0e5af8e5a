// Programs with and without a waste, and what is said of them. tests/program/advise_test.py makes
// the edits in files and runs these.
#include <doctest/doctest.h>

#include "sim/edit/advice.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;

namespace {

// On four ranks, x is f32[8, 16] cut along its columns, r along its rows.
Advised advised(const std::string& code, const std::string& expect = "") {
  const Scenario scenario = test::scenario_of(
      "[mesh]\ntp = 4\n[inputs]\nx = \"f32[8, 16@tp]\"\nr = \"f32[8@tp, 16]\"\n"
      "[program]\ncode = '''\n" +
      code + "'''\n" + expect);
  return advise(scenario, {.run = {}});
}

}  // namespace

// A gather of 8 x 16 elements over 4 ranks sends 3 pieces of 128 bytes.
TEST_CASE("V-37 one move in place of several is advised with its cost before and after") {
  const Advised found =
      advised("h = x * 2.0\na = h.softmax(-1)\nb = h.cumsum(-1)\nc = h.sort(-1)[0]\n");
  CHECK(found.before.collectives == 3);
  CHECK(found.before.sent_bytes == 3 * 384);
  REQUIRE(found.all.size() == 1);
  const Advice& advice = found.all.front();
  CHECK(advice.what == "one redistribute(tp=R)");
  CHECK(advice.after.collectives == 1);
  CHECK(advice.after.sent_bytes == 384);
  REQUIRE(advice.changes.size() == 1);
  CHECK(advice.changes[0].line == 8);
  CHECK(advice.changes[0].before == std::vector<std::string>{"h = x * 2.0"});
  CHECK(advice.changes[0].after == std::vector<std::string>{"h = (x * 2.0).redistribute(tp=R)"});
}

TEST_CASE("V-37 an edit that holds and costs as much is not advised") {
  // Without the first redistribute relu asks for the same all_reduce.
  const Advised found =
      advised("y = (x @ x.t()).redistribute(tp=R)\nz = y.relu().redistribute(tp=R)\n");
  CHECK(found.tried > 0);
  CHECK(found.all.empty());
}

TEST_CASE("V-37 a result keeps its placements") {
  CHECK(advised("y = r.relu()\nz = y.redistribute(tp=R)\n").all.empty());
  CHECK(advised("z = (r @ x.redistribute(tp=R).t()).redistribute(tp=R)\n").all.empty());
  // A value that is read may have others.
  CHECK(advised("y = r.redistribute(tp=R)\nz = y.redistribute(tp=S(0)).relu()\n").all.size() == 1);
}

TEST_CASE("V-37 the piece of another rank is no own one") {
  const std::string gathered = "f = all_gather(r.to_local(), 0, group=\"tp\")\n";
  const std::string labelled = "out = from_local(f[2 * i:2 * i + 2], mesh=mesh, tp=S(0))\n";
  const std::string own = "i = mesh.coordinate(\"tp\")\n";
  const std::string other = "i = (mesh.coordinate(\"tp\") + 1) % 4\n";
  CHECK(advised(gathered + own + labelled).all.size() == 1);
  CHECK(advised(gathered + other + labelled).all.empty());
}

TEST_CASE("V-37 expectations but counts still hold") {
  const std::string code = "h = x * 2.0\na = h.softmax(-1)\nb = h.cumsum(-1)\n";
  CHECK(advised(code).all.size() == 1);
  // The edit of h is out; another name for what is moved is not.
  const Advised found = advised(code, "[expect]\nh = \"f32[8, 16@tp]\"\n");
  REQUIRE(found.all.size() == 1);
  CHECK(found.all[0].changes[0].after[0] == "h_moved = h.redistribute(tp=R)");
  // Counts are what an advice changes.
  CHECK(advised(code, "[expect]\ncollectives = { all_gather = 2 }\n").all.size() == 1);
}

TEST_CASE("V-37 a program that is not as expected is not advised") {
  const Advised found = advised("h = x * 2.0\n", "[expect]\nh = \"f32[8, 16]\"\n");
  CHECK(found.failure == "an unmet expectation, h");
  CHECK(found.tried == 0);
}

// Calls in place on plain tensors; expected are the programs that a person writes instead.
// x.to_local() is f32[8, 4] on each of four ranks, r.to_local() f32[2, 16].
TEST_CASE("V-37 dist calls that a cheaper program does not have") {
  const auto edits = [](const std::string& code) {
    std::vector<std::string> all;
    for (const Advice& one : advised(code).all) {
      std::string text = one.what + ":";
      for (const ChangedLines& change : one.changes) {
        for (const std::string& line : change.after) text += " " + line;
      }
      all.push_back(text);
    }
    return all;
  };
  using Texts = std::vector<std::string>;
  const std::string own = "i = mesh.coordinate(\"tp\")\n";
  SUBCASE("a mean of means, and a maximum twice") {
    CHECK(edits("t = r.to_local().sum()\ndist.all_reduce(t)\n"
                "dist.all_reduce(t, op=dist.ReduceOp.MAX)\ny = t * 2\n") ==
          Texts{"no all_reduce(t):"});
  }
  SUBCASE("a sum twice is another value") {
    CHECK(edits("t = r.to_local().sum()\ndist.all_reduce(t)\ndist.all_reduce(t)\ny = t * 2\n")
              .empty());
  }
  SUBCASE("the own piece of what is gathered") {
    CHECK(edits(own + "t = torch.empty(8, 16)\np = r.to_local()\n"
                      "dist.all_gather_into_tensor(t, p)\n"
                      "y = from_local(t[2 * i:2 * i + 2] * 2, mesh=mesh, tp=S(0))\n") ==
          Texts{"the rank's own piece, not gathered: y = from_local(p * 2, mesh=mesh, tp=S(0))"});
  }
  SUBCASE("the piece of another rank") {
    CHECK(edits(own + "t = torch.empty(8, 16)\np = r.to_local()\n"
                      "dist.all_gather_into_tensor(t, p)\nk = (i + 1) % 4\n"
                      "y = from_local(t[2 * k:2 * k + 2] * 2, mesh=mesh, tp=S(0))\n")
              .empty());
  }
  SUBCASE("the own chunk of a sum") {
    CHECK(edits(own + "t = x.to_local() @ r.redistribute(tp=S(1)).to_local().t()\n"
                      "dist.all_reduce(t)\n"
                      "y = from_local(t.chunk(4)[i], mesh=mesh, tp=S(0))\n") ==
          Texts{"one reduce_scatter: y = from_local(reduce_scatter(t, \"sum\", 0), mesh=mesh, "
                "tp=S(0))"});
  }
}

// Two mesh dims of 2: each all_reduce of 64 bytes sends 64, one over four ranks 96.
TEST_CASE("V-37 one all_reduce over all ranks in place of one along each mesh dim") {
  const Scenario scenario = test::scenario_of(
      "[mesh]\ndp = 2\ntp = 2\n[inputs]\nx = \"f32[16, 4@(dp,tp)]\"\n[program]\ncode = '''\n"
      "t = x.to_local().sum(1)\n"
      "dist.all_reduce(t, group=mesh.get_group(\"dp\"))\n"
      "dist.all_reduce(t, group=mesh.get_group(\"tp\"))\ny = t * 2\n'''\n");
  const Advised found = advise(scenario, {.run = {}});
  CHECK(found.before.sent_bytes == 128);
  REQUIRE(found.all.size() == 1);
  CHECK(found.all[0].what == "one all_reduce of t over all ranks");
  CHECK(found.all[0].after.sent_bytes == 96);
  CHECK(found.all[0].changes[0].after == std::vector<std::string>{"dist.all_reduce(t)"});
}
