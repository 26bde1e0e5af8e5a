#!/usr/bin/env python3
"""Mistakes planted in drawn programs on plain tensors, each with its healthy twin.

    local_mistakes.py PROGRAM [--count N] [--seed N] [--verbose]
    local_mistakes.py PROGRAM --healthy N [--seed N] [--dtype f16]

A seed draws a kind of program, its mesh, names, sizes, dtype and one of the mistakes that people
make in it. The twin must be ok. The mistake must be found (exit code 1), by a cause whose id is one
of those that the table allows, and at the line that was changed or at the first claim after it.
Prints a row a kind. Exit code 1 when less than 99 % are found, less than 80 % have the right cause
and line, or a twin is called wrong.

With --healthy no mistake is planted: N right programs are drawn, of these kinds, with messages, and
on distributed tensors. None may be called wrong, nor have a warning that names a cause.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

TIME_LIMIT_S = 60
FOUND, CAUSE = 0.99, 0.80


class Drawn:
    """A program: its mesh and inputs, the right lines, and mistakes by name. A mistake has its
    lines, the ids of causes that name it, and those of its lines that may be reported (from 0)."""

    def __init__(self, mesh, inputs, right, mistakes, reference=()):
        self.mesh, self.inputs, self.right, self.mistakes = mesh, inputs, right, mistakes
        self.reference = reference

    def text(self, lines):
        head = ['title = "drawn"', "[mesh]"] + [f"{name} = {size}" for name, size in self.mesh]
        head += ["[inputs]"] + [f"{name} = {kind}" for name, kind in self.inputs]
        head += ["[program]", 'code = """']
        means = ["[reference]", 'code = """', *self.reference, '"""'] if self.reference else []
        return "\n".join([*head, *lines, '"""', *means]) + "\n", len(head) + 1


DTYPE = {}  # by --dtype: the one in place of each floating dtype


def drawn_type(dtype, sizes, cuts=None, **more):
    cuts = cuts or {}
    dtype = DTYPE.get("all", dtype) if "f" in dtype else dtype
    dims = ", ".join(f"{size}@{cuts[i]}" if i in cuts else f"{size}"
                     for i, size in enumerate(sizes))
    if not more:
        return f'"{dtype}[{dims}]"'
    rest = ", ".join(f"{key} = {value}" for key, value in more.items())
    return f'{{ type = "{dtype}[{dims}]", {rest} }}'


def two_dims(rng):
    """Names and sizes of two mesh dims, the second of which cuts; their sizes differ."""
    names = rng.choice([("dp", "tp"), ("fsdp", "mp"), ("replica", "model")])
    sizes = rng.choice([(2, 3), (3, 2), (2, 4), (4, 2)])
    return list(zip(names, sizes)), names[0], names[1], sizes[0], sizes[1]


def row_parallel(rng):
    mesh, other, tp, _, n = two_dims(rng)
    dtype = rng.choice(["f32", "f64", "bf16"])
    rows, inner, out = rng.randint(2, 5), n * rng.randint(1, 3), rng.randint(2, 6)
    inputs = [("x", drawn_type(dtype, [rows, inner], {1: tp})),
              ("w", drawn_type(dtype, [inner, out], {0: tp})), ("b", drawn_type(dtype, [out]))]
    product = "y = x.to_local() @ w.to_local()"
    group = f'group=mesh.get_group("{tp}")'
    reduce = f"dist.all_reduce(y, {group})"
    claim = "out = from_local(y + b.to_local(), mesh=mesh)"
    return Drawn(mesh, inputs, [product, reduce, claim], {
        "sum dropped": ([product, claim], {"cause.missing-sum"}, {1}),
        "summed twice": ([product, reduce, reduce, claim],
                         {"cause.factor", "cause.term-added"}, {2, 3}),
        "wrong group": ([product, f'dist.all_reduce(y, group=mesh.get_group("{other}"))', claim],
                        {"cause.wrong-group", "cause.missing-sum"}, {1, 2}),
        "bias before the sum": ([product + " + b.to_local()", reduce,
                                 "out = from_local(y, mesh=mesh)"], {"cause.term-added"}, {0, 2}),
        "average for sum": ([product, f"dist.all_reduce(y, op=dist.ReduceOp.AVG, {group})", claim],
                            {"cause.factor", "cause.term-added"}, {1, 2}),
    })


def activation(rng):
    mesh, _, tp, _, n = two_dims(rng)
    dtype = rng.choice(["f32", "f64"])
    rows, inner, out = rng.randint(2, 4), n * rng.randint(1, 3), rng.randint(3, 6)
    inputs = [("x", drawn_type(dtype, [rows, inner], {1: tp})),
              ("w", drawn_type(dtype, [inner, out], {0: tp}))]
    function = rng.choice(["torch.relu", "torch.tanh", "F.gelu", "torch.sigmoid"])
    product = "h = x.to_local() @ w.to_local()"
    right = [product, f'h = all_reduce(h, "sum", group="{tp}")', f"y = {function}(h)",
             "out = from_local(y, mesh=mesh)"]
    early = [product, f"y = {function}(h)", f'y = all_reduce(y, "sum", group="{tp}")',
             "out = from_local(y, mesh=mesh)"]
    return Drawn(mesh, inputs, right, {
        "function of a term": (early, {"cause.missing-sum"}, {1, 2, 3})})


def softmax(rng):
    mesh, _, tp, _, n = two_dims(rng)
    dtype = rng.choice(["f32", "f64"])
    rows, inner, classes = rng.randint(2, 5), rng.randint(2, 5), n * rng.randint(2, 4)
    inputs = [("x", drawn_type(dtype, [rows, inner])),
              ("w", drawn_type(dtype, [inner, classes], {1: tp}))]
    logits = "logits = x.to_local() @ w.to_local()"
    claim = f"out = from_local(p, mesh=mesh, {tp}=S(1))"
    right = [logits, "e = torch.exp(logits)",
             f'total = all_reduce(e.sum(1, keepdim=True), "sum", group="{tp}")', "p = e / total",
             claim]
    return Drawn(mesh, inputs, right, {
        "softmax of pieces": ([logits, f"p = F.softmax(logits, {rng.choice(['dim=-1', 'dim=1'])})",
                               claim], {"cause.on-pieces"}, {1}),
        "sum of exps dropped": ([logits, "e = torch.exp(logits)", "p = e / e.sum(1, keepdim=True)",
                                 claim], {"cause.on-pieces", "cause.missing-sum"}, {2, 3}),
        "another label": (right[:-1] + [f"out = from_local(p, mesh=mesh, {tp}=S(0))"],
                          {"cause.other-label"}, {4}),
    })


def uneven_mean(rng):
    n = rng.choice([2, 3, 4])
    dp = rng.choice(["dp", "data"])
    rows = n * rng.randint(1, 3) + rng.randint(1, n - 1) if n > 1 else 3
    dtype = rng.choice(["f32", "f64"])
    inputs = [("x", drawn_type(dtype, [rows, rng.randint(2, 5)], {0: dp}))]
    right = ["own = x.to_local().pow(2).sum()", f'all = all_reduce(own, "sum", group="{dp}")',
             "mean = all / x.numel()"]
    sizes = [min(max(rows - k * -(-rows // n), 0), -(-rows // n)) for k in range(n)]
    wrong = ["own = x.to_local().pow(2).mean()", f'mean = all_reduce(own, "avg", group="{dp}")']
    mistakes = {"average of averages": (wrong, {"cause.uneven-mean"}, {0, 1})}
    return Drawn([(dp, n)], inputs, right, mistakes if min(sizes) > 0 else {
        "average of averages": (wrong, {"cause.uneven-mean", "cause.none"}, {0, 1})})


def rms_norm(rng):
    n = rng.choice([2, 3, 4])
    tp = rng.choice(["tp", "mp"])
    rows, width = rng.randint(2, 5), n * rng.randint(2, 4)
    dtype = rng.choice(["f32", "f64"])
    inputs = [("x", drawn_type(dtype, [rows, width], {1: tp}))]
    begin, claim = "h = x.to_local()", f"out = from_local(y, mesh=mesh, {tp}=S(1))"
    scale = "y = h * torch.rsqrt(s + 1e-6)"
    total = f'all_reduce(h.pow(2).sum(-1, keepdim=True), "sum", group="{tp}")'
    return Drawn([(tp, n)], inputs, [begin, f"s = {total} / {width}", scale, claim], {
        "statistics of pieces": ([begin, "s = h.pow(2).mean(-1, keepdim=True)", scale, claim],
                                 {"cause.on-pieces", "cause.missing-sum"}, {1, 2}),
    })


def positions(rng):
    n = rng.choice([2, 3, 4])
    sp = rng.choice(["sp", "cp"])
    length = n * rng.randint(2, 4)
    inputs = [("x", drawn_type("f32", [length, rng.randint(2, 4)], {0: sp}))]
    begin = ["h = x.to_local()", "pos = torch.arange(h.shape[0])"]
    end = ["y = h + pos.unsqueeze(1)", f"out = from_local(y, mesh=mesh, {sp}=S(0))"]
    offset = f'pos = pos + mesh.coordinate("{sp}") * h.shape[0]'
    return Drawn([(sp, n)], inputs, begin + [offset] + end, {
        "offset missing": (begin + end, {"cause.on-pieces"}, {1, 2, 3})})


def dropout(rng):
    n = rng.choice([2, 3, 4])
    rows, width = n * rng.randint(2, 4), rng.randint(4, 8)
    inputs = [("x", drawn_type("f32", [rows, width], {0: "dp"}))]
    rate = rng.choice([0.3, 0.5])
    return Drawn([("dp", n)], inputs, [f"out = F.dropout(x, {rate})"], {
        "one mask": ([f"y = F.dropout(x.to_local(), {rate})",
                      "out = from_local(y, mesh=mesh, dp=S(0))"],
                     {"cause.one-mask"}, {0, 1})})


def data_parallel_step(rng):
    mesh, dp, other, n, _ = two_dims(rng)
    dtype = rng.choice(["f32", "f64"])
    rows, inner, out = n * rng.randint(1, 3), rng.randint(2, 4), rng.randint(2, 4)
    rate = rng.choice([0.1, 0.25, 0.5])
    inputs = [("x", drawn_type(dtype, [rows, inner], {0: dp})),
              ("w", drawn_type(dtype, [inner, out]))]
    loss = rng.choice(["(x.to_local() @ wl).pow(2).sum()", "torch.tanh(x.to_local() @ wl).sum()"])
    begin = ["wl = w.to_local().detach().requires_grad_()", f"loss = {loss}",
             "loss.backward()", "g = wl.grad"]
    reduce = f'g = all_reduce(g, "sum", group="{dp}")'
    end = [f"new = from_local(w.to_local() - {rate} * g, mesh=mesh)"]
    return Drawn(mesh, inputs, begin + [reduce] + end, {
        "gradient not summed": (begin + end, {"cause.missing-sum"}, {3, 4}),
        "gradient averaged": (begin + [f'g = all_reduce(g, "avg", group="{dp}")'] + end,
                              {"cause.factor"}, {4, 5}),
        "summed over all ranks": (begin + ['g = all_reduce(g, "sum")'] + end,
                                  {"cause.factor", "cause.wrong-group"}, {4, 5}),
        "summed over another dim": (begin + [f'g = all_reduce(g, "sum", group="{other}")'] + end,
                                    {"cause.wrong-group", "cause.missing-sum"}, {4, 5}),
    })


def global_norm(rng):
    n = rng.choice([2, 3, 4])
    inputs = [("a", drawn_type("f32", [n * rng.randint(1, 3), rng.randint(2, 4)], {0: "tp"})),
              ("b", drawn_type("f32", [rng.randint(3, 6)]))]
    cut, whole = "own = a.to_local().pow(2).sum()", "rest = b.to_local().pow(2).sum()"
    reduce = 'all = all_reduce(own, "sum", group="tp")'
    return Drawn([("tp", n)], inputs, [cut, whole, reduce, "norm = (all + rest).sqrt()"], {
        "replica counted": ([cut, whole, "own = own + rest", reduce, "norm = all.sqrt()"],
                            {"cause.replica-counted", "cause.term-added"}, {2, 3, 4})})


def fused_weight(rng):
    n = rng.choice([2, 3])
    rows, inner, width = rng.randint(2, 4), rng.randint(2, 4), 2 * n * rng.randint(1, 3)
    inputs = [("x", drawn_type("f32", [rows, inner])),
              ("w", drawn_type("f32", [inner, width], {1: "tp"}))]
    claim = "out = from_local(a * b, mesh=mesh, tp=S(1))"
    whole = "h = (x @ w).full_tensor()"
    right = [whole, "p, q = h.chunk(2, dim=1)", "out = distribute(p * q, tp=S(1))"]
    chunks = rng.choice(["h.chunk(2, dim=1)", "torch.chunk(h, 2, -1)"])
    return Drawn([("tp", n)], inputs, right, {
        "halves of a piece": (["h = x.to_local() @ w.to_local()", f"a, b = {chunks}", claim],
                              {"cause.on-pieces"}, {1})})


def shifted(rng):
    n = rng.choice([2, 3])
    length = n * rng.randint(2, 4)
    inputs = [("x", drawn_type("f32", [length, 3], {0: "sp"}))]
    by = rng.choice([1, -1])
    right = [f"moved = torch.roll(x, {by}, 0).redistribute(sp=S(0)).to_local()",
             "out = from_local(moved * 2.0, mesh=mesh, sp=S(0))"]
    return Drawn([("sp", n)], inputs, right, {
        "shift within pieces": ([f"moved = torch.roll(x.to_local(), {by}, 0)", right[1]],
                                {"cause.on-pieces"}, {0})})


def cutting_order(rng):
    mesh, first, second, m, n = two_dims(rng)
    dim = rng.choice([0, 1])
    sizes = [rng.randint(2, 3), rng.randint(2, 3)]
    sizes[dim] = m * n * rng.randint(1, 2)
    inputs = [("w", drawn_type(rng.choice(["f32", "f64", "bf16"]), sizes))]
    begin = [f'part = w.to_local().chunk({n}, dim={dim})[mesh.coordinate("{second}")]',
             f'own = part.chunk({m}, dim={dim})[mesh.coordinate("{first}")]']
    claim = f"d = from_local(own, mesh=mesh, {first}=%s, {second}=S({dim}))"
    return Drawn(mesh, inputs, begin + [claim % f"SS({dim}, {n})"], {
        "another cutting order": (begin + [claim % f"S({dim})"], {"cause.other-label"}, {2})})


def parted(rng):
    n = rng.choice([2, 3])
    values = [1.0] * n
    values[rng.randrange(n)] = 9.0
    inputs = [("x", drawn_type("f32", [n], {0: "dp"}, values=values))]
    begin = ["s = x.to_local().sum().item()", "y = x.to_local().sum() * 2"]
    branch = ["if s > 4:", '    y = all_reduce(y, "sum", group="dp")']
    right = ['t = all_reduce(x.to_local().sum(), "sum", group="dp")', "s = t.item()",
             begin[1]] + branch
    return Drawn([("dp", n)], inputs, right, {
        "branch of one rank": (begin + branch, {"cause.parted-branch"}, {2, 3})})


def heads(rng):
    n = rng.choice([2, 4])
    count, size = n * rng.randint(1, 2), rng.choice([2, 3])
    width = count * size
    inputs = [("x", drawn_type("f32", [n * 2, 3])), ("w", drawn_type("f32", [3, width], {1: "tp"}))]
    project = "q = x.to_local() @ w.to_local()"
    end = ["s = torch.softmax(q.sum(-1), 0)", "out = from_local(s, mesh=mesh, tp=S(1))"]
    return Drawn([("tp", n)], inputs, [project, f"q = q.view({2 * n}, -1, {size})"] + end, {
        "heads of the whole": ([project, f"q = q.view(-1, {count}, {size})"] +
                               [end[0], "out = from_local(s, mesh=mesh)"],
                               {"cause.on-pieces"}, {1})})


def context_loss(rng):
    mesh, dp, cp, m, n = two_dims(rng)
    rows, length = m * rng.randint(1, 2), n * rng.randint(1, 3)
    inputs = [("x", drawn_type("f64", [rows, length, 3], {0: dp, 1: cp})),
              ("w", drawn_type("f64", [3, 2]))]
    begin = ["wl = w.to_local().detach().requires_grad_()", "y = (x.to_local() @ wl).pow(2)",
             f'n = all_reduce(torch.tensor(1.0 * y.numel()), "sum", group="{cp}")',
             "loss = y.sum() / n", "loss.backward()"]
    end = ["new = from_local(w.to_local() - 0.5 * g, mesh=mesh)"]
    right = [f'g = all_reduce(wl.grad, "sum") / mesh.size("{dp}")']
    return Drawn(mesh, inputs, begin + right + end, {
        "divided by all ranks": (begin + ['g = all_reduce(wl.grad, "sum") / world_size'] + end,
                                 {"cause.factor"}, {5, 6}),
        "mean of a piece": (begin[:3] + ["loss = y.mean()"] + begin[4:] + right + end,
                            {"cause.factor"}, {3, 5, 6})})


KINDS = [row_parallel, activation, softmax, uneven_mean, rms_norm, positions, dropout,
         data_parallel_step, global_norm, fused_weight, shifted, cutting_order, parted, heads,
         context_loss]


def ring(rng):
    """Each rank passes its piece on, once around."""
    n = rng.choice([2, 3, 4])
    rows, width = n * rng.randint(1, 3), rng.randint(2, 4)
    inputs = [("x", drawn_type("f64", [rows, width], {0: "cp"}))]
    step = rng.choice([1, n - 1])
    exchange = rng.choice([
        ["ops = [dist.P2POp(dist.isend, own, to), dist.P2POp(dist.irecv, got, frm)]",
         "for work in dist.batch_isend_irecv(ops):", "    work.wait()"],
        ["sent = dist.isend(own, to)", "dist.recv(got, frm)", "sent.wait()"]])
    return Drawn([("cp", n)], inputs, [
        "own, sums = x.to_local() * 1.0, x.to_local().sum(0)",
        f"to, frm = (rank + {step}) % {n}, (rank - {step}) % {n}",
        f"for turn in range({n - 1}):", "    got = torch.zeros_like(own)",
        *("    " + line for line in exchange), "    own = got", "    sums = sums + own.sum(0)",
        "all = from_local(sums.unsqueeze(0), mesh=mesh, cp=S(0))", "last = all.sum()"], {},
        ["rows = x.sum(0).unsqueeze(0)", f"all = torch.cat([rows] * {n}, 0)", "last = all.sum()"])


def stages(rng):
    """A layer on each rank; activations go down, gradients come back."""
    n, micro = rng.choice([2, 3]), rng.randint(1, 3)
    rows, width = rng.randint(2, 4), rng.randint(2, 4)
    dtype = rng.choice(["f32", "f64"])
    inputs = [("x", drawn_type(dtype, [micro, rows, width])),
              ("w", drawn_type(dtype, [n, width, width]))]
    function = rng.choice(["torch.tanh", "F.gelu", "torch.sigmoid"])
    empty = f"torch.zeros([{rows}, {width}], dtype=x.dtype)"
    return Drawn([("pp", n)], inputs, [
        "ws = w.to_local()[rank].detach().requires_grad_()", f"for i in range({micro}):",
        "    h = x.to_local()[i].detach()", "    if rank > 0:", f"        h = {empty}",
        "        dist.recv(h, rank - 1)", "        h.requires_grad_()",
        f"    y = {function}(h @ ws)", f"    if rank < {n - 1}:",
        "        dist.send(y.detach(), rank + 1)", f"        g = {empty}",
        "        dist.recv(g, rank + 1)", "        y.backward(g)", "    else:",
        "        y.sum().backward()", "    if rank > 0:", "        dist.send(h.grad, rank - 1)",
        "gw = from_local(ws.grad.unsqueeze(0), mesh=mesh, pp=S(0))"], {},
        ["w.requires_grad_()", "z = x", f"for s in range({n}):", f"    z = {function}(z @ w[s])",
         "z.sum().backward()", "gw = w.grad"])


def distributed(rng):
    """Calls on distributed tensors, with redistributions between them, backward and a step."""
    names = rng.choice([("dp", "tp"), ("a", "b"), ("row", "column")])
    mesh = list(zip(names, rng.choice([(2, 2), (2, 3), (3, 2), (1, 4)])))
    rows, width, inner = rng.randint(3, 7), rng.randint(3, 6), rng.randint(3, 6)
    dtype = rng.choice(["f32", "f64", "bf16"])

    def cut(count):
        free = list(names)
        rng.shuffle(free)
        return {dim: free.pop() for dim in rng.sample(range(count), rng.randint(0, count)) if free}

    inputs = [("x", drawn_type(dtype, [rows, width], cut(2))),
              ("w", drawn_type(dtype, [width, inner], cut(2), requires_grad="true", scale=0.5)),
              ("b", drawn_type(dtype, [inner], cut(1), requires_grad="true"))]
    lines = ["h = x @ w + b"]
    for _ in range(rng.randint(1, 4)):
        place = ", ".join(f"{name}={rng.choice(['R', 'S(0)', 'S(1)'])}" for name in names)
        lines.append(rng.choice([
            f"h = h.redistribute({place})", "h = torch.tanh(h)", "h = F.softmax(h, dim=1)",
            "h = h * torch.sigmoid(h)", "h = h - h.mean(1, keepdim=True)", "h = (h @ w.t()) @ w",
            "h = torch.cat([h, h], 0)", f"h = F.layer_norm(h, [{inner}])", "h = h.t().t()"]))
    return Drawn(mesh, inputs, lines + [
        "loss = h.pow(2).mean()", "loss.backward()", "w2 = w.detach() - 0.1 * w.grad",
        "b2 = b.detach() - 0.1 * b.grad"], {})


HEALTHY = KINDS + [ring, stages, distributed, distributed]


def said(program, folder, name, text, seed):
    path = pathlib.Path(folder) / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([program, "run", "--json", "--seed", str(seed), path.name], cwd=folder,
                          capture_output=True, encoding="utf-8", timeout=TIME_LIMIT_S, check=False,
                          env={**os.environ, "NO_COLOR": "1"})
    told = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return done.returncode, told, done.stderr


def line_of(place):
    found = re.search(r"\.toml:(\d+)", place)
    return int(found.group(1)) if found else 0


def causes_told(run):
    """(id, lines) of each explained value, and of warnings."""
    told = []
    for value in run.get("values", []):
        if "cause_id" in value:
            lines = {int(n) for n in re.findall(r"in line (\d+)", value["cause"])}
            told.append((value["cause_id"], lines | {line_of(value.get("at", ""))}))
    for text in run.get("warnings", []):
        found = re.search(r"line (\d+) .*\[(cause\.[a-z-]+)\]", text)
        if found:
            told.append((found.group(2), {int(found.group(1))}))
    return told


def false_alarms(options):
    """Draws right programs, and prints how many of each kind were called wrong."""
    alarms = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.healthy):
            rng = random.Random(options.seed * 1_000_003 + number)
            kind = HEALTHY[number % len(HEALTHY)]
            drawn = kind(rng)
            text, _ = drawn.text(drawn.right)
            code, run, error = said(options.program, folder, f"healthy_{number}", text,
                                    rng.randrange(1000))
            alarms[kind.__name__] += code != 0 or bool(causes_told(run))
            if code != 0 or causes_told(run):
                print(f"FALSE ALARM {kind.__name__}, exit {code}\n{text}{error}"
                      f"{causes_told(run)} {run.get('error', '')}")
    print(f"{options.healthy} right programs of {len(alarms)} kinds, "
          f"{alarms.total()} false alarms")
    return int(alarms.total() > 0)


def main():
    parser = argparse.ArgumentParser(description="Mistakes planted in programs on plain tensors.")
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--healthy", type=int, default=0, help="right programs, and no mistakes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", help="of all floating inputs; else it is drawn")
    parser.add_argument("--verbose", action="store_true", help="print what goes amiss")
    options = parser.parse_args()
    if options.dtype:
        DTYPE["all"] = options.dtype
    if options.healthy > 0:
        return false_alarms(options)
    table = collections.defaultdict(lambda: [0, 0, 0, 0])
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.count):
            rng = random.Random(options.seed * 1_000_003 + number)
            drawn = KINDS[number % len(KINDS)](rng)
            name = rng.choice(sorted(drawn.mistakes))
            lines, ids, places = drawn.mistakes[name]
            row = table[name]
            row[0] += 1
            seed = rng.randrange(1000)
            right, _ = drawn.text(drawn.right)
            code, run, error = said(options.program, folder, f"right_{number}", right, seed)
            if code != 0:
                row[3] += 1
                print(f"FALSE ALARM {name}, exit {code}, seed {seed}\n{right}{error}"
                      f"{causes_told(run)} {run.get('error', '')}")
            wrong, first = drawn.text(lines)
            code, run, error = said(options.program, folder, f"wrong_{number}", wrong, seed)
            row[1] += code == 1
            told = causes_told(run)[:1]
            fits = any(cause in ids and lines & {first + place for place in places}
                       for cause, lines in told)
            row[2] += code == 1 and fits
            if options.verbose and (code != 1 or not fits):
                print(f"{'MISSED' if code != 1 else 'CAUSE'} {name}, exit {code}, seed {seed}\n"
                      f"{wrong}{error}{told}")
    print(f"{'mistake':<28} {'drawn':>6} {'found':>6} {'cause':>6} {'false alarms':>13}")
    total = [sum(row[i] for row in table.values()) for i in range(4)]
    for name, row in [*sorted(table.items()), ("all", total)]:
        print(f"{name:<28} {row[0]:>6} {row[1]:>6} {row[2]:>6} {row[3]:>13}")
    drawn, found, cause, alarms = total
    return int(alarms > 0 or found < FOUND * drawn or cause < CAUSE * drawn)


if __name__ == "__main__":
    sys.exit(main())
