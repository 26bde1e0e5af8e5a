#!/usr/bin/env python3
"""Programs of the zoo with one line more that does not matter: nothing else is said of them.

    innocent_lines.py PROGRAM ZOO [--every N] [--seed N] [--keep FOLDER]

Each program gets each of 20 lines, which read a tensor that nothing else reads, at its start, in
its middle and at its end. A bug must be found with the same cause at the same line, and nothing
may be wrong in a twin. With --every N one of N of these programs runs, another one for each seed.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

RIGHT = "_right"
LINES = (
    "{x} * 2",
    "{x}.norm()",
    "{x}.mean()",
    "{x}.mean(1)",
    "{x}.softmax(0)",
    "F.dropout({x}, 0.5)",
    "{x}.argmax()",
    "{x}.sort(0)[0]",
    "({x}.t() @ {x}).relu()",
    "{x}.sum()",
    "{x}.std()",
    "{x}.cumsum(0)",
    "{x}.abs().max().item()",
    "torch.roll({x}, 1, 0)",
    "{x}.chunk(2)[0]",
    "{x} * rank",
    "({x} > 0).float().mean()",
    "{x}.clone().mul_(0.5)",
    "{x}.view(-1).topk(2)[0]",
    'all_reduce({x}.sum(), "sum", group="{dim}")',
)
PLACES = ("start", "middle", "end")


def boundaries(code):
    """Numbers of lines before which a statement of the program itself begins."""
    depth, found, text = 0, [], False
    for number, line in enumerate(code):
        begins = bool(line.strip()) and not line[0].isspace() and not line.startswith(("#", ")"))
        goes_on = re.match(r"(else|elif|except|finally)\b", line)
        if begins and depth == 0 and not text and not goes_on:
            if number == 0 or not code[number - 1].startswith("@"):
                found.append(number)
        depth += sum(line.count(c) for c in "([{") - sum(line.count(c) for c in ")]}")
        text ^= line.count("'''") % 2 == 1
    return found


def with_line(text, line, place):
    """The program with one line more; None where it has no mesh dim, tensor or statement."""
    dim = re.search(r"^\[mesh\]\n(\w+) = \d", text, re.MULTILINE)
    parts = re.search(r'^\[program\]\ncode = """\n(.*?)"""', text, re.MULTILINE | re.DOTALL)
    if dim is None or parts is None or "[inputs]\n" not in text or "[schedule]" in text:
        return None
    if "dropout" in line and "manual_seed" in text:
        return None  # a draw behind a seed is not innocent: later draws go on from its state
    code = parts[1].splitlines()
    begins = boundaries(code)
    at = {"start": 0, "middle": begins[len(begins) // 2], "end": len(code)}[place]
    code.insert(at, "log_v = " + line.format(x="extra_log.to_local()", dim=dim[1]))
    above = text[:parts.start(1)].count("\n") + at + 1  # lines
    declared = text[:text.index("[inputs]\n")].count("\n") + 1
    text = text[:parts.start(1)] + "\n".join(code) + "\n" + text[parts.end(1):]
    text = text.replace("[inputs]\n", f'[inputs]\nextra_log = "f32[8@{dim[1]}, 4]"\n', 1)

    def moved(found):
        number = int(found[2])
        return found[1] + str(number + (number >= above) + (number > declared))

    head, expect, tail = text.partition("[expect]\n")
    return head + expect + re.sub(r"^(line = )(\d+)$", moved, tail, flags=re.MULTILINE)


def draw(texts, options):
    """Names and texts of the programs to run."""
    number = 0
    for name, text in sorted(texts.items()):
        for index, line in enumerate(LINES):
            for place in PLACES:
                number += 1
                if (number + options.seed) % options.every == 0:
                    more = with_line(text, line, place)
                    if more is not None:
                        yield f"{name}-{index}-{place}", more


def run_all(program, folder):
    """The names of the programs that fail, with the first line of their failure."""
    junit = folder / "junit.xml"
    subprocess.run([program, "test", "--jobs", "1", "--junit", junit, folder], check=False,
                   capture_output=True)
    cases = list(xml.parse(junit).getroot().iter("testcase"))
    failed = {}
    for case in cases:
        for failure in [*case.iter("failure"), *case.iter("error")]:
            said = (failure.text or failure.get("message") or "").strip()
            failed[pathlib.Path(case.get("name")).stem] = said.partition("\n")[0]
    return len(cases), failed


def main():
    parser = argparse.ArgumentParser(description="Runs the zoo with innocent lines.")
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("zoo", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path, help="where programs that fail are written")
    options = parser.parse_args()
    texts = {path.stem: path.read_text(encoding="utf-8") for path in options.zoo.glob("*.toml")}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        programs = dict(draw(texts, options))
        for name, text in programs.items():
            (folder / f"{name}.toml").write_text(text, encoding="utf-8")
        ran, failed = run_all(options.program, folder)
    for name, said in sorted(failed.items()):
        bug = name.partition("-")[0]
        kind = "a right program" if bug.endswith(RIGHT) else "a bug"
        index = int(name.split("-")[1])
        print(f"{kind}: {bug}, {LINES[index]!r} at its {name.split('-')[2]}: {said}")
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f"{name}.toml").write_text(programs[name], encoding="utf-8")
    enough = 200 * len(LINES) * len(PLACES) // options.every
    print(f"{ran} programs of {len(texts)} of the zoo, {len(failed)} failed")
    return int(bool(failed) or ran != len(programs) or ran < enough)


if __name__ == "__main__":
    sys.exit(main())
