#!/usr/bin/env python3
"""Text that the language accepts parses in Python 3, to the tree that the parser printed.

    python_subset.py SNIPPETS ROOT

SNIPPETS is read by parser_test.cpp, too: each is followed by the fully parenthesised form that the
parser must print. Here Python says whether both mean the same. Snippets marked "refused" are Python
outside of the subset.

Below ROOT, the repository, every program that runs in a scenario or a test must parse: those of
scenarios/**/*.toml, of the cases in tests/errors that get as far as running, and the texts that the
C++ tests of this folder run.
"""
import ast
import pathlib
import re
import sys

CODE = re.compile(r"^code = (\"\"\"|''')\n(.*?)\1", re.MULTILINE | re.DOTALL)
LITERAL = r'(?:R"(\w*)\((?P<raw>.*?)\)\1"|(?P<text>"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*))'
TEST_CODE = re.compile(r"(?:\brun\(|[{=]\s*)" + LITERAL, re.DOTALL)


def tree(source):
    """The tree of a text, or None where Python refuses it."""
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return None


def check_snippets(path):
    text = path.read_text(encoding="utf-8")
    text = text[text.index("\n") + 1 : text.rindex(')snippets"')]
    blocks = text.split("----\n")
    failed = 0
    for block in blocks:
        snippet, printed = block.split("=>\n")
        wanted = tree(snippet)
        if wanted is None or (printed != "refused\n" and tree(printed) != wanted):
            failed += 1
            print("Python does not agree:\n" + block)
    print(f"{len(blocks)} snippets, {failed} failed")
    return failed == 0 and len(blocks) >= 30


def programs_of_files(root):
    for path in sorted(root.glob("scenarios/**/*.toml")):
        for _, code in CODE.findall(path.read_text(encoding="utf-8")):
            yield path, code
    for path in sorted(root.glob("tests/errors/cases/*.toml")):
        wanted = path.with_suffix(".txt")
        text = wanted.read_text(encoding="utf-8") if wanted.exists() else ""
        runs = text.startswith(("exit 0", "exit 1"))
        for _, code in CODE.findall(path.read_text(encoding="utf-8")) if runs else ():
            yield path, code


def programs_of_tests(root):
    folder = root / "tests/unit/language"
    for path in (folder / "interpreter_test.cpp", folder / "program_test.cpp",
                 folder / "vocabulary_test.cpp"):
        for found in TEST_CODE.finditer(path.read_text(encoding="utf-8")):
            raw, text = found["raw"], found["text"]
            code = raw if raw is not None else ast.literal_eval(f"({text})")
            if code.endswith("\n"):  # others are names and messages
                yield path, code


def check_programs(name, programs, fewest):
    count = failed = 0
    for path, code in programs:
        count += 1
        if tree(code) is None:
            failed += 1
            print(f"Python refuses a program of {path}:\n{code}")
    print(f"{count} programs of {name}, {failed} failed")
    return failed == 0 and count >= fewest


snippets, root = map(pathlib.Path, sys.argv[1:])
good = [
    check_snippets(snippets),
    check_programs("scenarios and cases", programs_of_files(root), 60),
    check_programs("tests", programs_of_tests(root), 60),
]
sys.exit(0 if all(good) else 1)
