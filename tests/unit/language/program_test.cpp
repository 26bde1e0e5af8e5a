// Whole programs on simulated ranks: expected lines are worked out by hand, or are PyTorch's
// output.
#include "tests/unit/language/program_runner.h"

using namespace shardlab;
using test::Lines;
using test::printed;
using test::ProgramOutcome;
using test::run;

TEST_CASE("a plain tensor is placed, moved and brought back; uneven and empty shards") {
  CHECK(printed("x = tensor([[1., 2.], [3., 4.], [5., 6.]])\n"
                "d = distribute(x, tp=S(0), dp=S(1))\n"
                "print(d, d.type, d.placements, d.shape, d.ndim)\n"
                "print(d.full_tensor())\n"
                "print(d.redistribute(dp=R).type, redistribute(d, '[3@(dp,tp), 2]').type)\n"
                "print(d.redistribute('[3, 2@(tp,dp)]').full_tensor())\n") ==
        Lines{"f32[3@tp, 2@dp] f32[3@tp, 2@dp] (S(0), S(1)) (3, 2) 2",
              "f32[3, 2] [[1, 2], [3, 4], [5, 6]]", "f32[3@tp, 2] f32[3@(dp,tp), 2]",
              "f32[3, 2] [[1, 2], [3, 4], [5, 6]]"});
  CHECK(
      printed("x = distribute(tensor([7.]), tp=S(0))\nprint(x.redistribute(tp=R).full_tensor())\n",
              "tp = 3") == Lines{"f32[1] [7]"});
  const ProgramOutcome local =
      run("x = distribute(tensor([1., 2., 3.]), tp=S(0))\nprint(x.to_local())\n", "tp = 4");
  CHECK(local.error == "");
  CHECK(local.lines ==
        std::vector<Lines>{{"f32[1] [1]"}, {"f32[1] [2]"}, {"f32[1] [3]"}, {"f32[0] []"}});
}

TEST_CASE("matrix product, sum and relu follow their rules") {
  CHECK(printed("x = distribute(tensor([[1., 2.], [3., 4.]]), tp=S(1))\n"
                "w = distribute(tensor([[1., -1.], [1., 0.]]), tp=S(0))\n"
                "y = x @ w\nprint(y.type)\nprint(relu(y).full_tensor(), y.sum().item())\n"
                "z = y + y\nprint(z.type, z.full_tensor())\n") ==
        Lines{"f32[2, 2]{sum:tp}", "f32[2, 2] [[3, 0], [7, 0]] 6.0",
              "f32[2, 2]{sum:tp} f32[2, 2] [[6, -2], [14, -6]]"});
}

TEST_CASE("indices become select, slice and unsqueeze") {
  CHECK(printed("x = distribute(tensor([[1., 2., 3.], [4., 5., 6.]]), tp=S(0))\n"
                "print(x[1].full_tensor(), x[:, 1:3].full_tensor(), x[-1, 0].item())\n"
                "print(x[:, None, ::2].shape, x[..., 0].full_tensor(), x[0:1, ..., None].shape)\n"
                "print(x.T.type, x.mT.shape, [r.full_tensor().tolist() for r in x])\n") ==
        Lines{"f32[3] [4, 5, 6] f32[2, 2] [[2, 3], [5, 6]] 4.0",
              "(2, 1, 2) f32[2] [1, 4] (1, 3, 1)",
              "f32[3, 2@tp] (3, 2) [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]"});
}

TEST_CASE("stack joins along a new dim; a tensor of positions selects along one dim") {
  CHECK(printed("x = distribute(tensor([[1., 2.], [3., 4.], [5., 6.]]), tp=S(0))\n"
                "print(torch.stack([x, -x], dim=1)[:, :, 0].full_tensor())\n"
                "print(x[distribute(tensor([2, 0]))].full_tensor())\n"
                "print(x[1:, distribute(tensor([1]))].full_tensor())\n") ==
        Lines{"f32[3, 2] [[1, -1], [3, -3], [5, -5]]", "f32[2, 2] [[5, 6], [1, 2]]",
              "f32[2, 1] [[4], [6]]"});
}

// The columns are cut as 2 and 1. Numbers of PyTorch.
TEST_CASE("tensors of positions index several dims together, and say where values are stored") {
  CHECK(
      printed("x = distribute(tensor([[1., 2., 3.], [4., 5., 6.], [7., 8., 9.], [10., 11., 12.],\n"
              "                       [13., 14., 15.]]), tp=S(1))\n"
              "i = distribute(tensor([4, 0, -1]))\n"
              "print(x[i, distribute(tensor([0, 1, -1]))].full_tensor(), x[i].type)\n"
              "print(x[1:3, distribute(tensor([[2], [0]]))].full_tensor())\n"
              "print(x[i].sum(0).full_tensor(), x[:, None, i % 2].shape)\n"
              "y = x.clone()\ny[i] = 0.5\nprint(y.type, y[:, 0].full_tensor())\n"
              "y = y.redistribute(tp=R).clone()\n"
              "y[1:3, distribute(tensor([2, 0]))] = x[0, 0:2]\n"
              "y[0, i % 3] = distribute(tensor([7.]))\nprint(y.full_tensor())\n",
              "tp = 2") ==
      Lines{"f32[3] [13, 2, 15] f32[3, 3@tp]", "f32[2, 2, 1] [[[6], [4]], [[9], [7]]]",
            "f32[3] [27, 30, 33] (5, 1, 3)", "f32[5, 3@tp] f32[5] [0.5, 4, 7, 10, 0.5]",
            "f32[5, 3] [[7, 7, 7], [2, 5, 1], [2, 8, 1], [10, 11, 12], [0.5, 0.5, 0.5]]"});
}

TEST_CASE("gradients: backward, grad and x.grad") {
  CHECK(printed("x = distribute(tensor([[1., 2.], [3., 4.]]), tp=S(0))\n"
                "w = distribute(tensor([[1., -1.], [1., 0.]]), dp=S(1))\n"
                "w.requires_grad_()\n"
                "loss = (x @ w).sum()\n"
                "print(w.grad)\nbackward(loss)\nprint(w.grad.full_tensor())\n"
                "print(grad((x @ w).sum(), [w])[0].full_tensor(), w.requires_grad)\n") ==
        Lines{"None", "f32[2, 2] [[4, 4], [6, 6]]", "f32[2, 2] [[4, 4], [6, 6]] True"});
  CHECK(printed("w = tensor([1., 2.]).requires_grad_()\n"
                "print(torch.autograd.grad(w.sum() * 3, w)[0])\n"
                "print(len(torch.autograd.grad(outputs=w * 2, inputs=w, "
                "grad_outputs=torch.ones_like(w))))\n") == Lines{"f32[2] [3, 3]", "1"});
}

TEST_CASE("collectives on local tensors, over a mesh dim and the world") {
  const ProgramOutcome out = run(
      "t = tensor([float(rank)])\n"
      "print(all_reduce(t, sum), all_reduce(t, 'max', group='tp'), all_gather(t, 0, group='dp'))\n"
      "print(reduce_scatter(tensor([1., 2., 3.]), sum, 0, group='tp'), broadcast(t, 1, "
      "group='dp'))\n"
      "print(all_to_all(tensor([rank * 10, rank * 10 + 1]), 0, 0, group=mesh['tp']))\n"
      "barrier()\nbarrier(group='tp')\n");
  CHECK(out.error == "");
  CHECK(out.lines[1] == Lines{"f32[1] [6] f32[1] [3] f32[2] [0, 1]", "f32[2] [2, 4] f32[1] [1]",
                              "i64[2] [10, 30]"});
  CHECK(out.lines[2] ==
        Lines{"f32[1] [6] f32[1] [2] f32[2] [2, 3]", "f32[1] [6] f32[1] [3]", "i64[2] [1, 21]"});
}

TEST_CASE("from_local joins the pieces; local shapes decide the whole unless it is given") {
  CHECK(printed("t = tensor([float(mesh.coordinate('tp'))])\n"
                "x = from_local(t, tp=S(0))\nprint(x.type, x.full_tensor())\n"
                "y = from_local(t, tp=P(sum))\nprint(y.type, y.full_tensor())\n") ==
        Lines{"f32[2@tp] f32[2] [0, 1]", "f32[1]{sum:tp} f32[1] [1]"});
}

TEST_CASE("a part of the mesh is a mesh: every rank's own part, outsiders included") {
  const std::string code =
      "m = mesh['dp']\nprint(m.size(), m.shape, mesh['tp', 'dp'].names, mesh.coordinate() is "
      "None)\n"
      "d = distribute(tensor([1., 2., 3.]) * (mesh.coordinate('tp') or 0), mesh=m, dp=S(0))\n"
      "print(d.type, (d + 1).full_tensor())\n";
  const ProgramOutcome out = run(code, "tp = 2\ndp = 2\nranks = [[3, 0], [1, 2]]\n[params]");
  CHECK(out.error == "");
  const Lines first = {"2 (2,) ('tp', 'dp') False", "f32[3@dp] f32[3] [1, 1, 1]"};
  const Lines second = {"2 (2,) ('tp', 'dp') False", "f32[3@dp] f32[3] [2, 3, 4]"};
  CHECK(out.lines == std::vector<Lines>{first, second, second, first});
}

TEST_CASE("ops are called by namespace, op and overload as PyTorch's custom ops are") {
  CHECK(printed("x = distribute(tensor([1., 2., 3.]), tp=S(0))\n"
                "print(torch.ops.aten.add.Tensor(x, x, alpha=2).full_tensor())\n"
                "print(torch.ops.aten.add(x, 1).full_tensor(), aten.add(x, 1).full_tensor())\n"
                "print(torch.ops.prims.view_of(x).type)\n") ==
        Lines{"f32[3] [3, 6, 9]", "f32[3] [2, 3, 4] f32[3] [2, 3, 4]", "f32[3@tp]"});
}

TEST_CASE("faults on ranks carry the place in the program") {
  struct Row {
    const char* code;
    const char* says;
  };
  const Row rows[] = {
      {"x = distribute(tensor([1., 2.]), tp=S(0)) + tensor([1., 2.])\n", "plain and distributed"},
      {"x = distribute(tensor([1., 2.]), pp=S(0))\n", "distribute: 'pp' is not a mesh dim"},
      {"x = distribute(tensor([1., 2.]), tp=S(3))\n", "3"},
      {"x = tensor([1., 2.]).redistribute(tp=R)\n", "is a plain tensor"},
      {"x = distribute(tensor([1., 2.]), tp=S(0)).redistribute('[3@tp]')\n",
       "is for another shape"},
      {"x = distribute(tensor([1., 2.]), tp=S(0)).redistribute('[2@qq]')\n", "qq"},
      {"x = tensor([[1., 2.]]) @ tensor([[1., 2.]])\n", "mm"},
      {"x = tensor([1., 2.]).item()\n", "item: the tensor has 2 elements; it must have 1"},
      {"x = tensor([1., 2.])[2]\n", "index 2 is out of range for dim 0 of size 2"},
      {"x = tensor([[1., 2.], [3.]])\n", "the rows have different lengths"},
      {"x = distribute(tensor([1.]), tp=S(0))\ny = all_reduce(x, sum)\n",
       "collectives take local tensors"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.code));
    const ProgramOutcome out = run(row.code);
    CAPTURE(out.error);
    CHECK(out.error.find(row.says) != std::string::npos);
    CHECK(out.error.find("t.toml:") != std::string::npos);
  }
}

TEST_CASE("products of any number of dims, as torch forms them") {
  CHECK(printed(
            "a = distribute(tensor([[[1., 2.], [3., 4.]], [[5., 6.], [7., 8.]]]), tp=S(0))\n"
            "w = distribute(tensor([[1., 0.], [1., 1.]]), dp=S(1))\n"
            "print((a @ w).full_tensor())\n"
            "print((a @ a).full_tensor())\n"
            "print((a @ tensor([1.])[0:0].expand([2]) if False else a @ distribute(tensor([1., "
            "-1.]))).full_tensor())\n"
            "print((distribute(tensor([1., 1.])) @ w).full_tensor(), (w @ a).full_tensor().shape)\n"
            "print(linear(a, w, distribute(tensor([10., 20.]))).full_tensor())\n") ==
        Lines{"f32[2, 2, 2] [[[3, 2], [7, 4]], [[11, 6], [15, 8]]]",
              "f32[2, 2, 2] [[[7, 10], [15, 22]], [[67, 78], [91, 106]]]",
              "f32[2, 2] [[-1, -1], [-1, -1]]", "f32[2] [2, 1] (2, 2, 2)",
              "f32[2, 2, 2] [[[11, 23], [13, 27]], [[15, 31], [17, 35]]]"});
}

TEST_CASE("torch's functions that are made of several ops") {
  // Expected values: torch 2.15 on one device.
  CHECK(printed(
            "x = distribute(tensor([[1., 2., 4.], [0., 1., 5.]]), tp=S(0))\n"
            "w = distribute(tensor([1., 2., 3.]))\n"
            "print(rms_norm(x, [3], w, eps=0.0).full_tensor())\n"
            "print(var(x, 1).full_tensor(), x.var(dim=1, unbiased=False).full_tensor())\n"
            "print(x.flatten().shape, x.narrow(1, 1, 2).full_tensor(), x.detach().requires_grad)\n"
            "print((x // 2).full_tensor(), (7 - x).full_tensor(), (8 / (x + 1))[0].full_tensor())\n"
            "print((x % 2).full_tensor(), (2 ** x)[1].full_tensor(), (x >= 2).full_tensor())\n"
            "print(where(x > 1, x, 0.0).full_tensor(), mse_loss(x, x + 1).item())\n"
            "print(dropout(x, 0.5, training=False) is x, sum([x, x]).full_tensor()[0])\n") ==
        Lines{"f32[2, 3] [[0.377964, 1.51186, 4.53557], [0, 0.679366, 5.09525]]",
              "f32[2] [2.33333, 7] f32[2] [1.55556, 4.66667]",
              "(6,) f32[2, 2] [[2, 4], [1, 5]] False",
              "f32[2, 3] [[0, 1, 2], [0, 0, 2]] f32[2, 3] [[6, 5, 3], [7, 6, 2]] f32[3] [4, "
              "2.66667, 1.6]",
              "f32[2, 3] [[1, 0, 0], [0, 1, 1]] f32[3] [1, 2, 32] bool[2, 3] [[False, True, True], "
              "[False, False, True]]",
              "f32[2, 3] [[0, 2, 4], [0, 0, 5]] 1.0", "True f32[3] [2, 4, 8]"});
}

TEST_CASE("softmax, layer_norm, embedding and cross_entropy by torch's arguments") {
  // Expected values: torch 2.15 on one device.
  CHECK(printed("x = distribute(tensor([[1., 2., 4.], [0., 1., 5.]]), tp=S(0))\n"
                "print(softmax(x, dim=-1).full_tensor())\n"
                "print(F.log_softmax(x, -1)[0].full_tensor())\n"
                "print(layer_norm(x, [3]).full_tensor())\n"
                "e = embedding(distribute(tensor([2, 0]), dp=S(0)), x.T)\n"
                "print(e.full_tensor())\n"
                "print(f'{cross_entropy(x, distribute(tensor([2, 1]), tp=S(0))).item():.5f}')\n") ==
        Lines{"f32[2, 3] [[0.0420101, 0.114195, 0.843795], [0.00657326, 0.017868, 0.975559]]",
              "f32[3] [-3.16985, -2.16985, -0.169846]",
              "f32[2, 3] [[-1.06904, -0.26726, 1.3363], [-0.925819, -0.46291, 1.38873]]",
              "f32[2, 2] [[4, 5], [1, 0]]", "2.09730"});
}

TEST_CASE("factories: plain on all ranks, or with placements and the same values") {
  CHECK(printed("a = randn([5, 3])\nb = ones(2, 2)\nprint(a.type, b, arange(4), full([2], 7), "
                "zeros([1], dtype=i64))\n"
                "print(randn([7, 4], tp=S(0)).type, ones([3], tp=S(0), dp=P(sum)).full_tensor())\n"
                "print(eye(2), arange(1, 7, 2), torch.full((1,), 2.5, dtype=torch.float64))\n") ==
        Lines{"f32[5, 3] f32[2, 2] [[1, 1], [1, 1]] i64[4] [0, 1, 2, 3] i64[2] [7, 7] i64[1] [0]",
              "f32[7@tp, 4] f32[3] [1, 1, 1]",
              "f32[2, 2] [[1, 0], [0, 1]] i64[3] [1, 3, 5] f64[1] [2.5]"});
  CHECK(printed("a = randn([5, 3], dp=S(1), tp=S(0)).full_tensor()\nprint(a)\n") ==
        printed("a = randn([5, 3])\nprint(a)\n"));
}

TEST_CASE("a factory on a mesh makes one piece per rank, never the whole") {
  // 10 rows over 4 ranks: 3, 3, 3 and 1 rows of 100 f32.
  const ProgramOutcome out = run("x = randn([10, 100], tp=S(0))\n", "tp = 4");
  CHECK(out.error.empty());
  const std::vector<std::int64_t> rows = {3, 3, 3, 1};
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    CAPTURE(rank);
    CHECK(out.accounts[rank].peak_bytes == rows[rank] * 100 * 4);
  }
}

TEST_CASE("the reference run computes in f64 and draws what the program draws") {
  const std::string code =
      "a = randn([3], tp=S(0))\nb = tensor([1., 2.]).to(bf16)\n"
      "print(a.dtype, b.dtype, (a.to(f32) * 2).dtype, exp(tensor([1])).dtype, tensor([1]).dtype)\n"
      "print(a.to(f32).full_tensor())\n";
  const Lines reference = printed(code, "tp = 2", Precision::kReference);
  const Lines declared = printed(code, "tp = 2");
  REQUIRE(reference.size() == 2);
  CHECK(reference[0] == "f64 f64 f64 f64 i64");
  CHECK(declared[0] == "f32 bf16 f32 f32 i64");
  CHECK(reference[1].substr(6) == declared[1].substr(6));
}

TEST_CASE("a def that calls itself without an end stops before the rank's stack does") {
  CHECK(run("def f(n):\n    return [f(n + 1)][0]\nf(0)\n").error.find("nested too deeply") !=
        std::string::npos);
}
