"""A scenario whose inputs have dynamic dims: its graph runs for every size that its guards admit,
with the bits of the program itself, and the guard that another size breaks is named."""

import pathlib
import subprocess
import sys
import tempfile

FILE = """title = "rows"
about = "rows may be others"
seed = 3
[mesh]
dp = 2
tp = 2
[params]
rows = 6
hidden = 4
[inputs]
x = { type = "f32[rows@dp, hidden]", dynamic = 0 }
w = { type = "f32[hidden, 4@tp]", requires_grad = true }
[program]
code = \"\"\"
%s
\"\"\"
"""
MEAN = "loss = ((x @ w).tanh().sum(0) / x.shape[0]).sum()\nloss.backward()\n" \
       "v = x.view(x.shape[0] * 2, 2) * 3"
failed = 0


def check(condition, what, text):
    global failed
    if not condition:
        failed += 1
        print(f"FAILED {what}\n{text}")


class Case:
    def __init__(self, folder, code, text=FILE):
        self.file, self.graph = folder / "s.toml", folder / "g.graph"
        self.file.write_text(text % code)
        self.traced = self.run("trace", str(self.file), "--out", str(self.graph))
        check(self.traced.returncode == 0, code, self.traced.stdout + self.traced.stderr)

    def run(self, *arguments):
        return subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True)

    def check(self, *settings):
        return self.told("trace", "--check", str(self.graph), str(self.file), *sets(settings))

    def replay(self, *settings):
        return self.told("replay", str(self.graph), *sets(settings))

    def told(self, *arguments):
        done = self.run(*arguments)
        return done.returncode, done.stdout + done.stderr


def sets(settings):
    return [part for setting in settings for part in ("--set", setting)]


def admits(case, *settings):
    code, text = case.check(*settings)
    check(code == 0 and "replay bitwise for rows = " in text, f"--check {settings}", text)
    code, text = case.replay(*settings)
    check(code == 0, f"replay {settings}", text)


def refuses(case, guard, *settings):
    for code, text in (case.check(*settings), case.replay(*settings)):
        check(code != 0 and guard in text.split("error:")[-1], f"{settings}: {guard}", text)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    even = Case(folder, MEAN)
    for guard in ("inputs.x = f32[*, 4] S(0)R", "inputs.x.shape[0] % 2 = 0",
                  "inputs.x.shape[0] >= 2 = True"):
        check(guard in even.traced.stdout, guard, even.traced.stdout)
    for rows in (2, 4, 6, 40):
        admits(even, f"rows={rows}")
    refuses(even, "inputs.x.shape[0] % 2", "rows=7")
    refuses(even, "inputs.x.shape[0] >= 2", "rows=0")
    refuses(even, "inputs.x", "hidden=6")
    code, text = even.replay("row=4")
    check(code != 0 and "'row'" in text and "rows" in text, "an unknown name", text)

    uneven = Case(folder, MEAN.split("\nv =")[0], FILE.replace("rows = 6", "rows = 7"))
    for rows in (3, 7, 9):
        admits(uneven, f"rows={rows}")
    refuses(uneven, "inputs.x.shape[0] % 2", "rows=8")
    refuses(uneven, "inputs.x.shape[0] >= 2", "rows=1")

    # A comparison of the program itself, and a size that is given to it as a number.
    compares = Case(folder, "y = x * 2\nif x.shape[0] == 6:\n    y = y + 1")
    refuses(compares, "== 6", "rows=8")
    orders = Case(folder, "y = x * 2\nif x.shape[0] > 4:\n    y = y + 1")
    admits(orders, "rows=8")
    refuses(orders, "> 4", "rows=4")
    written = Case(folder, "y = x.view(rows, 2, 2)")
    refuses(written, "params.rows", "rows=8")
    literal = Case(folder, "y = x.view(6, 2, 2)")
    refuses(literal, "", "rows=8")  # as the program itself, whose view does not fit then

    fixed = Case(folder, "y = x * 2", FILE.replace(", dynamic = 0", ""))
    code, text = fixed.replay("rows=8")
    check(code != 0 and "dynamic = 0" in text, "a graph of one size", text)

sys.exit(1 if failed else 0)
