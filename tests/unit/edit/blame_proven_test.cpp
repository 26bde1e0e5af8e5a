// Programs with one mistake whose cause the numbers do not tell, and an edit does; each with its
// right twin.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/unit/edit/blamed.h"

using namespace shardlab;
using test::blamed, test::told;

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
  const auto gated = [&](const char* place) {
    return told(
        blamed("ep = 2", "x = \"f32[3, 2]\"\nw = \"f32[4@ep, 2, 2]\"\ng = \"f32[2, 4]\"",
               fmt::format("s = F.softmax(x.to_local() @ g.to_local(), -1)\n"
                           "y = torch.zeros(3, 2)\n"
                           "n = w.to_local().shape[0]\n"
                           "for i in range(n):\n"
                           "    y = y + s[:, {0}:{0} + 1] * (x.to_local() @ w.to_local()[i])\n"
                           "dist.all_reduce(y)\n"
                           "out = from_local(y, mesh=mesh)\n",
                           place)));
  };
  CHECK(gated("i") == "cause.other-chunk 13");
  CHECK(gated("(rank * n + i)") == "right");
}

TEST_CASE("V-43 a proven edit names a part that another rank should take") {
  const auto moments = [&](const char* first, const char* second) {
    return told(blamed("dp = 2", "w = \"f32[4]\"\nm = \"f32[4]\"\nv = \"f32[4]\"",
                       fmt::format("flat = torch.cat([{}.to_local(), {}.to_local()])\n"
                                   "all = all_gather(flat.chunk(world_size)[rank], 0)\n"
                                   "new = from_local(w.to_local() - 0.1 * all[:4], mesh=mesh)\n",
                                   first, second),
                       "[reference]\ncode = '''\nnew = w - 0.1 * m\n'''\n"));
  };
  const auto taken = [&](const char* place) {
    return told(blamed("dp = 3", "x = \"f32[6, 2]\"",
                       fmt::format("n = mesh.size('dp')\n"
                                   "parts = x.to_local().chunk(n)\n"
                                   "mine = parts[{}]\n"
                                   "out = from_local(torch.relu(mine), mesh=mesh, dp=S(0))\n",
                                   place)));
  };
  CHECK(taken("(rank + 1) % n") == "cause.other-chunk 9");
  CHECK(taken("(rank + n) % n") == "right");
  CHECK(moments("v", "m") == "cause.other-chunk 9");
  CHECK(moments("m", "v") == "right");
}
