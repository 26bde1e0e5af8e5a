// Programs in which ranks hold each other's results: the step that is told, and its line. The
// mistakes are the test's own; each program has a line that does not matter, and a healthy twin.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

struct Program {
  std::string mesh, inputs, code, reference = {};

  Program with(const std::string& part, const std::string& other) const {
    Program changed = *this;
    REQUIRE(code.find(part) != code.npos);
    changed.code.replace(code.find(part), part.size(), other);
    return changed;
  }

  // "cause.other-chunk 9: cat in line 9 puts ..." of `out`, or its outcome.
  std::string told() const {
    const ScenarioResult result =
        run_scenario(test::scenario_of(fmt::format(
                         "{}[mesh]\n{}\n[inputs]\n{}\n[program]\ncode = "
                         "\"\"\"\n{}out = from_local(y, mesh=mesh, {})\n\"\"\"\n",
                         reference.empty() ? "" : "reference = { code = \"" + reference + "\" }\n",
                         mesh, inputs, code, claim)),
                     all_ops(), {});
    for (const ValueReport& value : result.judgement.values) {
      if (value.name != "out") continue;
      const bool named = value.outcome() != Outcome::kVerified;
      return named ? fmt::format("{} {}: {}", value.cause.id, value.cause.line, value.cause.text)
                   : "verified";
    }
    return "failed";
  }

  std::string claim = {};
};

void check_tells(const Program& program, std::string_view part) {
  const std::string text = program.told();
  CHECK_MESSAGE(text.find(part) != text.npos, text);
}

// Products of blocks, of which each rank of a row and of a column sends its own in turn.
const Program kBlocks{
    "r = 2\nc = 2", "a = \"f64[4@r, 6@c]\"\nb = \"f64[6@r, 4@c]\"",
    "al, bl = a.to_local(), b.to_local()\nseen = al.norm()\n"
    "y = torch.zeros([al.shape[0], bl.shape[1]], dtype=f64)\nfor k in range(mesh.size(\"c\")):\n"
    "    left, right = al.clone(), bl.clone()\n"
    "    dist.broadcast(left, group=mesh.get_group(\"c\"), group_src=k)\n"
    "    dist.broadcast(right, group=mesh.get_group(\"r\"), group_src=k)\n"
    "    y = y + left @ right\n",
    "", "r=S(0), c=S(1)"};

// Rows of both neighbours beside the own ones.
const Program kHalo{
    "cp = 3", "x = \"f64[9@cp, 2]\"",
    "h = x.to_local()\nn = world_size\nseen = h.norm()\n"
    "above, below = torch.zeros_like(h[:1]), torch.zeros_like(h[:1])\nops = []\nif rank > 0:\n"
    "    ops.append(dist.P2POp(dist.isend, h[:1].contiguous(), rank - 1))\n"
    "    ops.append(dist.P2POp(dist.irecv, above, rank - 1))\nif rank < n - 1:\n"
    "    ops.append(dist.P2POp(dist.isend, h[-1:].contiguous(), rank + 1))\n"
    "    ops.append(dist.P2POp(dist.irecv, below, rank + 1))\nif len(ops) > 0:\n"
    "    for work in dist.batch_isend_irecv(ops):\n        work.wait()\n"
    "p = torch.cat([above, h, below], 0)\ny = p[:-2] + 2 * p[1:-1] - 3 * p[2:]\n",
    "z = x[:1] * 0; w = torch.cat([z, x, z], 0); out = w[:-2] + 2 * w[1:-1] - 3 * w[2:]",
    "cp=S(0)"};

// The last row of each rank goes to the next one.
const Program kShift{
    "cp = 3", "x = \"f64[6@cp, 2]\"",
    "own, n = x.to_local(), world_size\nseen = own.norm()\ngot = torch.empty_like(own[:1])\n"
    "last = own[-1:].contiguous()\nto, source = (rank + 1) % n, (rank - 1) % n\n"
    "ops = [dist.P2POp(dist.isend, last, to), dist.P2POp(dist.irecv, got, source)]\n"
    "for work in dist.batch_isend_irecv(ops):\n    work.wait()\n"
    "y = torch.cat([got, own[:-1]], 0).exp()\n",
    "out = torch.roll(x, 1, 0).exp()", "cp=S(0)"};

}  // namespace

TEST_CASE("V-33 a broadcast from another rank, or over another group, is told in a loop") {
  CHECK(kBlocks.told() == "verified");
  const std::string right = "mesh.get_group(\"r\"), group_src=k";
  check_tells(kBlocks.with(right, "mesh.get_group(\"r\"), group_src=0"),
              "cause.other-chunk 15: broadcast in line 15 sends what another rank of r has: rank "
              "0 and the next one in each pass should send");
  check_tells(
      kBlocks.with("mesh.get_group(\"c\"), group_src=k", "mesh.get_group(\"r\"), group_src=k"),
      "cause.wrong-group 14: broadcast in line 14 sends over r, and the value is right "
      "over c");
}

TEST_CASE("V-33 pieces in another order are told where they are joined") {
  CHECK(kHalo.told() == "verified");
  check_tells(kHalo.with("[above, h, below]", "[below, h, above]"),
              "cause.other-chunk 22: cat in line 22 puts its 3 pieces together in their order, and "
              "the value is right in the order 2, 1, 0");
  const Program turned{
      "cp = 3", "x = \"f64[6@cp, 2]\"",
      "n, piece = world_size, x.to_local()\nseen = piece.norm()\nparts = [piece for _ in "
      "range(n)]\n"
      "for s in range(1, n):\n    got = torch.empty_like(piece)\n"
      "    to = dist.P2POp(dist.isend, piece, (rank + 1) % n)\n"
      "    for work in dist.batch_isend_irecv([to, dist.P2POp(dist.irecv, got, (rank - 1) % n)]):\n"
      "        work.wait()\n    piece = got\n    parts[(rank - s) % n] = piece\n"
      "y = torch.cat(parts, 0).exp()\n",
      "out = x.exp()", "cp=R"};
  CHECK(turned.told() == "verified");
  check_tells(turned.with("(rank - s) % n", "s"),
              "cat in line 18 puts its 3 pieces together in their order, and the value is right in "
              "the order 0, 2, 1 on the first rank, turned on others");
}

TEST_CASE("V-33 rows from the other end are told, in one place or in two") {
  const Program one = kHalo.with("h[-1:].contiguous()", "h[:1].contiguous()");
  check_tells(one, "takes its rows from the other end than is right");
  const Program both = one.with("h[:1].contiguous(), rank - 1", "h[-1:].contiguous(), rank - 1");
  check_tells(both,
              "cause.other-chunk 17: slice in line 17 takes its rows from the other end than "
              "is right, as slice in line 14 does");
}

TEST_CASE("V-33 messages from another rank are told, and the line that counts on others") {
  CHECK(kShift.told() == "verified");
  check_tells(kShift.with("(rank + 1) % n, (rank - 1) % n", "(rank - 1) % n, (rank + 1) % n"),
              "cause.other-chunk 14: recv in line 14 brings each rank along cp the rows of another "
              "one than what follows takes them for");
}

TEST_CASE("V-33 a part of another rank is told, and sums over the rows of a neighbour") {
  const Program part{"cp = 3", "x = \"f64[6, 2]\"",
                     "seen = x.to_local().norm()\nk = rank\n"
                     "y = x.to_local()[2 * k:2 * k + 2].exp()\n",
                     "out = x.exp()", "cp=S(0)"};
  CHECK(part.told() == "verified");
  check_tells(part.with("k = rank", "k = (rank + 1) % 3"),
              "cause.other-chunk 10: slice in line 10 takes another part than its rank's along cp");
  const Program scan{"cp = 3", "x = \"f64[6@cp, 2]\"",
                     "h = x.to_local()\nsums = all_gather(h.sum(0, keepdim=True), 0)\n"
                     "seen = sums.norm()\nbefore = sums[:rank].sum(0)\ny = h.cumsum(0) + before\n",
                     "out = x.cumsum(0)", "cp=S(0)"};
  CHECK(scan.told() == "verified");
  check_tells(scan.with("sums[:rank]", "sums[:rank + 1]"),
              "cause.other-chunk 11: sum in line 11 takes another part than its rank's along cp");
}

TEST_CASE("V-33 a merge by log-sum-exp is told where its denominator is not reduced") {
  const Program merge{
      "cp = 2", "q = \"f64[3, 4]\"\nk = \"f64[6@cp, 4]\"",
      "s = q.to_local() @ k.to_local().t()\nown = torch.logsumexp(s, 1, keepdim=True)\n"
      "seen = own.norm()\ntop = all_reduce(own, \"max\", group=\"cp\")\n"
      "den = all_reduce(torch.exp(own - top), \"sum\", group=\"cp\")\n"
      "p = torch.softmax(s, 1) @ k.to_local()\n"
      "y = all_reduce(p * torch.exp(own - top), \"sum\", group=\"cp\") / den\n",
      "", "cp=R"};
  CHECK(merge.told() == "verified");
  check_tells(merge.with("den = all_reduce(torch.exp(own - top), \"sum\", group=\"cp\")",
                         "den = torch.exp(own - top)"),
              "cause.missing-sum 12: exp in line 12 gives each rank its own part, and nothing "
              "reduces it: an all_reduce with sum over cp is missing behind it");
}

TEST_CASE("V-33 one entry of a list for all is told as that") {
  const Program list{"dp = 2", "x = \"f64[4@dp, 3]\"",
                     "t = x.to_local().sum(0)\nseen = t.norm()\n"
                     "got = [torch.empty_like(t) for _ in range(world_size)]\n"
                     "dist.all_gather(got, t)\ny = torch.stack(got).sum(0)\n",
                     "", "dp=R"};
  CHECK(list.told() == "verified");
  check_tells(list.with("[torch.empty_like(t) for _ in range(world_size)]",
                        "[torch.empty_like(t)] * world_size"),
              "entries 0 and 1 of the list that is filled are one tensor");
}

TEST_CASE("V-34 parts that one rank scatters are pieces, whatever others hold before") {
  const Program scatter{
      "tp = 3", "x = \"f64[4, 6]\"\nw = \"f64[6, 6]\"",
      "n = mesh.size(\"tp\")\nseen = w.to_local().norm()\nown = torch.empty([6, 6 // n], "
      "dtype=f64)\n"
      "parts = [p.contiguous() for p in w.to_local().chunk(n, 1)]\n"
      "dist.scatter(own, parts if rank == 0 else None, src=0)\ny = x.to_local() @ own\n",
      "", "tp=S(1)"};
  CHECK(scatter.told() == "verified");
  CHECK(scatter.with("parts if", "parts[::-1] if").told() != "verified");
}

TEST_CASE("V-33 a sum that one rank alone gets is told where others go on with their own") {
  const Program reduce{"dp = 3", "x = \"f64[6@dp, 4]\"\nw = \"f64[4]\"",
                       "s = x.to_local().pow(2).sum()\nseen = s.sqrt()\ndist.all_reduce(s)\n"
                       "y = w.to_local() * s.clamp(max=5.0) + s\n",
                       "", "dp=R"};
  CHECK(reduce.told() == "verified");
  check_tells(reduce.with("dist.all_reduce(s)", "dist.reduce(s, dst=1)"),
              "cause.missing-sum 10: reduce in line 10 gives the sum over all ranks to one rank, "
              "and others go on with their own: all_reduce gives it to all");
}

TEST_CASE("V-33 a branch on the rank is told where the value is right without it") {
  const Program branch{"dp = 2\ntp = 2", "w = \"f64[6@tp, 4]\"\ne = \"f64[6@tp, 4]\"",
                       "seen = 0\nif rank == 0:\n    seen = 1\nnew = w.to_local() * 0.9\n"
                       "y = 0.9 * e.to_local() + 0.1 * new\n",
                       "", "tp=S(0)"};
  CHECK(branch.told() == "verified");
  const std::string line = "y = 0.9 * e.to_local() + 0.1 * new";
  check_tells(branch.with(line, line + " if rank == 0 else e.to_local()"),
              "cause.parted-branch 13: line 13 parts the ranks by their number, and the value is "
              "right if all go on there as one device does");
  // One rank sends it on: the branch is right, and what is told is where it sends.
  const Program sent{"dp = 2", "x = \"f64[4, 3]\"",
                     "s = x.to_local().sum(0) if rank == 0 else torch.zeros([3], dtype=f64)\n"
                     "dist.broadcast(s, src=0)\ny = s\n",
                     "", "dp=R"};
  const std::string told = sent.with("src=0", "src=1").told();
  CHECK_MESSAGE(told.find("cause.parted-branch") == told.npos, told);
}

TEST_CASE("V-33 pieces that one mesh dim cuts are told where they meet those of another") {
  const Program place{"dp = 2\ncp = 2", "x = \"f64[4@dp, 6@cp, 3]\"\np = \"f64[6, 3]\"",
                      "n = x.to_local().shape[1]\ni = mesh.coordinate(\"cp\")\nseen = i * n\n"
                      "y = torch.tanh(x.to_local() + p.to_local()[i * n:(i + 1) * n])\n",
                      "", "dp=S(0), cp=S(1)"};
  CHECK(place.told() == "verified");
  check_tells(place.with("coordinate(\"cp\")", "coordinate(\"dp\")"),
              "cause.other-chunk 12: add in line 12 puts pieces that cp cuts with pieces of the "
              "same dim that dp cuts");
}

TEST_CASE("V-33 an average of terms that are reduced over another group later is a factor") {
  const Program twice{"dp = 2\ntp = 3", "x = \"f64[12@(dp,tp), 4]\"\nw = \"f64[4]\"",
                      "s = x.to_local().pow(2).sum(0)\nseen = s.norm()\n"
                      "s = all_reduce(s, \"sum\", group=\"tp\")\ns = all_reduce(s, \"sum\", "
                      "group=\"dp\")\ny = w.to_local() - 0.1 * s\n",
                      "", "dp=R"};
  CHECK(twice.told() == "verified");
  check_tells(twice.with("s, \"sum\", group=\"tp\"", "s, \"avg\", group=\"tp\""),
              "all_reduce in line 11 takes the avg over tp of terms of a sum: it is 1/3");
}

TEST_CASE("V-33 a sum of replicas in a backward of the program's own is told there") {
  const Program both{
      "tp = 2", "x = \"f64[3, 4]\"\na = \"f64[4, 6@tp]\"\nb = \"f64[6@tp, 2]\"",
      "class Sum(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, t):\n"
      "        return all_reduce(t, \"sum\", group=\"tp\")\n    @staticmethod\n"
      "    def backward(ctx, d):\n        return d\n"
      "w = a.to_local().detach().requires_grad_()\nseen = w.norm()\n"
      "Sum.apply((x.to_local() @ w).relu() @ b.to_local()).pow(2).sum().backward()\n"
      "y = a.to_local() - 0.1 * w.grad\n",
      "", "tp=S(1)"};
  CHECK(both.told() == "verified");
  check_tells(both.with("return d\n", "return all_reduce(d, \"sum\", group=\"tp\")\n"),
              "cause.factor 15: the backward of all_reduce in line 15 adds up over tp what its "
              "ranks hold alike: it counts 2 times");
}

TEST_CASE("V-33 a collective in place that backward ignores is told where a gradient is wrong") {
  const Program norm{"dp = 2", "x = \"f64[6@dp, 3]\"",
                     "h = x.to_local().detach().requires_grad_()\n"
                     "m = all_reduce(h.mean(0), \"avg\", group=\"dp\")\nseen = m.norm()\n"
                     "(h - m).pow(3).sum().backward()\ny = h.grad\n",
                     "", "dp=S(0)"};
  CHECK(norm.told() == "verified");
  check_tells(norm.with("m = all_reduce(h.mean(0), \"avg\", group=\"dp\")",
                        "m = h.mean(0)\ndist.all_reduce(m, op=dist.ReduceOp.AVG)"),
              "cause.term-added 9: all_reduce of line 9 wrote f64[3], which records gradients");
}

TEST_CASE("V-33 a number of a piece is told where it has its name") {
  const Program number{"tp = 2", "x = \"f64[3, 5]\"\na = \"f64[5, 4@tp]\"\nb = \"f64[4@tp, 6]\"",
                       "seen = a.to_local().shape[1] * 2\nscale = 8.0 / a.shape[1]\n"
                       "d = all_reduce(x.to_local() @ a.to_local() @ b.to_local(), \"sum\", "
                       "group=\"tp\")\ny = torch.tanh(d) * scale\n",
                       "", "tp=R"};
  CHECK(number.told() == "verified");
  const Program local = number.with("/ a.shape[1]", "/ a.to_local().shape[1]");
  check_tells(local,
              "cause.factor 10: mul in line 12 takes scale of line 10, 4.0, a number of the rank's "
              "own piece, where one device has 2.0");
  // Before the sum its terms look like those of an average.
  check_tells(local.with(" @ b.to_local()", " @ b.to_local() * scale").with("(d) * scale", "(d)"),
              "cause.factor 10: mul in line 11 takes scale of line 10, 4.0");
}

}  // namespace shardlab
