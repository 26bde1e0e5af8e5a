#!/usr/bin/env python3
"""Bugs that people report: each is caught with its cause and its line, and no healthy twin is.

    zoo.py PROGRAM ZOO [--seeds COUNT] [--write]

ZOO/NAME.toml is a program with a bug, whose `about` is the place where people report it and whose
[expect] has the verdict that it must get. ZOO/NAME_right.toml is the same program without the bug,
which must pass. All of them run in one `shardlab test` for each seed of the inputs, from 0 on.
ZOO/README.md has a row for each pair, in the order of its file; --write makes the rows anew, new
ones last.
"""

import argparse
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

LONGEST = 25  # lines
SECONDS = 20  # of a processor, for all
RIGHT = "_right"
ROW = re.compile(r"^\| `(\w+)` .*\n", re.MULTILINE)


def key(text, name):
    found = re.search(rf'^{name} = (?:"([^"\n]*)"|(\d+)$)', text, re.MULTILINE)
    return (found[1] or found[2]) if found else None


def told(text):
    """The cell of the expected verdict: a cause without its prefix, a verdict, an error."""
    if cause := key(text, "cause"):
        return cause.removeprefix("cause.")
    if verdict := key(text, "verdict"):
        return verdict
    error = re.search(r"^error = \{ (.*) \}$", text, re.MULTILINE)
    words = re.findall(r'= "([^"]*)"', error[1]) if error else []
    return "error" + (f": {', '.join(words)}" if words else "")


def row(name, text):
    return (f"| `{name}` | {key(text, 'about')} | {key(text, 'title')} "
            f"| {told(text)} | {key(text, 'line')} |\n")


def problems_of(name, texts):
    wrong, right = texts[name], texts.get(name + RIGHT)
    if key(wrong, "line") is None:
        yield f"{name}: [expect] has no line"
    if not re.search(r"^(cause|verdict|error) = ", wrong, re.MULTILINE):
        yield f"{name}: [expect] says not what is wrong"
    if not re.fullmatch(r"[\w./-]+#\d+(, [\w./-]+#\d+)*", key(wrong, "about") or ""):
        yield f"{name}: about must be where people report it: repository#number"
    if right is None:
        yield f"{name}: {name}{RIGHT}.toml is missing"
    elif re.search(r"^(cause|line|verdict|error|verify) = ", right, re.MULTILINE):
        yield f"{name}{RIGHT}: expects something wrong"
    for one, text in ((name, wrong), (name + RIGHT, right or "")):
        if text.count("\n") > LONGEST:
            yield f"{one}: {text.count(chr(10))} lines, more than {LONGEST}"


def run_all(program, folder, seed):
    """Seconds of each, and the failures."""
    with tempfile.TemporaryDirectory() as scratch:
        junit = pathlib.Path(scratch) / "junit.xml"
        command = [program, "test", "--jobs", "1", "--seed", str(seed), "--junit", str(junit)]
        done = subprocess.run([*command, str(folder)], capture_output=True, encoding="utf-8",
                              check=False)
        cases = xml.parse(junit).getroot().iter("testcase")
        times = {pathlib.Path(case.get("name")).stem: float(case.get("time")) for case in cases}
    failed = done.stdout.partition("\nfailed\n")[2] + done.stderr
    return times, f"seed {seed}:\n{failed}" if failed else ""


def main():
    parser = argparse.ArgumentParser(description="Runs the zoo.")
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("zoo", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    texts = {path.stem: path.read_text(encoding="utf-8") for path in options.zoo.glob("*.toml")}
    names = [name for name in sorted(texts) if not name.endswith(RIGHT)]
    page = options.zoo / "README.md"
    text = page.read_text(encoding="utf-8")
    listed = [found[1] for found in ROW.finditer(text)]
    order = [name for name in listed if name in names] + sorted(set(names) - set(listed))
    rows = "".join(row(name, texts[name]) for name in order)
    head = re.search(r"^\|---.*\n", text, re.MULTILINE).end()
    wanted = text[:head] + rows + ROW.sub("", text[head:])
    if options.write:
        page.write_text(wanted, encoding="utf-8")
        return 0
    problems = [problem for name in names for problem in problems_of(name, texts)]
    problems += [f"{one}: no bug has such a twin" for one in texts
                 if one.endswith(RIGHT) and one.removesuffix(RIGHT) not in texts]
    if text != wanted:
        problems.append("README.md: the rows are not those of the files; --write makes them anew")
    failed = ""
    for seed in range(options.seeds):
        times, more = run_all(options.program, options.zoo, seed)
        failed += more
        if set(times) != set(texts):
            problems.append(f"not all ran: {len(times)} of {len(texts)}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (used.ru_utime + used.ru_stime) / options.seeds
    if seconds > SECONDS:
        problems.append(f"takes {seconds:.1f} s of a processor, more than {SECONDS}")
    print("\n".join(problems) + failed)
    print(f"{len(names)} bugs and their twins, {options.seeds} seeds, {len(problems)} problems, "
          f"{seconds:.1f} s a seed; the slowest took {max(times.values()):.2f} s")
    return 1 if problems or failed or len(names) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
