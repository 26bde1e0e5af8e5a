// torch.distributed in programs: messages about wrong calls, about calls in flight, and about
// results that are never taken. Values that calls write and return are recorded from PyTorch
// (tests/golden/collectives).
#include "tests/unit/language/program_runner.h"

using namespace shardlab;
using test::check_refused;
using test::Lines;
using test::printed;
using test::ProgramOutcome;
using test::run;

TEST_CASE("B-19 a group is a process group, the world, or the name of a mesh dim") {
  CHECK(printed("x = torch.ones(1) * rank\ny = x.clone()\nz = x.clone()\n"
                "dist.all_reduce(x, group='tp')\n"
                "dist.all_reduce(y, group=mesh.get_group('dp'))\n"
                "torch.distributed.all_reduce(z)\n"
                "s = x + 10 * y\ndist.all_reduce(s, op=dist.ReduceOp.MAX)\nprint(s.item(), "
                "z.item())\n") == Lines{"54.0 6.0"});
}

TEST_CASE("B-19 None that a collective returned says where it comes from") {
  check_refused(
      {{"y = dist.all_reduce(torch.ones(2)) * 2\n",
        {"'*' does not work between None (from dist.all_reduce, which writes its argument) "
         "and an int"}},
       {"y = dist.broadcast(torch.ones(2), 0)\nz = from_local(y)\n",
        {"argument 't' is None (from dist.broadcast, which writes its argument)"}},
       {"y = None\nz = from_local(y)\n", {"argument 't' is None, not a tensor"}}});
  CHECK(printed("y = dist.barrier()\nprint(y, y is None, y == None)\n") == Lines{"None True True"});
}

TEST_CASE("B-19 wrong calls name function, group, ranks and shapes") {
  check_refused({
      {"dist.broadcast(torch.ones(2), src=2, group='dp')\n",
       {"dist.broadcast: src is rank 2, which is not in group dp (ranks 0, 1)",
        "dist.get_global_rank(group, 0)"}},
      {"dist.broadcast(torch.ones(2))\n", {"dist.broadcast: src is missing"}},
      {"dist.reduce(torch.ones(2), 0, group_dst=0)\n",
       {"dst and group_dst are given, which both name a rank"}},
      {"dist.reduce(torch.ones(2), group_dst=4)\n", {"group_dst is 4", "from 0 to 3"}},
      {"dist.all_reduce(torch.ones(2), 'sum')\n", {"argument 'op'", "dist.ReduceOp.SUM"}},
      {"dist.all_gather([torch.ones(2)], torch.ones(2))\n",
       {"tensor_list has 1 tensors for the 4 ranks of group world (ranks 0, 1, 2, 3)"}},
      {"dist.all_gather([torch.ones(3)] * 4, torch.ones(2))\n",
       {"all_gather on group world of 4 ranks: f32[2] are to fill [f32[3], f32[3], f32[3], "
        "f32[3]]"}},
      {"dist.all_gather_into_tensor(torch.ones(6), torch.ones(2))\n",
       {"f32[2] are to fill f32[6]"}},
      {"dist.reduce_scatter_tensor(torch.ones(2), torch.ones(6))\n", {"f32[6] are to fill f32[2]"}},
      {"dist.all_to_all_single(torch.ones(6), torch.ones(6))\n",
       {"dim 0 must be a multiple of the number of ranks"}},
      {"dist.all_to_all_single(torch.ones(8), torch.ones(8), [1, 2, 3, 2], [2, 2, 2])\n",
       {"all_to_all on group world of 4 ranks: it sends [2, 2, 2]: 3 numbers of rows",
        "one number of rows for each rank"}},
      {"dist.all_to_all_single(torch.ones(8), torch.ones(8), [1, 2, 3, 3])\n",
       {"it receives [1, 2, 3, 3] rows, 9 in all, and the tensor is f32[8]"}},
      {"dist.all_reduce(distribute(torch.ones(4), tp=S(0)))\n",
       {"f32[4@tp] is distributed", "x.to_local()"}},
      {"dist.all_gather_into_tensor(torch.ones(8, dtype=torch.int64), torch.ones(2))\n",
       {"i64[8] next to f32[2], of another dtype"}},
      {"dist.all_gather([torch.zeros(1).expand(2) for i in range(4)], torch.ones(2))\n",
       {"elements of f32[2] share memory", "clone()"}},
      {"x = torch.ones(2, 3)\ndist.all_reduce(x[:, 1])\n",
       {"all_reduce on group world of 4 ranks: f32[2] has gaps between its elements", "copy_(y)"}},
      {"dist.gather(torch.ones(2))\n", {"rank 0 is the destination and has no gather_list"}},
      {"dist.scatter(torch.ones(2), [torch.ones(2)] * 4)\n",
       {"has a scatter_list and is not the source"}},
      {"dist.all_gather_object([None], 1)\n", {"object_list has 1 entries for 4 ranks"}},
      {"dist.all_gather_object([None] * 4, torch.ones(2))\n",
       {"a tensor is not sent as an object", "dist.all_gather"}},
      {"dist.new_group([0, 0])\n", {"rank 0 is named twice"}},
      {"dist.new_group([0, 4])\n", {"there is no rank 4 in a world of 4 ranks"}},
      {"dist.new_group([])\n", {"a group has one rank or more"}},
      {"dist.new_group([0], use_local_synchronization=True)\n", {"use_local_synchronization"}},
      {"dist.get_global_rank(mesh.get_group('tp'), 2)\n", {"group_rank 2 is not in group tp"}},
      {"g = dist.new_group([0, 2])\nall_reduced = all_reduce(torch.ones(1), group=g)\n",
       {"rank 1 is not in group ranks_0_2 (ranks 0, 2)", "if rank in [0, 2]"}},
  });
  CHECK_THROWS_WITH_AS(run("dist.argmax(torch.ones(2))\n", "tp = 2"),
                       doctest::Contains("unknown op 'torch.distributed.argmax'"), Error);
}

TEST_CASE("B-19 groups of the program's own: those of equal ranks are two, others do nothing") {
  CHECK(printed("a = dist.new_group([3, 0])\nb = dist.new_group([0, 3])\n"
                "c = dist.new_group([3, 1], sort_ranks=False)\n"
                "x = torch.ones(1) * rank\n"
                "dist.all_reduce(x, group=a)\ndist.all_reduce(x, group=b)\n"
                "dist.broadcast(x, src=3, group=c)\n"
                "every = [None] * 4\n"
                "dist.all_gather_object(every, (x.item(), dist.get_rank(a), dist.get_rank(c)))\n"
                "print(every)\n"
                "names = [None] * 4\n"
                "dist.all_gather_object(names, [g.group_name for g in [a, b, c] if g != "
                "dist.GroupMember.NON_GROUP_MEMBER])\nprint(names)\n") ==
        Lines{"[(6.0, 0, -1), (6.0, -1, 1), (2.0, -1, -1), (6.0, 1, 0)]",
              "[['ranks_0_3', 'ranks_0_3_no_2'], ['ranks_3_1'], [], ['ranks_0_3', "
              "'ranks_0_3_no_2', 'ranks_3_1']]"});
}

TEST_CASE("B-19 objects keep their kinds, and are copies") {
  CHECK(printed("out = [None]\ninner = [1]\n"
                "dist.scatter_object_list(out, [inner, {'a': (None, 2.5)}, True, 'x'] if rank == 0 "
                "else None)\n"
                "inner.append(2)\nevery = [None] * 4\n"
                "dist.all_gather_object(every, out)\nprint(every)\n") ==
        Lines{"[[[1]], [{'a': (None, 2.5)}], [True], ['x']]"});
}

TEST_CASE("B-20 a tensor in flight is neither read nor written, and the error has both lines") {
  const std::string begins = "x = torch.ones(4)\nw = dist.all_reduce(x, async_op=True)\n";
  const char* const kRead = "read while the all_reduce on group world of line 6 is filling it";
  const char* const kWritten =
      "written while the all_reduce on group world of line 6 is filling it";
  for (const char* read : {"y = x + 1\n", "print(x)\n", "y = x[1].item()\n", "y = x.tolist()\n",
                           "y = x.view(2, 2) * 2\n", "y = all_reduce(x.detach())\n",
                           "y = distribute(x, tp=S(0))\n", "dist.broadcast(x, 0)\n"}) {
    CAPTURE(std::string(read));
    const ProgramOutcome out = run(begins + read, "tp = 2");
    CHECK(out.error.find(kRead) != std::string::npos);
    CHECK(out.error.find("call wait() on what the all_reduce of line 6 gave") != std::string::npos);
  }
  for (const char* write : {"x += 1\n", "x[0] = 5.0\n", "x.view(2, 2).zero_()\n"}) {
    CAPTURE(std::string(write));
    CHECK(run(begins + write, "tp = 2").error.find(kWritten) != std::string::npos);
  }
}

TEST_CASE("B-20 memory next to it is free, and all of it once the program has waited") {
  CHECK(printed("x = torch.ones(6)\ny = torch.zeros(2)\n"
                "w = dist.all_reduce(x[2:4], async_op=True)\n"
                "v = x.view(2, 3)\nshape = x.shape\n"
                "x[0:2] += 1\ns = x[4:6].sum()\n"
                "u = dist.all_reduce(x[4:6], async_op=True)\n"
                "w.wait()\nprint(x[0:4].tolist())\nu.wait()\nprint(x.tolist(), u.is_completed())\n",
                "tp = 2") == Lines{"[2.0, 2.0, 2.0, 2.0]", "[2.0, 2.0, 2.0, 2.0, 2.0, 2.0] True"});
  const ProgramOutcome sent =
      run("x = torch.ones(2)\nouts = [torch.zeros(2), torch.zeros(2)]\n"
          "w = dist.all_gather(outs, x, async_op=True)\ny = x + 1\nx += 1\n",
          "tp = 2");
  CHECK(sent.error.find("written while the all_gather on group world of line 7 is sending from "
                        "it") != std::string::npos);
}

TEST_CASE("B-20 a handle that is lost leaves its tensor in flight") {
  CHECK(run("x = torch.ones(4)\ndist.all_reduce(x, async_op=True)\ny = x + 1\n", "tp = 2")
            .error.find("is filling it") != std::string::npos);
}

TEST_CASE("B-21 a new tensor that nobody takes is refused, with the call that writes") {
  for (const char* code :
       {"x = torch.ones(2)\nall_reduce(x)\n",
        "x = torch.ones(2)\nfuncol.all_reduce(x, 'sum', None)\n",
        "def f(x):\n    all_reduce(x)\nf(torch.ones(2))\n",
        "[all_reduce(x) for x in [torch.ones(2)]]\n",
        "torch.distributed._functional_collectives.all_reduce(torch.ones(2), 'sum', None)\n"}) {
    CAPTURE(std::string(code));
    CHECK_THROWS_WITH_AS(run(code, "tp = 2"),
                         doctest::Contains("the result of all_reduce is dropped"), Error);
    CHECK_THROWS_WITH_AS(run(code, "tp = 2"), doctest::Contains("dist.all_reduce(...) writes"),
                         Error);
  }
  CHECK(printed("def all_reduce(x):\n    print('own')\nall_reduce(1)\nbarrier()\ndist.barrier()\n"
                "y = funcol.all_reduce(torch.ones(1), 'sum', None)\nfuncol.wait_tensor(y)\n"
                "print(y.item())\n",
                "tp = 2") == Lines{"own", "2.0"});
}

TEST_CASE("X-71 calls that gloo refuses are done as they are meant") {
  CHECK(printed("x = torch.tensor([300, -5], dtype=torch.int16) * (rank + 1)\n"
                "dist.all_reduce(x)\nouts = [torch.zeros(i + 1) for i in range(2)]\n"
                "dist.all_gather(outs, torch.ones(rank + 1) * (rank + 5))\n"
                "rows = torch.zeros(2, 2)\n"
                "dist.all_gather_into_tensor(rows, torch.ones(2) * rank)\n"
                "print(x.tolist(), [y.tolist() for y in outs], rows.tolist())\n",
                "tp = 2") == Lines{"[900, -15] [[5.0], [6.0, 6.0]] [[0.0, 0.0], [1.0, 1.0]]"});
}

TEST_CASE("X-72 tensors of other shapes on other ranks are a mismatch, also of equal size") {
  const ProgramOutcome out =
      run("x = torch.ones(2, 3) if rank == 0 else torch.ones(6)\n"
          "dist.all_reduce(x)\n",
          "tp = 2");
  CHECK(out.error.find("different shapes") != std::string::npos);
}

TEST_CASE("X-73 backward refuses what a collective has written since it was kept") {
  const ProgramOutcome out =
      run("w = torch.ones(2, requires_grad=True)\nx = torch.ones(2) * rank\n"
          "y = w * x\ndist.all_reduce(x)\ny.sum().backward()\n",
          "tp = 2");
  CHECK(out.error.find("was modified by an in-place op") != std::string::npos);
}

TEST_CASE("X-74 a tensor with gaps, or whose elements share memory, is not filled") {
  check_refused({{"x = torch.ones(2, 3)\ndist.broadcast(x[:, 1], 0)\n",
                  {"f32[2] has gaps between its elements"}},
                 {"x = torch.zeros(2, 1).expand(2, 3)\n"
                  "dist.scatter(x, [torch.ones(2, 3)] * 4 if rank == 0 else None)\n",
                  {"elements of f32[2, 3] share memory"}}});
}
