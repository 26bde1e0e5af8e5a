#!/usr/bin/env python3
"""Programs of several meshes: one on a mesh of its own, on slices, on flattened and unflattened
views and on permuted ranks has the same values and verdicts; the questions know two meshes.

    meshes_test.py PROGRAM
"""

import json
import pathlib
import re
import sys
import unittest

import program

# The same weights and steps on whatever mesh `dense` is, with dims dp and tp.
BODY = '''
a = distribute_tensor(x, dense, [S(0), R])
u = distribute_tensor(up, dense, [R, S(1)]).requires_grad_()
d = distribute_tensor(down, dense, [R, S(0)]).requires_grad_()
h = torch.relu(a @ u)
y = h @ d
z = y.redistribute(dense, [S(0), {}])
loss = (z * z).sum()
loss.backward()
norm = torch.nn.utils.clip_grad_norm_([u, d], 0.5)
'''
FORMS = {
    "one mesh": ("dp = 2\ntp = 3", "dense = mesh"),
    "unflattened": ("w = 6", 'dense = mesh._unflatten("w", (2, 3), ("dp", "tp"))'),
    "a slice": ("more = 1\ndp = 2\ntp = 3", 'dense = mesh["dp", "tp"]'),
    "flattened": ("dp = 2\na = 3\nb = 1",
                  'dense = DeviceMesh._concatenate([mesh["dp"], mesh["a", "b"]._flatten("tp")])'),
    "made": ("tp = 6", 'dense = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))'),
    "permuted": ("w = 6", 'dense = DeviceMesh("cpu", [[4, 0, 5], [1, 3, 2]], '
                          'mesh_dim_names=("dp", "tp"), preserve_rank_order=True)'),
    "part of a world": ("w = 8", 'dense = DeviceMesh("cpu", [[1, 2, 3], [5, 6, 7]], '
                                 'mesh_dim_names=("dp", "tp"))'),
}


def scenario(mesh, made, last="R", rows=5):
    return f'''
seed = 7
[mesh]
{mesh}
[inputs]
x = "f32[{rows}, 6]"
up = "f32[6, 7]"
down = "f32[7, 4]"
[program]
code = """
{made}
{BODY.format(last)}
"""
'''


class Meshes(program.Program):
    def facts(self, text, code=0):
        ended, output, errors = self.shardlab("run", "--json", "--values", "100", text=text)
        self.assertEqual(ended, code, output + errors)
        return json.loads(output)

    def values(self, facts):
        """Elements of each value, and its outcome."""
        return {f"{value['name']}#{value['occurrence']}":
                ([held["elements"] for held in value["whole"][:1]], value["outcome"])
                for value in facts["values"] if value["name"] in
                ("a", "h", "y", "z", "loss", "norm", "u.grad", "d.grad")}

    def test_one_program_on_every_kind_of_mesh(self):
        for rows in (5, 1):  # uneven; a rank without rows
            one = self.values(self.facts(scenario(*FORMS["one mesh"], rows=rows)))
            self.assertGreaterEqual(len(one), 8)
            for name, form in FORMS.items():
                with self.subTest(form=name, rows=rows):
                    facts = self.facts(scenario(*form, rows=rows))
                    self.assertEqual(self.values(facts), one)
                    self.assertEqual(facts["value_counts"]["wrong"], 0)

    def test_local_pieces_on_a_view_are_verified(self):
        """One device has such views, too: of one rank each."""
        for view in ('mesh._unflatten("w", (2, 4), ("dp", "tp"))',
                     'init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))'):
            for row in (1, 2):
                code, output, _ = self.shardlab("run", "--summary", text=f'''
[mesh]
w = 8
[inputs]
x = "f32[5@w, 2]"
[program]
code = """
view = {view}
y = DTensor.from_local(torch.ones(2, 2) * {"rank" if row == 2 else 3}, view, [R, R]) + 1
z = x.redistribute(view, [S(0), R]) * 2
"""
''')
                verdict = "2 values verified" if row == 1 else "wrong"
                self.assertIn(verdict, output)
                self.assertEqual(code, row - 1)

    def test_the_views_of_a_training_stack_on_other_numbers_of_ranks(self):
        path = pathlib.Path(__file__).resolve().parents[2] / "scenarios/models/training_views.toml"
        for ranks in (12, 16):
            output = self.fine("test", str(path), "--set", f"mesh.w={ranks}")
            self.assertIn("\n2 passed, 0 failed\n", output)

    def test_a_mistake_is_found_on_every_kind_of_mesh(self):
        wrong = ("h = torch.relu(DTensor.from_local(a.to_local() @ u.to_local(), dense, "
                 "[S(0), R], shape=(5, 3), stride=(3, 1)))")
        for name, form in FORMS.items():
            text = scenario(*form).replace("h = torch.relu(a @ u)", wrong).replace("h @ d", "h")
            with self.subTest(form=name):
                code, output, _ = self.shardlab("run", text=text)
                self.assertEqual(code, 1, output)

    def test_explain_knows_two_meshes(self):
        code, output, errors = self.shardlab("explain", "add.Tensor", "f32[8@x, 4]",
                                             "f32[8@ep, 4] on efsdp=2,ep=4", "--mesh", "x=8")
        self.assertEqual(code, 2, output)
        self.assertIn("the inputs live on different meshes", errors)
        self.assertIn("{efsdp:2, ep:4} over ranks 0, 1, 2, 3, 4, 5, 6, 7", errors)
        self.assertRegex(errors, r"other\.redistribute\(x.device_mesh, \[S\(0\)\]\) moves \d+ B")
        told = self.fine("explain", "mul.Tensor", "f32[8@x, 4]", "f32[1] on efsdp=2,ep=4",
                         "--mesh", "x=8")
        self.assertIn("mul.Tensor gives f32[8@x, 4], by 1 op", told)
        self.assertIn("input 1: f32[1] on {efsdp:2, ep:4} -> f32[1]", told)

    def test_why_names_the_mesh_of_a_decision(self):
        text = scenario(*FORMS["unflattened"])
        told = self.fine("run", "--why", "h", text=text)
        self.assertIn("f32[5@dp, 6] on dense, f32[6, 7@tp] on dense", told)

    def test_a_view_that_does_not_fit_is_named_with_its_line(self):
        text = scenario(*FORMS["unflattened"])
        code, _, errors = self.shardlab("run", "--set", "mesh.w=8", text=text)
        self.assertEqual(code, 1)
        self.assertIn("_unflatten: {dp:2, tp:3} has 6 ranks, and w has 8", errors)
        self.assertRegex(errors, r"at +rank 0, step 0, t\.toml:11:")

    def test_refusals_name_meshes_and_their_parts(self):
        text = scenario("dp = 2\ntp = 2", 'dense = mesh\nsparse = init_device_mesh("cpu", (4,), '
                        'mesh_dim_names=("ep",))\nb = distribute_tensor(x, sparse, [S(0)])')
        code, _, errors = self.shardlab("run", text=text.replace("y = h @ d", "y = h @ d\na + b"))
        self.assertEqual(code, 1)
        self.assertIn("mesh        mesh {dp:2, tp:2} over ranks 0, 1, 2, 3; "
                      "other is on sparse {ep:4} over ranks 0, 1, 2, 3\n", errors)
        text = text.replace("distribute_tensor(x, sparse", 'distribute_tensor(x, mesh["tp"]')
        code, _, errors = self.shardlab("run", text=text.replace("y = h @ d", "y = h @ d\na + b"))
        self.assertIn('other is on mesh["tp"] {tp:2} over ranks 0, 1\n', errors)

    def test_full_reports_have_the_values_of_other_ranks(self):
        output = self.fine("run", "--full", text='''
[mesh]
pp = 2
tp = 2
[inputs]
w = { type = "f32[4]", requires_grad = true }
[program]
code = """
if mesh.get_local_rank("pp") == 1:
    late = distribute_tensor(torch.ones(4, 6), mesh["tp"], [S(0)])
    q = late * 2
else:
    q = distribute_tensor(torch.ones(4, 6), mesh["tp"], [S(1)])
(w * 2).sum().backward()
"""
''')
        for name in ("late ", "q on pp=0", "q on pp=1", "w.grad"):
            self.assertRegex(output, rf"       = {name} .*verified")

    def test_meshes_of_some_ranks_on_shapes_alone(self):
        """Collectives and bytes are those of ranks that compute."""
        text = '''
[mesh]
dp = 2
tp = 4
[inputs]
x = "f32[7@dp, 6]"
[program]
code = """
half = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
odd = DeviceMesh("cpu", [1, 3, 5, 7], mesh_dim_names=("c",))
y = distribute_tensor(torch.ones(7, 6), half, [S(0), S(1)])
z = y.redistribute(half, [R, R]) * 2
u = distribute_tensor(torch.ones(9), odd, [S(0)])
v = u.redistribute([R])
w = (x * 2).redistribute(tp=S(0), dp=R)
"""
'''
        computed = [json.loads(self.fine("run", "--json", "--rank", str(rank), text=text))
                    for rank in range(8)]
        first = json.loads(self.fine("run", "--json", "--backend", "fake", text=text))
        self.assertEqual(first["collectives"]["by_group"], computed[0]["collectives"]["by_group"])
        table = self.fine("run", "--backend", "fake", text=text)
        rows = re.findall(r"^ +(\d+) ranks? .* (\d+) B sent$", table, re.M)
        sent = [int(most) for ranks, most in rows for _ in range(int(ranks))]
        self.assertEqual(sorted(sent), sorted(
            round(sum(group["sent_bytes"] for group in facts["collectives"]["by_group"]))
            for facts in computed))

    def test_moves_by_messages_have_no_deadlock_on_shapes_alone(self):
        for rows, made in ((3, 'mesh["dp"]'), (7, 'init_device_mesh("cpu", (4,), '
                                                  'mesh_dim_names=("e",))')):
            text = f'''
[mesh]
dp = 4
tp = 2
[inputs]
x = "f32[{rows}, 2]"
[program]
code = """
flat = mesh._flatten("flat")
a = distribute_tensor(x, {made}, [S(0)])
b = a.redistribute(flat, [S(0)]) * 2
c = b.redistribute([R])
"""
'''
            for backend in ("threads", "fake"):
                self.fine("run", "--backend", backend, text=text)

    def test_blame_moves_an_operand_to_the_mesh_of_the_other(self):
        text = '''
[mesh]
dp = 2
tp = 2
[inputs]
x = "f32[7@dp, 6]"
[program]
code = """
other = init_device_mesh("cpu", (4,), mesh_dim_names=("w",))
b = x.redistribute(other, [S(0)]) * 2
c = x + b
total = c.sum()
"""
'''
        code, output, _ = self.shardlab("blame", text=text)
        self.assertEqual(code, 1)
        self.assertIn("b.redistribute(x.device_mesh, x.placements)", output)

    def test_blame_gives_gradients_of_local_map_their_terms(self):
        text = '''
[mesh]
dp = 2
tp = {}
[inputs]
x = "f32[{}@dp, 6]"
w = "f32[6, {}@tp]"
[program]
code = """
def product(a, b):
    return a @ b

x.requires_grad_()
w.requires_grad_()
y = local_map(product, out_placements={}, in_placements={}, device_mesh=mesh)(x, w)
loss = (y * y).sum()
loss.backward()
g = x.grad
"""
'''
        brief = ("[S(0), S(1)]", "([S(0), R], [R, S(1)])")
        full = [part.replace("S(", "Shard(").replace("R", "Replicate()") for part in brief]
        for spelling, terms in ((brief, "([S(0), P(sum)], [P(sum), S(1)])"),
                                (full, "([Shard(0), Partial()], [Partial(), Shard(1)])")):
            for tp, rows, columns in ((4, 8, 16), (3, 6, 9)):
                wrong = text.format(tp, rows, columns, *spelling)
                code, output, _ = self.shardlab("blame", text=wrong)
                self.assertEqual(code, 1)
                self.assertIn(f", in_grad_placements={terms})(x, w)", output)
                right = wrong.replace("device_mesh=mesh", f"in_grad_placements={terms}")
                self.fine("run", text=right)

    def test_advise_moves_less_between_meshes(self):
        text = '''
[mesh]
dp = 2
tp = 2
[inputs]
x = "f32[8@dp, 6]"
[program]
code = """
other = init_device_mesh("cpu", (4,), mesh_dim_names=("w",))
b = x.redistribute(other, [R])
c = b * 2
total = c.redistribute(mesh, [S(0), R]).sum(1)
"""
'''
        output = self.fine("advise", text=text)
        self.assertIn("- b = x.redistribute(other, [R])\n", output)
        self.assertIn("96 B -> 0 B sent", output)

    def test_one_mesh_has_no_name_in_reports(self):
        for arguments in (("run",), ("run", "--full"), ("run", "--log"), ("run", "--json")):
            output = self.fine(*arguments, text=scenario(*FORMS["one mesh"]))
            self.assertIsNone(re.search(r"\] on (mesh|\{)|over \w+ of ", output), output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
