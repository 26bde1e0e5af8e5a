#!/usr/bin/env python3
"""Faults that tests must catch: the patches of faults.toml, planted one after the other.

    faults.py check                    each text is once in its file, each id in the name of a test
    faults.py copies                   the names of the patched copies, one a line
    faults.py generate FOLDER          write the copies into FOLDER
    faults.py run PROGRAM [NAME...]    plant each fault (or these), run the tests that name its id

A copy holds every fault of its file, each behind a constant that SHARDLAB_FAULT sets when the
program starts: so a file is compiled once, however many faults it has. A fault is caught when a
test that names its id fails, and the same tests pass without it. Exit code 1 when one is missed, or
when a text is not exactly once in its file.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tomllib

SECONDS = 120  # a fault may leave ranks waiting for each other
SECONDS_OF_ALL = 1200  # the tests of every fault, without one
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

Patch = collections.namedtuple("Patch", "fault file text replacement")


class Unclear(Exception):
    """Faults that cannot be planted, with the reason."""


def read_faults():
    """The faults in their order; each has its patches, mostly one."""
    path = pathlib.Path(__file__).with_name("faults.toml")
    faults = tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    names = collections.Counter(fault["name"] for fault in faults)
    for name, count in names.items():
        if count > 1:
            raise Unclear(f"{count} faults have the name {name}")
        if not re.fullmatch("[a-z0-9-]+", name):
            raise Unclear(f"{name}: a name of a fault has small letters, digits and hyphens alone")
    for fault in faults:
        places = fault.get("patches") or [fault]
        fault["patches"] = [Patch(fault["name"], place["file"], " ".join(place["text"].split()),
                                  " ".join(place["replacement"].split())) for place in places]
    return faults


def place_of(patch, source):
    """(begin, end) of its text in the source; runs of white space are equal to each other."""
    pattern = r"\s+".join(re.escape(word) for word in patch.text.split())
    found = [match.span() for match in re.finditer(pattern, source)]
    if len(found) != 1:
        raise Unclear(f"{patch.fault}: its text is {len(found)} times in {patch.file}, not "
                      f"once: {patch.text}")
    return found[0]


# An operator or a list in braces: the text beside it is no expression of its own.
PART = re.compile(r"(\|\||&&|[?:=*/%,]|[^+]\+)$|^(\|\||&&|[?:=+/%,{])")

# A type and a name before "=" or brackets: a declaration. Inside a branch it would end with it.
DECLARATION = re.compile(
    r"(?:const )?(?!return\b|throw\b|else\b)[\w:]+(<.*>)?[\s&*]+\w+( = |[({])")


def constant(name):
    return "planted_" + name.replace("-", "_")


def check_whole(patch):
    """An expression or statements, with all brackets closed: a part of one cannot be a branch."""
    for what in (patch.text, patch.replacement):
        code = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', "", what)
        depth, statements, several = 0, False, False
        for letter in code:
            statements |= letter == ";" and depth == 0
            several |= letter == "," and depth == 0
            depth += (letter in "([{") - (letter in ")]}")
            if depth < 0:
                break
        if several and not statements and "<" not in code:
            raise Unclear(f"{patch.fault}: several expressions; name the call whose arguments they "
                          f"are: {what}")
        if depth != 0:
            raise Unclear(f"{patch.fault}: its brackets do not end in it; name a whole expression "
                          f"or statement: {what}")
        if what is patch.text and not statements and PART.search(code):
            raise Unclear(f"{patch.fault}: it is a part of an expression; name a whole one: {what}")
        statements = statements or re.match(r"\s*(if|for|while|return)\b", code)
        if statements and code.rstrip()[-1] not in ";}":
            raise Unclear(f"{patch.fault}: its last statement does not end in it; name all of it: "
                          f"{what}")


def choice(original, patches, before):
    """A replacement where its fault is planted, or else the original, which has a source before."""
    for patch in patches:
        check_whole(patch)
    if original.endswith(";") or (original.endswith("}") and ";" in original):
        if not re.search(r"(^|[;{}):]|\belse)\s*$", re.sub(r"//.*", "", before)):
            raise Unclear(f"{patches[0].fault}: its text begins within a statement; name all of it "
                          f"or an expression: {original}")
        if original.count(";") == 1 and DECLARATION.match(original):
            raise Unclear(f"{patches[0].fault}: its text is a declaration, which ends with its "
                          f"branch; name the value that it is given: {original}")
        chosen = "".join(f"if ({constant(patch.fault)}) {{ {patch.replacement} }} else "
                         for patch in patches)
        return f"{{ {chosen}{{ {original} }} }}"
    chosen = "".join(f"{constant(patch.fault)} ? ({patch.replacement}) : " for patch in patches)
    return f"({chosen}({original}))"


def patched(path, source, patches):
    """The source with a choice at each place. Messages of the compiler name lines of the source."""
    places = collections.defaultdict(list)
    for patch in patches:
        places[place_of(patch, source)].append(patch)
    lines = ['#include "tests/behaviours/planted.h"']
    lines += [f'static const bool {constant(patch.fault)} = shardlab::planted("{patch.fault}");'
              for patch in patches]
    if path.endswith(".h"):
        lines.insert(0, "#pragma once")
    result, done = "\n".join([*lines, f'#line 1 "{path}"', ""]), 0
    for (begin, end), here in sorted(places.items()):
        if begin < done:
            raise Unclear(f"{here[0].fault} overlaps another fault of {path}: give both one text")
        result += source[done:begin] + choice(source[begin:end], here, source[:begin])
        done = end
    return result + source[done:]


def includers(header):
    """The sources that include a header, as they name it; no header may."""
    name = header.split("/", 1)[1] if header.startswith("src/") else header
    line = f'#include "{name}"'
    found = [path for folder in ("src", "sim", "backends", "tests/support")
             for path in sorted((REPOSITORY / folder).rglob("*.*"))
             if path.suffix in (".cpp", ".h") and line in path.read_text(encoding="utf-8")]
    for path in found:
        if path.suffix == ".h":
            raise Unclear(f"{header} is included by {path}: only sources get the patched copy")
    return line, [str(path.relative_to(REPOSITORY)) for path in found]


def patches_by_file(faults):
    """({file: its patches}, {file: [(line, line)] to replace}): files that include a patched header
    are copied, too."""
    by_file, lines = collections.defaultdict(list), collections.defaultdict(list)
    for fault in faults:
        for patch in fault["patches"]:
            by_file[patch.file].append(patch)
    for header in [path for path in by_file if path.endswith(".h")]:
        line, sources = includers(header)
        for source in sources:
            by_file[source] = by_file[source]
            lines[source].append((line, f'#include "{copy_name(header)}"'))
    return dict(sorted(by_file.items())), lines


def copy_name(path):
    return path.replace("/", "_")


def copies(faults):
    """{name: text} of every patched file."""
    by_file, lines = patches_by_file(faults)
    texts, unclear = {}, []
    for path, patches in by_file.items():
        source = (REPOSITORY / path).read_text(encoding="utf-8")
        for old, new in lines[path]:
            source = source.replace(old, new)
        try:
            texts[copy_name(path)] = patched(path, source, patches)
        except Unclear as reason:
            unclear.append(str(reason))
    if unclear:
        raise Unclear("\n".join(unclear))
    return texts


def write_if_changed(path, text):
    """A copy with the same text keeps its time, and is not compiled again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def run(program, identifiers, name, seconds=SECONDS):
    """(passed, the failure's text) of the tests that name these ids."""
    pattern = ",".join(f"*{identifier} *" for identifier in identifiers)
    environment = {**os.environ, "SHARDLAB_FAULT": name}
    try:
        done = subprocess.run([program, f"--test-case={pattern}", "--no-colors=1"],
                              env=environment, capture_output=True, text=True, errors="replace",
                              timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return False, "the tests do not end"
    if " 0 passed" in done.stdout and " 0 failed" in done.stdout.split("assertions")[0]:
        return True, "no test names it"
    if done.returncode == 0:
        return True, "the tests pass"
    names = [line.removeprefix("TEST CASE:").strip() for line in done.stdout.splitlines()
             if line.startswith("TEST CASE:")]
    return False, names[0] if names else f"the tests end with code {done.returncode}"


def run_all(faults, program, names):
    unknown = set(names) - {fault["name"] for fault in faults}
    if unknown:
        raise Unclear(f"there is no fault {', '.join(sorted(unknown))}")
    chosen = [fault for fault in faults if not names or fault["name"] in names]
    missed = 0
    passed, how = run(program, sorted({fault["id"] for fault in chosen}), "", SECONDS_OF_ALL)
    if not passed:
        print(f"without a fault: {how}")
        missed += 1
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda fault: run(program, [fault["id"]], fault["name"]), chosen)
        for fault, (passed, how) in zip(chosen, results):
            missed += passed
            verdict = "missed" if passed else "caught"
            print(f"{verdict}  {fault['id']:5} {fault['name']}: {how}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults caught")
    return 1 if missed else 0


def check_named(faults):
    """Each id is part of the name of a test: otherwise its faults would be planted for no test."""
    tests = "".join(path.read_text(encoding="utf-8")
                    for path in sorted((REPOSITORY / "tests/unit").rglob("*_test.cpp")))
    for fault in faults:
        if f"{fault['id']} " not in tests:
            raise Unclear(f"{fault['name']}: no name of a unit test has '{fault['id']} '")


def act(options):
    faults = read_faults()
    if options.action == "run":
        return run_all(faults, options.program, options.names)
    if options.action == "copies":  # the names need no unique texts
        print("\n".join(copy_name(path) for path in patches_by_file(faults)[0]))
        return 0
    texts = copies(faults)
    if options.action == "generate":
        for name, text in texts.items():
            write_if_changed(options.folder / name, text)
    else:
        check_named(faults)
        print(f"{len(faults)} faults in {len(texts)} files")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("check")
    actions.add_parser("copies").add_argument("list", nargs="?", help="for Meson, which watches it")
    actions.add_parser("generate").add_argument("folder", type=pathlib.Path)
    run_parser = actions.add_parser("run")
    run_parser.add_argument("program")
    run_parser.add_argument("names", nargs="*")
    try:
        return act(parser.parse_args())
    except Unclear as reason:
        print(reason, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
