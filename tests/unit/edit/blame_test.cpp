// Programs with two mistakes planted in each: both are named, the second one in the program in
// which the first is undone. Causes and lines are those that were planted.
#include "sim/edit/blame.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "sim/scenario/cause.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;

namespace {

// The first line of `code` is line 6 where mesh and inputs have a line each.
Blame blamed(const std::string& mesh, const std::string& inputs, const std::string& code,
             const std::string& more = "") {
  return blame(
      test::scenario_of(fmt::format("[mesh]\n{}\n[inputs]\n{}\n[program]\ncode = '''\n{}'''\n{}",
                                    mesh, inputs, code, more)),
      {.run = {}, .least_seconds = 600});
}

// "cause.factor 9, cause.missing-sum 7": all that is named, and whether the last one has an edit.
std::string told(const Blame& blame) {
  if (blame.failure.kind == Symptom::Kind::kNone) return "right";
  std::string text = fmt::format("{} {}", blame.failure.cause, blame.line());
  if (!blame.next.empty()) return text + ", " + told(blame.next.front());
  return text + (blame.edits.empty() ? ", no edit" : "");
}

}  // namespace

TEST_CASE("V-43 a second mistake is named in the program without the first") {
  CHECK(told(blamed("tp = 2",
                    "x = \"f32[4, 8@tp]\"\nv = \"f32[8@tp, 6]\"\nb = \"f32[4]\"\n"
                    "w = \"f32[6@tp, 4]\"",
                    "a = from_local(torch.relu(x.to_local() @ v.to_local()), mesh=mesh)\n"
                    "p = a.redistribute(tp=S(1)).to_local() @ w.to_local()\n"
                    "y = all_reduce(p + b.to_local(), 'sum', group='tp')\n"
                    "out = from_local(y, mesh=mesh)\n")) ==
        "cause.missing-sum 10, cause.term-added 12");
  CHECK(told(blamed("dp = 2\ntp = 2", "x = \"f32[4@dp, 6@tp]\"\nw = \"f32[6@tp, 3]\"",
                    "out = from_local(x.to_local() @ w.to_local(), mesh=mesh, dp=S(0))\n"
                    "n = x.to_local().pow(2).sum()\n"
                    "dist.all_reduce(n)\n"
                    "norm = from_local((n / mesh.size('dp')).sqrt(), mesh=mesh)\n")) ==
        "cause.missing-sum 9, cause.factor 12");
  CHECK(told(blamed("tp = 2", "x = \"f32[4, 6@tp]\"\nz = \"f32[4@tp, 3]\"\nw = \"f32[3, 2]\"",
                    "p = from_local(F.softmax(x.to_local(), dim=1), mesh=mesh, tp=S(1))\n"
                    "wl = w.to_local().detach().requires_grad_()\n"
                    "(z.to_local() @ wl).pow(2).sum().backward()\n"
                    "new = from_local(w.to_local() - 0.1 * wl.grad, mesh=mesh)\n")) ==
        "cause.on-pieces 9, cause.missing-sum 12");
  CHECK(told(blamed("tp = 2", "x = \"f32[4, 6@tp]\"\nw = \"f32[6@tp, 4]\"",
                    "a = from_local(x.to_local() * 2, mesh=mesh, tp=S(0))\n"
                    "b = from_local(x.to_local() @ w.to_local(), mesh=mesh)\n")) ==
        "cause.other-label 8, cause.missing-sum 9");
  CHECK(told(blamed("dp = 2", "x = \"f32[5@dp, 4]\"\nw = \"f32[4]\"",
                    "wl = w.to_local().detach().requires_grad_()\n"
                    "e = (x.to_local() @ wl).pow(2)\n"
                    "e.sum().backward()\n"
                    "logged = from_local(all_reduce(e.detach().mean(), 'avg', group='dp'), "
                    "mesh=mesh)\n"
                    "new = from_local(w.to_local() - 0.1 * wl.grad, mesh=mesh)\n")) ==
        "cause.uneven-mean 11, cause.missing-sum 12");
  CHECK(told(blamed("dp = 2\ntp = 3", "x = \"f32[6@dp, 6@tp]\"\nw = \"f32[6@tp, 3]\"",
                    "y = all_reduce(x.to_local() @ w.to_local(), 'avg', group='tp')\n"
                    "h = from_local(y, mesh=mesh, dp=S(0))\n"
                    "s = h.to_local().sum(0)\n"
                    "out = from_local(s, mesh=mesh)\n")) == "cause.factor 9, cause.missing-sum 12");
  CHECK(told(blamed("tp = 2", "x = \"f32[4, 6@tp]\"\nw = \"f32[6@tp, 4]\"",
                    "y = all_reduce(x.to_local() @ w.to_local(), 'sum', group='tp')\n"
                    "y = all_reduce(y, 'sum', group='tp')\n"
                    "h = from_local(y, mesh=mesh)\n"
                    "q = F.softmax(h.redistribute(tp=S(1)).to_local(), dim=1)\n"
                    "out = from_local(q, mesh=mesh, tp=S(1))\n")) ==
        "cause.factor 9, cause.on-pieces 11");
  CHECK(told(blamed("cp = 2", "x = \"f32[6@cp, 4]\"\nt = \"f32[6, 4]\"\nw = \"f32[4]\"",
                    "at = torch.arange(x.to_local().shape[0])\n"
                    "h = from_local(x.to_local() + t.to_local()[at], mesh=mesh, cp=S(0))\n"
                    "s = (x.to_local() * w.to_local()).sum()\n"
                    "total = from_local(s, mesh=mesh)\n")) ==
        "cause.on-pieces 9, cause.missing-sum 12");
}

TEST_CASE("V-43 an edit that is right by chance, or where nothing is compared, is none") {
  CHECK(told(blamed("dp = 2", "x = \"f32[7, 3]\"\nw = \"f32[3]\"",
                    "n = (7 + world_size - 1) // world_size\n"
                    "xs = torch.cat([x.to_local(), torch.zeros(n * world_size - 7, 3)])\n"
                    "e = (xs[rank * n:(rank + 1) * n] @ w.to_local() - 1).square()\n"
                    "total, count = e.sum(), torch.tensor(float(e.shape[0]))\n"
                    "dist.all_reduce(total)\ndist.all_reduce(count)\n"
                    "print((total / count).item())\n"))
            .ends_with(", no edit"));
  // A factor on what is compared, and a minimum that is right by chance.
  CHECK(told(blamed("dp = 2", "x = \"f32[6@dp, 3]\"\nw = \"f32[3]\"",
                    "state = {'step': torch.tensor(3.0), 'g': x.to_local().mean(0)}\n"
                    "for key in state:\n    dist.all_reduce(state[key])\n"
                    "    if key != 'step':\n        state[key] /= world_size\n"
                    "new = from_local(w.to_local() - state['g'] / (1 - 0.9 ** state['step']), "
                    "mesh=mesh)\n")) == "cause.factor 10");
  CHECK(told(blamed("dp = 2", "x = \"f32[4@dp, 4]\"\nw = \"f32[4, 4]\"",
                    "torch.manual_seed(rank)\n"
                    "u = F.normalize(torch.randn(4), dim=0)\n"
                    "s = torch.dot(u, w.to_local() @ u)\n"
                    "out = from_local(x.to_local() / s, mesh=mesh, dp=S(0))\n")) ==
        "cause.own-draws 9, no edit");
}

// Each with its right twin, on two meshes.
TEST_CASE("V-43 a proven edit is the cause that numbers do not tell") {
  for (const int n : {2, 3}) {
    const auto accumulated = [&](const char* step) {
      return told(blamed(fmt::format("dp = {}", n), "x = \"f32[3, 12@dp, 4]\"\nw = \"f32[4, 3]\"",
                         fmt::format("wl = w.to_local().detach().requires_grad_()\n"
                                     "kept = torch.zeros([4, 3])\n"
                                     "for i in range(3):\n"
                                     "    wl.grad = None\n"
                                     "    (x.to_local()[i] @ wl).pow(2).mean().backward()\n"
                                     "    kept = {}\n"
                                     "dist.all_reduce(kept)\n"
                                     "new = from_local(w.to_local() - 0.1 * kept, mesh=mesh)\n",
                                     step)));
    };
    CHECK(accumulated("(kept + wl.grad) / world_size") == "cause.factor 13");
    CHECK(accumulated("kept + wl.grad / world_size") == "right");

    const auto sampled = [&](const char* ranks, const char* place) {
      return told(blamed(fmt::format("dp = {}\ntp = 2", n),
                         "x = \"f32[24, 4]\"\nv = \"f32[4, 6@tp]\"\nw = \"f32[6@tp, 3]\"",
                         fmt::format("n = 24 // {0}\n"
                                     "mine = x.to_local()[{1} * n:({1} + 1) * n]\n"
                                     "h = torch.relu(mine @ v.to_local()) @ w.to_local()\n"
                                     "dist.all_reduce(h, group=mesh.get_group('tp'))\n"
                                     "y = from_local(h, mesh=mesh, dp=S(0))\n",
                                     ranks, place)));
    };
    CHECK(sampled("world_size", "rank") == "cause.wrong-group 10");
    CHECK(sampled("mesh.size('dp')", "mesh.coordinate('dp')") == "right");

    const auto centred = [&](const char* average) {
      return told(blamed(fmt::format("dp = {}", n),
                         "x = { type = \"f32[12@dp, 3]\", requires_grad = true }\n"
                         "c = \"f32[12@dp, 3]\"",
                         fmt::format("xl = x.to_local()\n"
                                     "mean = xl.mean(0)\n"
                                     "{}\n"
                                     "y = (xl - mean).pow(3) * c.to_local()\n"
                                     "y.sum().backward()\n",
                                     average)));
    };
    CHECK(centred("dist.all_reduce(mean, op=dist.ReduceOp.AVG)") == "cause.term-added 10");
    CHECK(centred("mean = all_reduce(mean, 'avg')") == "right");
  }
  const auto moments = [&](const char* first, const char* second) {
    return told(blamed("dp = 2", "w = \"f32[4]\"\nm = \"f32[4]\"\nv = \"f32[4]\"",
                       fmt::format("flat = torch.cat([{}.to_local(), {}.to_local()])\n"
                                   "all = all_gather(flat.chunk(world_size)[rank], 0)\n"
                                   "new = from_local(w.to_local() - 0.1 * all[:4], mesh=mesh)\n",
                                   first, second),
                       "[reference]\ncode = '''\nnew = w - 0.1 * m\n'''\n"));
  };
  CHECK(moments("v", "m") == "cause.other-chunk 9");
  CHECK(moments("m", "v") == "right");
}
