#!/usr/bin/env python3
"""Moves of spmd_types: each against its definition over all ranks, values and gradients.

    spmd_moves_test.py PROGRAM

The definitions below know nothing but lists: what one rank gets is written down from what all of
its group hold. Pieces are even, uneven and empty; meshes have 1 to 4 dims.
"""

import itertools
import json
import random
import re
import sys
import unittest

from program import Program

R, I, V, P = "spmd.R", "spmd.I", "spmd.V", "spmd.P"


def is_s(kind):
    return kind.startswith("spmd.S")


def dim_of(kind):
    return int(kind[7]) if is_s(kind) else 0


# A tensor is (rows, columns, elements by row).
def tensor(rows, columns, draw):
    return (rows, columns, [[draw() for _ in range(columns)] for _ in range(rows)])


def turned(x):
    return (x[1], x[0], [[x[2][r][c] for r in range(x[0])] for c in range(x[1])])


def along(dim, x):
    return x if dim == 0 else turned(x)


def joined(xs, dim):
    xs = [along(dim, x) for x in xs]
    return along(dim, (sum(x[0] for x in xs), xs[0][1], [row for x in xs for row in x[2]]))


def piece(x, dim, lengths, place):
    x = along(dim, x)
    begin = sum(lengths[:place])
    return along(dim, (lengths[place], x[1], x[2][begin:begin + lengths[place]]))


def total(xs):
    return (xs[0][0], xs[0][1], [[sum(x[2][r][c] for x in xs) for c in range(xs[0][1])]
                                 for r in range(xs[0][0])])


def zeros(x):
    return (x[0], x[1], [[0.0] * x[1] for _ in range(x[0])])


def placed(x, dim, lengths, place):
    """x at its place of the whole, zeros elsewhere."""
    x = along(dim, x)
    rows = [[0.0] * x[1] for _ in range(sum(lengths[:place]))] + x[2]
    rows += [[0.0] * x[1] for _ in range(sum(lengths) - len(rows))]
    return along(dim, (sum(lengths), x[1], rows))


def chunks(length, ranks):
    size = -(-length // ranks)
    return [max(0, min(size, length - i * size)) for i in range(ranks)]


# call, from, to, value of rank r from all xs, gradient of rank r from all gs.
# k: what the whole has (dim, lengths by rank).
def definitions(s):
    return [
        ("all_reduce", P, R, lambda xs, r, k: total(xs), lambda gs, r, k: total(gs)),
        ("all_reduce", V, R, lambda xs, r, k: total(xs), lambda gs, r, k: total(gs)),
        ("all_reduce", P, I, lambda xs, r, k: total(xs), lambda gs, r, k: gs[r]),
        ("all_gather", s, R, lambda xs, r, k: joined(xs, k[0]),
         lambda gs, r, k: piece(total(gs), *k, r)),
        ("all_gather", s, I, lambda xs, r, k: joined(xs, k[0]),
         lambda gs, r, k: piece(gs[r], *k, r)),
        ("reduce_scatter", P, s, lambda xs, r, k: piece(total(xs), *k, r),
         lambda gs, r, k: joined(gs, k[0])),
        ("convert", I, R, lambda xs, r, k: xs[r], lambda gs, r, k: total(gs)),
        ("invariant_to_replicate", I, R, lambda xs, r, k: xs[r], lambda gs, r, k: total(gs)),
        ("convert", R, s, lambda xs, r, k: piece(xs[r], *k, r),
         lambda gs, r, k: placed(gs[r], *k, r)),
        ("shard", I, s, lambda xs, r, k: piece(xs[r], *k, r), lambda gs, r, k: joined(gs, k[0])),
        ("convert", R, P, lambda xs, r, k: xs[r] if r == 0 else zeros(xs[r]),
         lambda gs, r, k: gs[r] if r == 0 else zeros(gs[r])),
        ("redistribute", R, I, lambda xs, r, k: xs[r],
         lambda gs, r, k: gs[r] if r == 0 else zeros(gs[r])),
        ("redistribute", I, P, lambda xs, r, k: xs[r] if r == 0 else zeros(xs[r]),
         lambda gs, r, k: gs[r]),
        ("redistribute", s, P, lambda xs, r, k: placed(xs[r], *k, r),
         lambda gs, r, k: piece(gs[r], *k, r)),
        ("reinterpret", V, P, lambda xs, r, k: xs[r], lambda gs, r, k: gs[r]),
        ("reinterpret", I, V, lambda xs, r, k: xs[r], lambda gs, r, k: total(gs)),
        ("reinterpret", I, P, lambda xs, r, k: xs[r], lambda gs, r, k: total(gs)),
    ]


def groups_of(mesh, name):
    """The ranks along a dim, for each of the others."""
    names = list(mesh)
    order = list(itertools.product(*(range(mesh[n]) for n in names)))
    found = {}
    for rank, place in enumerate(order):
        others = tuple(p for n, p in zip(names, place) if n != name)
        found.setdefault(others, []).append(rank)
    return list(found.values())


class Case:
    """One move on all ranks: operands, upstream gradients, and what the definition says."""

    def __init__(self, mesh, name, row, length, sizes, draw):
        self.call, self.source, self.to, value, gradient = row
        self.name, self.sizes = name, sizes
        ranks = 1
        for size in mesh.values():
            ranks *= size
        self.x, self.g, self.y, self.dx = ([None] * ranks for _ in range(4))
        count = mesh[name]
        kind = self.source if is_s(self.source) or self.source == V else self.to
        dim = dim_of(kind)
        lengths = sizes or ([length] * count if is_s(self.source) else chunks(length, count))
        k = (dim, lengths)
        for group in groups_of(mesh, name):
            shape = lambda rows: (rows, 3) if dim == 0 else (3, rows)  # noqa: E731
            xs = [tensor(*shape(lengths[r] if is_s(self.source) else sum(lengths)), draw)
                  for r in range(count)]
            if self.source in (R, I):
                xs = [xs[0]] * count
            ys = [value(xs, r, k) for r in range(count)]
            gs = [tensor(y[0], y[1], draw) for y in ys]
            if self.to in (I, P):
                gs = [gs[0]] * count
            for r, rank in enumerate(group):
                self.x[rank], self.g[rank], self.y[rank] = xs[r], gs[r], ys[r]
                self.dx[rank] = gradient(gs, r, k)

    def lines(self, number):
        def data(all_of):
            flat = [[e for row in x[2] for e in row] for x in all_of]
            shapes = [[x[0], x[1]] for x in all_of]
            return (f"torch.tensor({json.dumps(flat)}[rank], dtype=torch.float64)"
                    f".reshape({json.dumps(shapes)}[rank])")
        sizes = f", split_sizes={self.sizes}" if self.sizes else ""
        types = f"src={self.source}, dst={self.to}"
        if self.call == "invariant_to_replicate":
            types = ""
        return (f"x = {data(self.x)}.requires_grad_()\n"
                f"y = spmd.{self.call}(x, {self.name!r}, {types}{sizes})\n"
                f"(y * {data(self.g)}).sum().backward()\n"
                f"print('@', {number}, rank, list(y.shape), y.flatten().tolist(), "
                "list(x.grad.shape), x.grad.flatten().tolist())\n")


def program(mesh, code):
    sizes = "\n".join(f"{name} = {size}" for name, size in mesh.items())
    return (f"[mesh]\n{sizes}\n[inputs]\nnothing = \"f32[1]\"\n[program]\ncode = \"\"\"\n"
            f"import spmd_types as spmd\n{code}\"\"\"\n[expect]\nverify = \"none\"\n")


MESHES = ({"tp": 3}, {"dp": 2, "tp": 2}, {"dp": 2, "cp": 1, "tp": 3},
          {"a": 2, "b": 1, "c": 2, "d": 2})


class Moves(Program):
    def check(self, mesh, cases):
        text = program(mesh, "".join(case.lines(i) for i, case in enumerate(cases)))
        found = {}
        for line in self.fine("run", "--full", text=text).splitlines():
            match = re.search(r"@ (\d+) (\d+) (\[.*)$", line)
            if match:
                found[int(match[1]), int(match[2])] = json.loads(
                    "[" + match[3].replace("] [", "], [") + "]")
        for number, case in enumerate(cases):
            for rank, (y, dx) in enumerate(zip(case.y, case.dx)):
                got = found[number, rank]
                said = f"{case.call} {case.source} {case.to} on {mesh}, {case.sizes}, rank {rank}"
                for (rows, columns, want), shape, have in ((y, got[0], got[1]),
                                                           (dx, got[2], got[3])):
                    self.assertEqual(shape, [rows, columns], said)
                    for a, b in zip([e for row in want for e in row], have, strict=True):
                        self.assertAlmostEqual(a, b, 9, said)

    def test_moves_are_their_definitions(self):
        draw = random.Random(1)
        for mesh in MESHES:
            for name in mesh:
                cases = []
                for dim in (0, 1):
                    count = mesh[name]
                    uneven = [draw.randrange(3) for _ in range(count)]
                    for row in definitions(f"spmd.S({dim})"):
                        pieces = is_s(row[1]) or is_s(row[2])
                        takes = pieces and row[0] != "redistribute" or is_s(row[1])
                        for length in (2, 5, 0) if pieces else (4, 0):
                            cases.append(Case(mesh, name, row, length, None,
                                              lambda: draw.randrange(-9, 10) / 4))
                        if takes:
                            cases.append(Case(mesh, name, row, 0, uneven,
                                              lambda: draw.randrange(-9, 10) / 4))
                self.check(mesh, cases)

    def test_v_is_stacked_on_a_new_dim(self):
        code = ("x = (torch.arange(2.) + 10 * rank).requires_grad_()\n"
                "y = spmd.all_gather(x, 'tp', src=spmd.V, dst=spmd.R)\n"
                "(y * (rank + 1)).sum().backward()\n"
                "z = spmd.reduce_scatter(y.detach() * (rank + 1), 'tp')\n"
                "t = spmd.all_to_all(y.detach() + 100 * rank, 'tp')\n"
                "c = spmd.convert(y.detach(), 'tp', src=spmd.R, dst=spmd.V)\n"
                "print('@', rank, y.tolist(), x.grad.tolist(), z.tolist(), t.tolist(), "
                "c.tolist())\n")
        output = self.fine("run", "--full", text=program({"tp": 2}, code))
        self.assertIn("@ 0 [[0.0, 1.0], [10.0, 11.0]] [3.0, 3.0] [0.0, 3.0] "
                      "[[0.0, 1.0], [100.0, 101.0]] [0.0, 1.0]", output)
        self.assertIn("@ 1 [[0.0, 1.0], [10.0, 11.0]] [3.0, 3.0] [30.0, 33.0] "
                      "[[10.0, 11.0], [110.0, 111.0]] [10.0, 11.0]", output)

    def test_v_is_stacked_on_the_dim_that_is_named(self):
        code = ("x = (torch.arange(2.) + 10 * rank).requires_grad_()\n"
                "y = spmd.all_gather(x, 'tp', dst=spmd.R, gather_dim=1)\n"
                "(y * torch.tensor([[1., 2.], [3., 4.]])).sum().backward()\n"
                "z = spmd.reduce_scatter(y.detach() * (rank + 1), 'tp', scatter_dim=1)\n"
                "print('@', rank, y.tolist(), x.grad.tolist(), z.tolist())\n")
        output = self.fine("run", "--full", text=program({"tp": 2}, code))
        # Gradients are terms: the two ranks' upstream gradients are equal.
        self.assertIn("@ 0 [[0.0, 10.0], [1.0, 11.0]] [2.0, 6.0] [0.0, 3.0]", output)
        self.assertIn("@ 1 [[0.0, 10.0], [1.0, 11.0]] [4.0, 8.0] [30.0, 33.0]", output)

    def test_pieces_of_one_dim_become_pieces_of_another(self):
        code = ("x = (torch.arange(4.).reshape(2, 2) + 10 * rank).requires_grad_()\n"
                "y = spmd.all_to_all(x, 'tp', src=spmd.S(0), dst=spmd.S(1))\n"
                "(y * torch.arange(4.).reshape(4, 1) * (rank + 1)).sum().backward()\n"
                "print('@', rank, y.flatten().tolist(), x.grad.tolist())\n")
        output = self.fine("run", "--full", text=program({"tp": 2}, code))
        self.assertIn("@ 0 [0.0, 2.0, 10.0, 12.0] [[0.0, 0.0], [1.0, 2.0]]", output)
        self.assertIn("@ 1 [1.0, 3.0, 11.0, 13.0] [[2.0, 4.0], [3.0, 6.0]]", output)

    def test_dtypes_on_the_way_and_of_gradients(self):
        code = ("x = torch.ones(2, requires_grad=True)\n"
                "y = spmd.all_gather(x, 'tp', src=spmd.S(0), dst=spmd.R, op_dtype=torch.bfloat16, "
                "backward_options={'op_dtype': torch.float32})\n"
                "y.sum().backward()\nprint('@', y.dtype, x.grad.dtype, x.grad.tolist())\n")
        self.assertRegex(self.fine("run", "--full", text=program({"tp": 2}, code)),
                         r"@ \S*bf(loat)?16 \S*f(loat)?32 \[2.0, 2.0\]")
        code = code.replace("backward_options={'op_dtype': torch.float32}", "")
        exit_code, output, _ = self.shardlab("run", text=program({"tp": 2}, code))
        self.assertEqual(exit_code, 1)
        self.assertIn("backward adds gradients, in 16 bits", output)

    def test_refusals_name_the_move(self):
        for call, said in (
                ("all_reduce(x, 'tp', src=spmd.R, dst=spmd.I)", "does not go from R to I"),
                ("all_reduce(x, 'tp', src=spmd.P, dst=spmd.V)", "does not go from P to V"),
                ("convert(x, 'tp', src=spmd.R, dst=spmd.I)", "without expert_mode=True"),
                ("convert(x, 'tp', src=spmd.P, dst=spmd.R)", "all_reduce(src=P, dst=R)"),
                ("reinterpret(x, 'tp', src=spmd.R, dst=spmd.P)", "without expert_mode=True"),
                ("reinterpret(x, 'tp', src=spmd.V, dst=spmd.R)", "all_reduce(src=V, dst=R)"),
                ("reinterpret(x, 'tp', src=spmd.S(0), dst=spmd.P)", "does not go from S(0) to P"),
                ("all_reduce(x, 'tp', src=spmd.S(0), dst=spmd.R)", "all_gather(src=S(0), dst=R)"),
                ("convert(x, 'tp', src=spmd.S(0), dst=spmd.S(1))",
                 "all_to_all(src=S(0), dst=S(1))"),
                ("all_reduce(x, 'tp', dst=spmd.R, split_sizes=[1, 2])", "split_sizes"),
                ("unshard(x, 'tp', src=spmd.V, dst=spmd.R)", "unshard does not go from V to R"),
                ("register_autograd_function(x)", "spmd_typecheck is read in recordings"),
                ("spmd_redistribute(x)", "redistribute(dp=R)"),
                ("all_gather(x, 'tp', src=spmd.S(0), dst=spmd.R, gather_dim=1)",
                 "gather_dim is 1, and the type is S(0)"),
                ("all_to_all(x, 'tp', split_dim=1)", "name the dim in the type: spmd.S(1)"),
                ("all_gather(x, 'tp', dst=spmd.R, backward_options={'out_dtype': torch.float32})",
                 "backward_options has 'out_dtype'"),
                ("all_gather(x, 'pp', src=spmd.V, dst=spmd.R)", "pp is no dim of mesh"),
                ("convert(x, 'tp', src=spmd.R, dst=spmd.V)", "V takes one row for each of 2 ranks"),
                ("all_gather(x, 'tp', src=spmd.S(0), dst=spmd.R, split_sizes=[1])",
                 "split_sizes has 1 lengths"),
                ("assert_type(x, {'tp': 'Q'})", "'Q' is no type"),
                ("assert_type(x, {}, spmd.PartitionSpec('tp'))", "1 entries for 2 dims"),
        ):
            _, output, errors = self.shardlab(
                "run", text=program({"tp": 2}, f"x = torch.ones(3, 2)\ny = spmd.{call}\n"))
            self.assertIn(said, output + errors, call)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
