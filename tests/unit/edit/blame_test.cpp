// Programs with two mistakes planted in each: both are named, the second one in the program in
// which the first is undone. Causes and lines are those that were planted.
#include <doctest/doctest.h>

#include "tests/unit/edit/blamed.h"

using namespace shardlab;
using test::blamed, test::told;

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
