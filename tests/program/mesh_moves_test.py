#!/usr/bin/env python3
"""Drawn moves between meshes, optimizer steps over several, and what a move costs: against one
device, against the whole value cut again, and against loops over elements that are in this file.

    mesh_moves_test.py PROGRAM
"""

import json
import random
import sys
import unittest

import program

SHAPES = ((1, 2), (2, 1), (1, 3), (2, 2), (2, 3), (3, 2), (1, 5), (2, 4), (4, 2), (3, 3), (2, 5),
          (3, 4), (2, 6))


def chunk(length, count, index):
    """Offset and size of a piece: chunks of ceil(length / count), the last ones short or empty."""
    size = -(-length // count)
    return min(index * size, length), max(0, min(size, length - index * size))


class Drawn:
    """A mesh over some of the ranks, and placements of a matrix on it."""

    def __init__(self, draw, ranks):
        self.ranks = list(ranks)
        self.shape = draw.choice([one for one in SHAPES if one[0] * one[1] <= len(self.ranks)])
        if draw.random() < 0.6:
            draw.shuffle(self.ranks)
        self.ranks = self.ranks[:self.shape[0] * self.shape[1]]
        self.placements = [draw.choice((None, 0, 1)) for _ in self.shape]

    def made(self, names):
        rows = [self.ranks[i:i + self.shape[1]] for i in range(0, len(self.ranks), self.shape[1])]
        return (f'DeviceMesh("cpu", {rows}, mesh_dim_names=("{names[0]}", "{names[1]}"), '
                "preserve_rank_order=True)")

    def text(self):
        return "[" + ", ".join("R" if dim is None else f"S({dim})" for dim in self.placements) + "]"

    def held(self, size):
        """By rank, the elements that it holds."""
        held = {}
        for place, rank in enumerate(self.ranks):
            at = (place // self.shape[1], place % self.shape[1])
            begin, length = [0, 0], list(size)
            for count, index, dim in zip(self.shape, at, self.placements):
                if dim is None:
                    continue
                offset, length[dim] = chunk(length[dim], count, index)
                begin[dim] += offset
            held[rank] = {(i, j) for i in range(begin[0], begin[0] + length[0])
                          for j in range(begin[1], begin[1] + length[1])}
        return held

    def type(self, size, names):
        parts = []
        for dim, length in enumerate(size):
            cuts = [name for name, cut in zip(names, self.placements) if cut == dim]
            parts.append(str(length) + ("" if not cuts else "@" + cuts[0] if len(cuts) == 1
                                        else "@(" + ",".join(cuts) + ")"))
        return f"f32[{', '.join(parts)}]"


def moving(draw, world, first, second):
    """x on the first mesh, then on the second: its pieces are those of x cut there at once. A third
    mesh, and values that do not move, are there too."""
    size = (draw.randint(1, 13), draw.randint(1, 7))
    pending = draw.random() < 0.3
    source = "[P(sum), R]" if pending else first.text()
    return f'''
seed = {draw.randint(0, 99)}
[mesh]
w = {world}
[inputs]
x = {{ type = "f32[{size[0]}, {size[1]}]", requires_grad = true }}
g = "f32[{size[0]}, {size[1]}]"
noise = "f32[9@w]"
[program]
code = """
one = {first.made("ab")}
two = {second.made("cd")}
three = init_device_mesh("cpu", ({world},), mesh_dim_names=("z",))
still = distribute_tensor(noise, three, [S(0)]) * 2
a = distribute_tensor(x, one, {source})
b = a.redistribute(two, {second.text()})
c = distribute_tensor(x.detach(), two, {second.text()})
assert_close(b.to_local(), c.to_local())
loss = (b * distribute_tensor(g, two, {second.text()})).sum()
loss.backward()
"""
'''


def stepping(update, rows, experts):
    """Two steps of AdamW: weights cut on both dims of the mesh, on one, and experts on a view."""
    return f'''
seed = 3
[mesh]
dp = 4
tp = 2
[inputs]
x = "f32[{rows}@dp, 7]"
up = {{ type = "f32[7, 10]", scale = 0.3 }}
down = {{ type = "f32[10, 7]", scale = 0.3 }}
first = {{ type = "f32[{experts}, 7, 9]", scale = 0.3 }}
second = {{ type = "f32[{experts}, 9, 7]", scale = 0.3 }}
other = {{ type = "f32[3, 5]", requires_grad = true }}
[program]
code = """
sparse = init_device_mesh("cpu", (2, 4), mesh_dim_names=("efsdp", "ep"))
wu = distribute_tensor(up, mesh, [S(0), S(1)]).requires_grad_()
wd = distribute_tensor(down, mesh, [R, S(0)]).requires_grad_()
w1 = distribute_tensor(first, sparse, [S(1), S(0)]).requires_grad_()
w2 = distribute_tensor(second, sparse, [S(1), S(0)]).requires_grad_()
parameters = [wu, wd, w1, w2]
moments = [p.detach() * 0 for p in parameters]
squares = [p.detach() * 0 for p in parameters]
counts = [torch.zeros(()) for p in parameters]

def forward(x):
    h = torch.relu(x @ wu.redistribute(mesh, [R, S(1)])) @ wd
    tokens = h.redistribute(sparse, [R, R]).unsqueeze(0).expand({experts}, {rows}, 7)
    e = torch.relu(torch.bmm(tokens, w1.redistribute(sparse, [R, S(0)])))
    e = torch.bmm(e, w2.redistribute(sparse, [R, S(0)])).sum(0)
    return h + e.redistribute(mesh, [S(0), R])

for step in range(2):
    loss = forward(x).pow(2).mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(parameters, 0.1)
    grads = [p.grad.redistribute(p.device_mesh, p.placements) for p in parameters]
    with torch.no_grad():
{update}
    for p in parameters:
        p.grad = None
end_u = wu.full_tensor()
end_d = wd.full_tensor()
end_1 = w1.full_tensor()
end_2 = w2.full_tensor()
unused = (other * 2).sum()
"""
'''


UPDATES = {
    "one by one": '''
        for p, g, m, v in zip(parameters, grads, moments, squares):
            p.mul_(1 - 0.05 * 0.1)
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.99).addcmul_(g, g, value=0.01)
            root = (v / (1 - 0.99 ** (step + 1))).sqrt() + 1e-8
            p.addcdiv_(m / (1 - 0.9 ** (step + 1)), root, value=-0.05)
''',
    "foreach": '''
        torch._foreach_mul_(parameters, 1 - 0.05 * 0.1)
        torch._foreach_lerp_(moments, grads, 0.1)
        torch._foreach_mul_(squares, 0.99)
        torch._foreach_addcmul_(squares, grads, grads, 0.01)
        roots = torch._foreach_sqrt(torch._foreach_div(squares, 1 - 0.99 ** (step + 1)))
        torch._foreach_add_(roots, 1e-8)
        means = torch._foreach_div(moments, 1 - 0.9 ** (step + 1))
        torch._foreach_addcdiv_(parameters, means, roots, -0.05)
''',
    "fused": '''
        torch._foreach_add_(counts, 1)
        torch._fused_adamw_(parameters, grads, moments, squares, [], counts, lr=0.05, beta1=0.9,
                            beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)
''',
}


class MeshMoves(program.Program):
    def test_values_and_gradients_of_drawn_moves(self):
        draw = random.Random(31)
        apart = empty = 0
        for i in range(90):
            world = draw.randint(2, 12)
            first = Drawn(draw, range(world))
            others = sorted(set(range(world)) - set(first.ranks))
            second = Drawn(draw, others if len(others) > 1 else range(world))
            apart += not set(first.ranks) & set(second.ranks)
            empty += any(not held for held in second.held((1, 1)).values())
            self.plant(**{f"move_{i}": moving(draw, world, first, second)})
        self.assertGreater(apart, 20)
        self.assertGreater(empty, 10)
        output = self.fine("test", ".")
        self.assertIn("\n90 passed, 0 failed\n", output)
        for i in range(0, 90, 3):
            facts = json.loads(self.fine("run", "--json", f"move_{i}.toml"))
            outcomes = {value["name"]: value["outcome"] for value in facts["values"]}
            self.assertLessEqual({"a", "b", "c", "still", "loss", "x.grad"}, outcomes.keys())
            self.assertEqual(facts["value_counts"]["not_verified"], 0, f"move_{i}")

    def test_parts_of_a_mesh_and_the_whole(self):
        """From a part to its root, to another part of it, and back; uneven, empty, flattened."""
        for rows in (1, 5, 13):
            for part, cut in (('mesh["tp"]', "[S(0)]"), ('mesh["dp", "tp"]', "[S(1), S(0)]"),
                              ('mesh["dp"]', "[S(0)]"), ("flat", "[S(0)]")):
                with self.subTest(rows=rows, part=part):
                    facts = json.loads(self.fine("run", "--json", text=f'''
[mesh]
pp = 2
dp = 2
tp = 3
[inputs]
x = {{ type = "f32[{rows}, 4]", requires_grad = true }}
g = "f32[{rows}, 4]"
[program]
code = """
flat = mesh["dp", "tp"]._flatten("flat")
part = {part}
a = distribute_tensor(x, part, {cut})
b = a.redistribute(mesh, [S(0), R, S(1)])
c = b.redistribute(mesh["pp"], [S(0)])
d = c.redistribute(part, {cut})
loss = (d * distribute_tensor(g, part, {cut})).sum()
loss.backward()
"""
'''))
                    self.assertEqual(facts["value_counts"]["not_verified"], 0)

    def test_a_move_whose_pieces_are_mixed_up_is_wrong(self):
        """The healthy twin passes: [S(0)] of 5 over 3 ranks, then claimed in another order."""
        text = '''
[mesh]
w = 3
[inputs]
x = "f32[6, 2]"
[program]
code = """
two = DeviceMesh("cpu", [2, 0, 1], mesh_dim_names=("c",), preserve_rank_order=True)
a = distribute_tensor(x, mesh, [S(0)])
b = {}
c = b * 2
"""
'''
        self.fine("run", text=text.format("a.redistribute(two, [S(0)])"))
        code, output, _ = self.shardlab(
            "run", text=text.format("DTensor.from_local(a.to_local(), two, [S(0)])"))
        self.assertEqual(code, 1)
        self.assertIn("wrong b f32[6@c, 2] on two", output)

    def test_the_bound_of_a_move_is_what_its_ranks_lack(self):
        draw = random.Random(5)
        silent = 0
        for _ in range(60):
            world = draw.randint(2, 12)
            first, second = Drawn(draw, range(world)), Drawn(draw, range(world))
            size = (draw.randint(1, 13), draw.randint(1, 7))
            for mesh in (first, second):
                mesh.ranks = sorted(range(len(mesh.ranks)))
            has = first.held(size)
            lacks = [len(wanted - has.get(rank, set()))
                     for rank, wanted in second.held(size).items()]
            told = json.loads(self.fine(
                "plan", "--json", first.type(size, "ab"), second.type(size, "cd"), "--from-mesh",
                f"a={first.shape[0]},b={first.shape[1]}", "--to-mesh",
                f"c={second.shape[0]},d={second.shape[1]}"))
            self.assertEqual(told["bound_bytes"], 4 * max(lacks), told)
            self.assertEqual(told["received_bytes"], told["bound_bytes"])
            silent += not any(lacks)
        self.assertGreater(silent, 3)

    def test_two_steps_of_an_optimizer_over_three_kinds_of_parameters(self):
        """Tokens and experts even, uneven, on some ranks none; three forms of a step agree."""
        for rows, experts in ((16, 4), (13, 5), (3, 2)):
            ends = {}
            for form, update in UPDATES.items():
                with self.subTest(form=form, rows=rows, experts=experts):
                    facts = json.loads(self.fine("run", "--json", "--values", "100",
                                                 text=stepping(update, rows, experts)))
                    self.assertEqual(facts["value_counts"]["wrong"], 0)
                    values = {f"{value['name']}#{value['occurrence']}": value
                              for value in facts["values"]}
                    for step in (0, 1):
                        norm = values[f"norm#{step}"]
                        self.assertIn("verified", norm["outcome"])
                        self.assertGreater(norm["whole"][0]["elements"][0], 0.1)
                    ends[form] = [values[f"end_{name}#0"]["whole"][0]["elements"]
                                  for name in "ud12"]
                    for name in "ud12":
                        self.assertIn("verified", values[f"end_{name}#0"]["outcome"])
            for form in ("foreach", "fused"):
                for one, other in zip(ends["one by one"], ends[form]):
                    self.assertEqual(len(one), len(other))
                    for a, b in zip(one, other):
                        self.assertAlmostEqual(a, b, places=4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
