// Questions of programs to placements, meshes, process groups and contexts. Expected values: torch
// 2.15 on a fake process group of the same ranks, or worked out by hand where ours differ on
// purpose.
#include "tests/unit/language/program_runner.h"
#include "trace/traced_members.h"

using namespace shardlab;
using test::check_refused;
using test::Lines;
using test::printed;
using test::ProgramOutcome;
using test::run;

TEST_CASE("T-20 torch's names make the same placements, printed in one form") {
  CHECK(printed("print(Shard(0), Shard(dim=-1), Replicate(), Partial(), Partial('avg'), "
                "Partial(reduce_op='max'), _StridedShard(0, split_factor=2))\n"
                "print(Shard(0) == S(0), Replicate() == R, Partial() == P(sum))\n"
                "print(Partial('max') == P(max), Shard(0) == _StridedShard(0, split_factor=2))\n"
                "make = Shard\nprint(make(1), [kind(0) for kind in [S, Shard]])\n"
                "x = distribute(arange(5), tp=Shard(0), dp=Replicate())\n"
                "print(x.type, x.placements, x.redistribute(tp='Replicate()').type)\n"
                "print(torch.distributed.tensor.Shard(1))\n") ==
        Lines{"S(0) S(-1) R P(sum) P(avg) P(max) SS(0,2)", "True True True", "True False",
              "S(1) [S(0), S(0)]", "i64[5@tp] (S(0), R) i64[5]", "S(1)"});
}

TEST_CASE("a method of one kind of values is refused on others before its arguments are read") {
  check_refused({{"[1].upper(3)\n", {"a list has no 'upper'", "use it on a string"}},
                 {"'a'.append()\n", {"a str has no 'append'", "use it on a list"}},
                 {"{1: 2}.add(1)\n", {"a dict has no 'add'", "use it on a set or a tensor"}},
                 {"{1}.get(2)\n", {"a set has no 'get'", "use it on a dict"}},
                 {"'a'.upper(3)\n", {"upper: the number of arguments is 1", "call it as upper()"}},
                 {"distribute(arange(5), tq=S(0))\n", {"distribute", "tq"}},
                 {"dist.new_group(rank=[0])\n", {"dist.new_group: unknown argument 'rank'"}}});
}

TEST_CASE("a list of placements, one for each mesh dim, places tensors as torch's functions do") {
  CHECK(printed("x = distribute(arange(6).view(2, 3), [Replicate(), Shard(-1)])\n"
                "print(x.type, x.redistribute([Shard(0), Replicate()]).type)\n"
                "print(x.redistribute(placements=(Shard(0), Shard(1)), dp=R).type)\n"
                "print(from_local(ones(2, 2), mesh, [Shard(1), Partial()]).type)\n") ==
        Lines{"i64[2, 3@dp] i64[2@tp, 3]", "i64[2@tp, 3]", "f32[2, 4@tp]{sum:dp}"});
  check_refused(
      {{"distribute(arange(5), [S(0)])\n",
        {"distribute: the number of placements is 1, and the mesh {tp:2, dp:2} has 2 dims",
         "tp=R"}},
       {"distribute(arange(5), tp=S(0)).redistribute([R, 'S(0)'])\n", {"a list of placements"}},
       {"distribute(arange(5), tp=S(0)).redistribute(R)\n",
        {"'placements' is a placement, R, not a list of placements"}},
       {"distribute(arange(5), [S(0), S(3)])\n", {"3", "5"}},
       {"from_local(arange(5), placements='[5@tp]')\n", {"not a list of placements"}}});
}

TEST_CASE(
    "T-22 T-23 T-64 a placement says what it is; a strided shard is no shard, as in PyTorch") {
  CHECK(printed(
            "s = _StridedShard(0, split_factor=2)\n"
            "print(Shard(3).dim, s.dim, s.split_factor, Partial('avg').reduce_op, P().reduce_op)\n"
            "print(Shard(0).is_shard(), Shard(0).is_shard(0), Shard(0).is_shard(1), "
            "Shard(0).is_shard(dim=0), s.is_shard(), s.is_shard(0), R.is_shard(), "
            "R.is_shard(0))\n"
            "print(R.is_replicate(), Shard(0).is_replicate(), P(sum).is_partial(), "
            "P(avg).is_partial('sum'), P(avg).is_partial(reduce_op='avg'), R.is_partial())\n"
            "print(isinstance(s, Shard), isinstance(S(0), Shard), isinstance(s, _StridedShard), "
            "isinstance(R, (Shard, Replicate)), isinstance(P(max), Partial), isinstance(R, "
            "Placement), isinstance(1, Placement))\n"
            "x = distribute(arange(5), tp=S(0))\n"
            "print([p.dim if p.is_shard() else None for p in x.placements])\n"
            "ask = Shard(1).is_shard\nprint(ask(1))\n") ==
        Lines{"3 0 2 avg sum", "True True False True False False False False",
              "True False True False True False", "False True True True True True False",
              "[0, None]", "True"});
  check_refused({{"Replicate().dim\n", {"the placement R has no 'dim'", "shards have one"}},
                 {"Partial().dim\n", {"the placement P(sum) has no 'dim'"}},
                 {"Shard(0).reduce_op\n", {"the placement S(0) has no 'reduce_op'"}},
                 {"Shard(0).split_factor\n", {"the placement S(0) has no 'split_factor'"}},
                 {"Shard()\n", {"Shard: argument 'dim' is missing", "call it as Shard(dim)"}},
                 {"Shard('a')\n", {"Shard: argument 'dim' is a str", "Shard"}},
                 {"Partial('sun')\n", {"'sun' is not a reduction", "sum"}},
                 {"Placement()\n", {"makes none", "Shard(0)"}},
                 {"R.is_shard(0, 1)\n", {"is_shard: the number of arguments is 2"}},
                 {"isinstance(1, 2)\n", {"isinstance: 2 is not a type"}},
                 {"distribute(arange(5), tp=Replicate)\n", {"Replicate is not a placement"}}});
}

// Ranks 2 and 7 are outside.
TEST_CASE(
    "T-29 to T-46, T-64, X-56 meshes and groups answer as PyTorch's, outside of the mesh too") {
  const std::string mesh =
      "world = 8\n[mesh]\ntp = 2\ndp = 3\nranks = [[0, 1, 3], [4, 5, 6]]\n[params]";
  const ProgramOutcome out = run(
      "print(mesh.get_coordinate(), mesh.get_rank(), mesh._is_current_rank_part_of_mesh())\n"
      "if mesh.get_coordinate() is not None:\n"
      "    print(mesh.get_local_rank('dp'), mesh.get_local_rank(0), mesh['dp'].get_local_rank(), "
      "mesh['dp'].get_coordinate(), mesh._sym_get_coordinate(1))\n"
      "    g = mesh.get_group('dp')\n"
      "    print(g.rank(), g.size(), get_process_group_ranks(g), mesh['dp'].get_group() == g, "
      "[h.size() for h in mesh.get_all_groups()])\n"
      "    print(g, g.group_name, _resolve_group_name_by_ranks_and_tag([3, 0, 1] if rank < 4 else "
      "[4, 6, 5], ''), _resolve_group_name_by_ranks_and_tag(list(range(8)), ''), "
      "_resolve_group_name_by_ranks_and_tag(get_process_group_ranks(g), _get_group_tag(g)))\n"
      "    print(dist.get_rank(g), dist.get_world_size(g), dist.get_rank(), "
      "dist.get_world_size())\n"
      "    print(_get_group_size_by_name(g.group_name), _get_group_size_by_name('world'), "
      "_rank_not_in_group(g))\n",
      mesh);
  CHECK(out.error == "");
  REQUIRE(out.lines.size() == 8);
  CHECK(out.lines[3] == Lines{"(0, 2) 3 True", "2 0 2 (2,) 2", "2 3 [0, 1, 3] True [2, 3]",
                              "group(dp) dp dp world dp", "2 3 3 8", "3 8 False"});
  CHECK(out.lines[4] == Lines{"(1, 0) 4 True", "0 1 0 (0,) 0", "0 3 [4, 5, 6] True [2, 3]",
                              "group(dp) dp dp world dp", "0 3 4 8", "3 8 False"});
  for (const std::size_t outside : {2, 7}) {
    CHECK(out.lines[outside] == Lines{"None " + std::to_string(outside) + " False"});
  }
  CHECK(printed("print(mesh.ndim, mesh.shape, mesh.size(), mesh.size(1), mesh.size(-1), "
                "mesh.mesh_dim_names, mesh.device_type)\n"
                "w = dist.group.WORLD\nd = mesh._get_or_create_default_group()\n"
                "print(w, w.size(), w.group_name, w == d, _rank_not_in_group(None))\n"
                "outside = dist.GroupMember.NON_GROUP_MEMBER\n"
                "print(_rank_not_in_group(outside), get_process_group_ranks(None))\n"
                "print(dist.GroupMember.WORLD == w, w._get_backend_name())\n"
                "size = w.size\nprint(size())\n",
                "tp = 2\ndp = 3") == Lines{"2 (2, 3) 6 3 3 ('tp', 'dp') cpu",
                                           "group(world) 6 world True False",
                                           "True [0, 1, 2, 3, 4, 5]", "True threads", "6"});
}

// Both are tables; a member that only one had would be a break in one of C++ and scenarios.
TEST_CASE(
    "T-6 T-64 questions about meshes, placements and groups are listed for captures as well") {
  const auto unlisted = [](TracedKind kind, BuiltinTable table) {
    Lines names;
    for (const Builtin& builtin : table) {
      if (find_member(kind, builtin.name) == nullptr) names.push_back(builtin.name);
    }
    return names;
  };
  // Lists, another view of the ranks, and a tensor: no constants of a graph.
  CHECK(unlisted(TracedKind::kDeviceMesh, mesh_methods()) ==
        Lines{"_get_all_submeshes", "_get_root_mesh", "_unflatten", "get_all_groups", "mesh"});
  CHECK(unlisted(TracedKind::kPlacement, placement_methods()) == Lines{});
  CHECK(unlisted(TracedKind::kProcessGroup, group_methods()) == Lines{});
}

TEST_CASE("T-38 a flattened mesh has one dim over several, and collectives over it") {
  const ProgramOutcome out =
      run("f = mesh._flatten()\n"
          "print(f, f.ndim, f.mesh_dim_names, f.size(), mesh['tp_dp'] == f, mesh._flatten() == f)\n"
          "print(f.get_local_rank(), f.get_coordinate(), get_process_group_ranks(f.get_group()))\n"
          "x = distribute(arange(7), mesh=f, tp_dp=S(0))\n"
          "print(x.type, x.to_local(), all_reduce(tensor([1]), group=f.get_group()))\n"
          "part = mesh['pp', 'tp']._flatten('both')\n"
          "print(part.size(), part.get_local_rank(), get_process_group_ranks(part.get_group()))\n",
          "tp = 2\ndp = 3");
  CHECK(out.error.find("'pp' is not a mesh dim") != std::string::npos);
  REQUIRE(out.lines.size() == 6);
  CHECK(out.lines[4] == Lines{"{tp_dp:6} 1 ('tp_dp',) 6 True True", "4 (4,) [0, 1, 2, 3, 4, 5]",
                              "i64[7@tp_dp] i64[0] [] i64[1] [6]"});
  const ProgramOutcome parts = run(
      "part = mesh['pp', 'tp']._flatten('both')\n"
      "print(part.size(), part.get_local_rank(), get_process_group_ranks(part.get_group()), "
      "part.get_group().group_name, _get_group_size_by_name('both'))\n"
      "x = distribute(arange(7), pp=S(0), tp=S(0))\n"
      "print(x.redistribute(pp=R, tp=R).full_tensor(), mesh['dp']._flatten('rows').get_rank())\n",
      "pp = 2\ntp = 2\ndp = 2");
  CHECK(parts.error == "");
  REQUIRE(parts.lines.size() == 8);
  CHECK(parts.lines[5] == Lines{"4 2 [1, 3, 5, 7] both 4", "i64[7] [0, 1, 2, 3, 4, 5, 6] 5"});
}

TEST_CASE("X-65 T-6 a member that no kind has is named with the kind, in a traced def too") {
  const std::vector<std::pair<std::string, std::string>> asked = {
      {"mesh.is_shard()", "a mesh has no 'is_shard'"},
      {"mesh.reduce_op", "a mesh has no 'reduce_op'"},
      {"mesh.get_group('tp').mesh_dim_names", "a group has no 'mesh_dim_names'"},
      {"distribute(arange(5)).placements[0].get_group()", "a placement has no 'get_group'"},
      {"Shard(0).reduce_op", "the placement S(0) has no 'reduce_op'"}};
  for (const auto& row : asked) {
    const auto& member = row.first;
    const auto& message = row.second;
    CAPTURE(member);
    const std::string traced =
        "def f(x):\n    q = " + member + "\n    return x + 1\nstep = trace(f)\nstep(arange(4))\n";
    const std::string alone = member + "\n";
    check_refused({{alone.c_str(), {message.c_str()}}, {traced.c_str(), {message.c_str()}}});
  }
  // Names of classes that exist before anything runs.
  CHECK_THROWS_WITH_AS(run("dist.group.FOO\n", "tp = 2"),
                       doctest::Contains("torch.distributed.group has no 'FOO'"), Error);
  CHECK_THROWS_WITH_AS(run("dist.GroupMember.rank()\n", "tp = 2"),
                       doctest::Contains("torch.distributed.GroupMember has no 'rank'"), Error);
}

TEST_CASE("meshes and groups refuse what they do not have") {
  check_refused(
      {{"mesh.get_group()\n",
        {"get_group: the mesh has 2 dims, and none is named", "mesh.get_group("}},
       {"mesh.get_local_rank()\n", {"get_local_rank: the mesh has 2 dims"}},
       {"mesh.get_group('pp')\n", {"'pp' is not a mesh dim", "{tp:2, dp:2}"}},
       {"mesh.get_local_rank(5)\n", {"5 is not a mesh dim"}},
       {"_get_group_size_by_name('tq')\n", {"no process group is called 'tq'", "tp"}},
       {"_resolve_group_name_by_ranks_and_tag([1, 2], '')\n", {"has the ranks [1, 2]"}},
       {"_get_group_tag('tp')\n", {"_get_group_tag: argument 'group' is a str"}},
       {"mesh.get_group('tp').shape\n", {"a group has no 'shape'"}},
       {"mesh.get_group('tp').rank(1)\n", {"rank: the number of arguments is 1"}},
       {"mesh._flatten('tp')\n", {"_flatten: the mesh has a dim 'tp' already"}},
       {"mesh.device_type()\n", {"a str cannot be called"}},
       {"y = all_reduce(tensor([1]), group=Shard)\n", {"a group must be a process group"}}});
  check_refused({{"mesh.get_group('x')\n", {"get_group: rank 2 is not in the mesh"}},
                 {"mesh.get_local_rank()\n", {"get_local_rank: rank 2 is not in the mesh"}}},
                "world = 3\n[mesh]\nx = 2\n[params]");
}

// The names of torch.return_types, PyTorch 2.15.
TEST_CASE("B-63 results of an op have the names of its schema, also in lists, copies and defs") {
  CHECK(printed("x = distribute(tensor([[3, 1, 2], [4, 6, 5]]), tp=S(0))\n"
                "m = x.max(dim=1)\nprint(m.values.full_tensor(), m.indices.full_tensor())\n"
                "print(torch.sort(x, dim=1).values.type, x.topk(2).indices.full_tensor())\n"
                "values, indices = m\nprint(m[0] is m.values, indices is m.indices, len(m))\n"
                "def least(t):\n    return t.min(dim=1).values\n"
                "print(least(x).full_tensor(), [x.sort()][0].values.full_tensor())\n"
                "q = torch.linalg.qr(torch.eye(2))\nprint(q.Q.shape, q.R.shape)\n"
                "print({'values': 1}.values())\n") ==
        Lines{"i64[2] [3, 6] i64[2] [0, 1]", "i64[2@tp, 3] i64[2, 2] [[0, 2], [1, 2]]",
              "True True 2", "i64[2] [1, 4] i64[2, 3] [[1, 2, 3], [4, 5, 6]]", "(2, 2) (2, 2)",
              "dict_values([1])"});
  check_refused({{"x = tensor([1, 2]).max(dim=0)\ny = x.mantissa\n", {"a tuple has no 'mantissa'"}},
                 {"y = (1, 2).indices\n", {"a tuple has no 'indices'"}}});
}

TEST_CASE("programs name devices as PyTorch's do, and all tensors stay where they are") {
  CHECK(printed("x = distribute(tensor([1., 2., 3.]), tp=S(0))\n"
                "dev = torch.device('cuda', 1)\n"
                "print(x.to('cuda').type, x.to(x.device).type, x.to(device='cuda:0').type, "
                "x.to(dev, non_blocking=True).type, x.to('cuda', torch.bfloat16).type)\n"
                "print(x.to('cuda') is x, x.to('cuda', copy=True) is x, torch.zeros(2, "
                "device=dev).dtype)\n") ==
        Lines{"f32[3@tp] f32[3@tp] f32[3@tp] f32[3@tp] bf16[3@tp]", "True False f32"});
}

TEST_CASE("B-63 a limit of the language ends the run, whatever handlers there are") {
  for (const char* limit : {"x = 2147483648 * 4294967296", "x = 10 ** 19 - 10 ** 19",
                            "x = int(1e19)", "x = int('1' * 30)", "x = [0] * 2000000",
                            "x = 'a' * 2000000", "x = list(range(2000000))"}) {
    CAPTURE(std::string(limit));
    const std::string code = std::string("try:\n    ") + limit +
                             "\nexcept Exception:\n    print('caught')\nprint('after')\n";
    const ProgramOutcome out = run(code);
    CHECK(out.error != "");
    CHECK(out.lines[0].empty());
  }
}

// CPython 3.11.
TEST_CASE("B-63 errors of plain Python have its classes and texts") {
  const std::pair<const char*, const char*> rows[] = {
      {"1 << -1", "ValueError negative shift count"},
      {"math.sqrt(-1)", "ValueError math domain error"},
      {"math.log(0)", "ValueError math domain error"},
      {"math.exp(1000)", "OverflowError math range error"},
      {"list(range(0, 5, 0))", "ValueError range() arg 3 must not be zero"},
      {"int(float('inf'))", "OverflowError cannot convert float infinity to integer"},
      {"int(float('nan'))", "ValueError cannot convert float NaN to integer"}};
  for (const auto& [expression, expected] : rows) {
    const std::string kind = std::string(expected).substr(0, std::string(expected).find(' '));
    const std::string other = kind == "ValueError" ? "ArithmeticError" : "ValueError";
    CHECK(printed("try:\n    x = " + std::string(expression) + "\nexcept " + other +
                  ":\n    print('no')\nexcept " + kind + " as e:\n    print('" + kind +
                  "', e)\n") == Lines{expected});
  }
  CHECK(printed("def f(given):\n    if given:\n        y = 1\n    return y\n"
                "try:\n    f(False)\nexcept ArithmeticError:\n    print('no')\n"
                "except NameError:\n    print('name')\n") == Lines{"name"});
}

TEST_CASE("a checkpoint calls its function once, with gradients") {
  CHECK(printed("from torch.utils.checkpoint import checkpoint\n"
                "calls = []\n"
                "def f(t, by, shift=0):\n    calls.append(1)\n    return t * by + shift\n"
                "w = distribute(tensor([1., 2., 3.]), tp=S(0)).requires_grad_()\n"
                "y = torch.utils.checkpoint.checkpoint(f, w, 3, shift=1, use_reentrant=False)\n"
                "torch.autograd.backward([y.sum()])\n"
                "print(y.full_tensor(), w.grad.full_tensor(), len(calls))\n"
                "print(checkpoint(torch.relu, w.detach(), preserve_rng_state=False).type)\n") ==
        Lines{"f32[3] [4, 7, 10] f32[3] [3, 3, 3] 1", "f32[3@tp]"});
  check_refused({{"torch.utils.checkpoint.checkpoint()\n", {"checkpoint: the function is missing"}},
                 {"torch.utils.checkpoint.checkpoint(3)\n", {"an int cannot be called"}}});
}

TEST_CASE("a def inside a def keeps its variables, late and one per call") {
  CHECK(printed("def scaled(by):\n"
                "    def run(x):\n"
                "        return x * by[0]\n"
                "    return run\n"
                "by = [2.0]\nf = scaled(by)\n"
                "x = distribute(arange(5).float(), tp=S(0))\n"
                "print(f(x).full_tensor())\nby[0] = 3.0\nprint(f(x).full_tensor(), f)\n") ==
        Lines{"f32[5] [0, 2, 4, 6, 8]", "f32[5] [0, 3, 6, 9, 12] run"});
  check_refused({{"def f():\n    def g():\n        return x\n    y = g()\n    x = 1\nf()\n",
                  {"'x' is used before it has a value"}},
                 {"def f():\n    def g():\n        n += 1\n    n = 0\n    g()\nf()\n",
                  {"'n' is used before it has a value in g"}},
                 {"def f():\n    def g():\n        return g()\n    return g()\nf()\n",
                  {"nested too deeply"}}});
}

TEST_CASE(
    "with: contexts are entered from the left and left where the block ends, also by return") {
  CHECK(printed("w = distribute(ones(5), tp=S(0)).requires_grad_()\n"
                "with no_grad():\n"
                "    y = w * 2\n"
                "    w += 1\n"
                "    with enable_grad():\n"
                "        print((w * 2).requires_grad, is_grad_enabled())\n"
                "    print(y.requires_grad, is_grad_enabled(), w.full_tensor())\n"
                "print(is_grad_enabled(), (w * 2).requires_grad)\n"
                "def early():\n"
                "    with inference_mode():\n"
                "        return (w * 2).requires_grad\n"
                "print(early(), is_grad_enabled())\n"
                "for i in range(3):\n"
                "    with set_grad_enabled(i == 1), torch.inference_mode(mode=False) as nothing:\n"
                "        if i == 1:\n"
                "            break\n"
                "print(i, nothing, is_grad_enabled())\n") ==
        Lines{"True True", "False False f32[5] [2, 2, 2, 2, 2]", "True True", "False True",
              "1 None True"});
  check_refused(
      {{"with 3:\n    pass\n", {"'with' cannot enter an int", "no_grad()"}},
       {"with no_grad:\n    pass\n", {"'with' cannot enter a function"}},
       {"w = ones(2).requires_grad_()\nwith no_grad():\n    y = w * 2\nbackward(y.sum())\n",
        {"nothing that the loss depends on requires a gradient"}}});
}

TEST_CASE("a plain tensor is a replica while implicit_replication is on") {
  CHECK(printed("x = distribute(arange(5), tp=S(0))\n"
                "with implicit_replication():\n"
                "    y = x + tensor([1, 1, 1, 1, 1])\n"
                "print(y.type, y.full_tensor())\n") == Lines{"i64[5@tp] i64[5] [1, 2, 3, 4, 5]"});
  check_refused(
      {{"x = distribute(arange(5), tp=S(0))\nwith implicit_replication():\n    pass\n"
        "y = x + tensor([1, 1, 1, 1, 1])\n",
        {"plain and distributed"}}});
}

TEST_CASE("R-65 R-68 R-70 redistribute sends in other dtypes; async_op waits where it is used") {
  CHECK(printed("x = distribute(tensor([1.0, 1.0009765625, 3.0, 4.0, 5.0]), tp=S(0))\n"
                "x.requires_grad_()\n"
                "y = x.redistribute(tp=R, forward_dtype=bf16)\n"
                "print(y.type, y.full_tensor())\n"
                "z = x.redistribute(tp=R, async_op=True, backward_dtype=torch.bfloat16)\n"
                "print(z.type, (z * 2).full_tensor())\n"
                "(z * tensor(1.0009765625)).sum().backward()\nprint(x.grad.type)\n") ==
        Lines{"bf16[5] bf16[5] [1, 1, 3, 4, 5]", "f32[5] f32[5] [2, 2.00195, 6, 8, 10]",
              "f32[5@tp]"});
  check_refused(
      {{"x = distribute(arange(5), tp=S(0))\nx.redistribute(tp=R, forward_dtype='bf16')\n",
        {"argument 'forward_dtype' is a str", "a dtype"}},
       {"x = distribute(arange(5), tp=S(0))\nx.redistribute(tp=R, async_op=1)\n",
        {"argument 'async_op' is an int"}}});
}

TEST_CASE("a debug mode counts the collectives of a part of the program, backward included") {
  CHECK(
      printed("x = distribute(arange(10).float().reshape([5, 2]), tp=S(0)).requires_grad_()\n"
              "w = distribute(ones([2, 2]), dp=S(0)).requires_grad_()\n"
              "with CommDebugMode() as comm:\n"
              "    print(comm.get_total_counts(), comm.get_comm_counts())\n"
              "    y = x.redistribute(tp=R)\n"
              "    with CommDebugMode() as inner:\n"
              "        z = w.redistribute(dp=R)\n"
              "    backward(y.sum())\n"
              "    y = all_reduce(tensor([1.0]))\n"
              "t = w.full_tensor()\n"
              "print(comm.get_comm_counts(), comm.get_total_counts())\n"
              "print(inner.get_comm_counts(), inner.get_total_counts())\n"
              "with comm:\n"
              "    pass\n"
              "print(comm.get_total_counts(), comm)\n") ==
      Lines{"0 {}", "{'all_reduce': 1, 'all_gather': 2} 3", "{'all_gather': 1} 1", "0 debug mode"});
  check_refused({{"c = CommDebugMode()\nwith c:\n    with c:\n        pass\n",
                  {"this debug mode counts already"}}});
}

// torch 2.15 on one device.
TEST_CASE("hooks of tensors see the summed gradient in order and may replace it") {
  CHECK(printed("x = distribute(tensor([1., 2., 3.]), tp=S(0)).requires_grad_()\n"
                "log = []\n"
                "def x1(g):\n"
                "    log.append(('x1', g.full_tensor().tolist()))\n"
                "    return g * 2\n"
                "def x2(g):\n"
                "    log.append(('x2', g.full_tensor().tolist(), is_grad_enabled()))\n"
                "def y1(g):\n"
                "    log.append(('y1', g.full_tensor().tolist()))\n"
                "    return g + 1\n"
                "def z1(g):\n"
                "    log.append(('z', g.item()))\n"
                "h = x.register_hook(x1)\nx.register_hook(x2)\n"
                "y = x * 3\ny.register_hook(y1)\n"
                "z = (y * y).sum() + x.sum()\nz.register_hook(z1)\nz.backward()\n"
                "for entry in log:\n    print(entry)\n"
                "print(x.grad.full_tensor(), h)\nlog = []\nh.remove()\nh.remove()\n"
                "(x * 2).sum().backward()\nprint(log, x.grad.full_tensor())\n") ==
        Lines{"('z', 1.0)", "('y1', [6.0, 12.0, 18.0])", "('x1', [22.0, 40.0, 58.0])",
              "('x2', [44.0, 80.0, 116.0], False)", "f32[3] [44, 80, 116] handle",
              "[('x2', [2.0, 2.0, 2.0], False)] f32[3] [46, 82, 118]"});
  CHECK(printed("x = distribute(tensor([1., 2.]), tp=S(0)).requires_grad_()\n"
                "def ten(g):\n    return g * 10\n"
                "def three(g):\n    return g * 3\n"
                "x.register_hook(ten)\ny = x * 2\ny.register_hook(three)\n"
                "print(grad(y.sum(), [x], retain_graph=True)[0].full_tensor(), "
                "grad(y.sum(), [y])[0].full_tensor())\n") ==
        Lines{"f32[2] [60, 60] f32[2] [3, 3]"});
}

// torch 2.15 on one device, where the def is the forward of a module.
TEST_CASE("T-52 hooks of a def are called with the gradients of its results and arguments") {
  const std::string defs =
      "log = []\n"
      "def values(gs):\n"
      "    return [None if g is None else g.full_tensor().tolist() for g in gs]\n"
      "def m(a, b):\n"
      "    return a * b, a + 1\n"
      "def before(f, grad_output):\n"
      "    log.append(('pre', f is m, values(grad_output)))\n"
      "def after(f, grad_input, grad_output):\n"
      "    log.append(('post', values(grad_input), values(grad_output)))\n"
      "a = distribute(tensor([1., 2.]), tp=S(0)).requires_grad_()\n"
      "b = distribute(tensor([3., 4.]), dp=S(0)).requires_grad_()\n"
      "c = distribute(tensor([5., 6.]))\n";
  const std::string both = defs +
                           "m.register_full_backward_pre_hook(before)\n"
                           "h = m.register_full_backward_hook(after)\n";
  CHECK(printed(both + "u, v = m(a, b)\n(u * 5).sum().backward()\nprint(log)\n"
                       "print(a.grad.full_tensor(), b.grad.full_tensor())\n"
                       "log = []\nu, v = m(a, b)\n(u * 5 + v).sum().backward()\nprint(log)\n"
                       "log = []\nu, v = m(a, c)\nu.sum().backward()\nprint(log)\n"
                       "log = []\nh.remove()\nm(a, b)[0].sum().backward()\nprint(log)\n"
                       "print(m(c, c)[0].requires_grad)\n") ==
        Lines{"[('pre', True, [[5.0, 5.0], None]), ('post', [[15.0, 20.0], [5.0, 10.0]], [[5.0, "
              "5.0], None])]",
              "f32[2] [15, 20] f32[2] [5, 10]",
              "[('pre', True, [[5.0, 5.0], [1.0, 1.0]]), ('post', [[16.0, 21.0], [5.0, 10.0]], "
              "[[5.0, 5.0], [1.0, 1.0]])]",
              "[('pre', True, [[1.0, 1.0], None]), ('post', [[5.0, 6.0], [0.0, 0.0]], [[1.0, "
              "1.0], None])]",
              "[('pre', True, [[1.0, 1.0], None])]", "False"});
  CHECK(printed(defs +
                "def p1(f, gs):\n    return tuple([None if g is None else g * 10 for g in gs])\n"
                "def f1(f, gi, go):\n    log.append(values(gi))\n    return [g + 1 for g in gi]\n"
                "def f2(f, gi, go):\n    log.append((values(gi), values(go)))\n"
                "m.register_full_backward_pre_hook(p1)\nm.register_full_backward_hook(f1)\n"
                "m.register_full_backward_hook(f2)\n"
                "m(a, b)[0].sum().backward()\n"
                "print(log, a.grad.full_tensor(), b.grad.full_tensor())\n") ==
        Lines{"[[[30.0, 40.0], [10.0, 20.0]], ([[31.0, 41.0], [11.0, 21.0]], [[10.0, 10.0], "
              "None])] f32[2] [31, 41] f32[2] [11, 21]"});
  CHECK(printed(defs +
                "w = distribute(tensor([2., 3.]), tp=S(0)).requires_grad_()\n"
                "def l(x):\n    return x * w\n"
                "l.register_full_backward_pre_hook(before)\nl.register_full_backward_hook(after)\n"
                "l(c).sum().backward()\nprint(log, w.grad.full_tensor())\n") ==
        Lines{"[('pre', False, [[1.0, 1.0]]), ('post', [None], [[1.0, 1.0]])] f32[2] [5, 6]"});
}

TEST_CASE("hooks that cannot be are refused") {
  check_refused({{"x = ones(2)\ndef f(g):\n    return g\nx.register_hook(f)\n",
                  {"register_hook: the tensor does not require a gradient"}},
                 {"x = ones(2).requires_grad_()\nx.register_hook(3)\n",
                  {"register_hook: argument 'hook' is an int"}},
                 {"x = ones(2).requires_grad_()\ndef f(g):\n    return 3\n"
                  "x.register_hook(f)\n(x * 2).sum().backward()\n",
                  {"register_hook: a hook returned an int"}},
                 {"x = ones(2).requires_grad_()\ndef f(g):\n    return g.double()\n"
                  "x.register_hook(f)\n(x * 2).sum().backward()\n",
                  {"a hook gives the plain f64[2] for the gradient, the plain f32[2]"}},
                 {"def f(x):\n    return {'y': x}\ndef h(f, gi, go):\n    return None\n"
                  "f.register_full_backward_hook(h)\nf(ones(2).requires_grad_())\n",
                  {"f has backward hooks and returns a dict"}}});
}

TEST_CASE("X-55 a tensor made in inference_mode is an ordinary one afterwards") {
  CHECK(printed("x = distribute(tensor([1., 2., 3.]), tp=S(0)).requires_grad_()\n"
                "with inference_mode():\n    t = x * 2\n"
                "(x * t).sum().backward()\nprint(t.requires_grad, x.grad.full_tensor())\n") ==
        Lines{"False f32[3] [2, 4, 6]"});
}

TEST_CASE("X-57 a hooked def writes to tensors of its own") {
  CHECK(printed("def m(a):\n    a *= 3\n    return a\n"
                "def h(f, gi, go):\n    print(gi[0].full_tensor(), go[0].full_tensor())\n"
                "m.register_full_backward_hook(h)\n"
                "x = distribute(tensor([1., 2., 3.]), tp=S(0)).requires_grad_()\n"
                "y = x * 2\nz = m(y)\nz += 1\n(z + y).sum().backward()\n"
                "print(y.full_tensor(), z.full_tensor(), x.grad.full_tensor())\n") ==
        Lines{"f32[3] [3, 3, 3] f32[3] [1, 1, 1]",
              "f32[3] [2, 4, 6] f32[3] [7, 13, 19] f32[3] [8, 8, 8]"});
}

TEST_CASE("X-40 a generator of the program's own: the same values however they lie") {
  CHECK(printed("g = torch.Generator().manual_seed(7)\nh = torch.Generator().manual_seed(7)\n"
                "own = randn([3])\n"
                "a = randn([5, 3], generator=g)\nb = randn([5, 3], generator=h, tp=S(0), dp=S(1))\n"
                "print((a == b.full_tensor()).all().item(), (randn([5, 3]) == a).all().item())\n"
                "c = randn([7], generator=g)\nd = randn([7], generator=h, dp=S(0))\n"
                "print((c == d.full_tensor()).all().item(), g.initial_seed(), g)\n"
                "p = distribute(full([6], 0.5), tp=S(0))\n"
                "q = full([6], 0.5).bernoulli(generator=h)\n"
                "print((p.bernoulli(generator=g).full_tensor() == q).all().item())\n"
                "torch.manual_seed(7)\ne = randn([5, 3])\nprint((a == e).all().item(), "
                "torch.Generator().initial_seed())\n") ==
        Lines{"True False", "True 7 generator", "True", "True 67280421310721"});
  check_refused({{"randn([2], generator=3)\n", {"randn: argument 'generator' is an int"}},
                 {"torch.Generator().manual_seed('a')\n", {"manual_seed: argument 'seed'"}},
                 {"exp(ones(2), generator=torch.Generator())\n", {"generator"}}});
}
