"""Sizes that only fall: large classes and files, files that name Json, lines of the product.

The list is tests/tidy/walls.txt. What is new stays below the limits; what is on the list may be
taken off, and has to be as soon as it keeps to them.
"""

import collections
import re

import functions
from source import Problem

LIST = "tests/tidy/walls.txt"
PRODUCT = ("src", "sim", "backends")
PRODUCT_LINES = re.compile(r"\.(?:cpp|h|cu|cuh|inc)$")
# Made by a script from ATen's own file.
GENERATED = ("src/schema/aten_schemas.inc",)

CLASS_LINES = 300
# With the members that are defined outside of its braces.
WHOLE_CLASS_LINES = 600
FILE_LINES = 600

CLASS = re.compile(
    r"(?:template\s*<.*?>\s*)?(?:class|struct)\s+(?:\[\[.*?\]\]\s*)?([\w:]+)", re.DOTALL
)
JSON = re.compile(r"\b(?:Json|nlohmann)\b")


def classes_of(file):
    """[(name, line, lines)] of the classes at namespace level and in classes, with their braces."""
    functions.functions_of(file)
    named = ((CLASS.match(head), line, lines) for head, line, lines in file.containers)
    return [(match[1], line, lines) for match, line, lines in named if match]


def large_classes(repository):
    """{"class PATH NAME": (path, line, what is wrong)}"""
    found, outside = {}, collections.Counter()
    for file in repository.cpp(*PRODUCT):
        for function in functions.functions_of(file):
            if "::" in function.name:
                owner = function.name.split("::")[-2]
                outside[file.path.rpartition("/")[0], owner] += function.lines
    for file in repository.cpp(*PRODUCT):
        for name, line, lines in classes_of(file):
            last = name.split("::")[-1]
            whole = lines + outside[file.path.rpartition("/")[0], last]
            text = None
            if lines > CLASS_LINES:
                text = f"class {name} has {lines} lines, {CLASS_LINES} is the most"
            elif whole > WHOLE_CLASS_LINES:
                text = (f"class {name} has {whole} lines with what is defined outside of it, "
                        f"{WHOLE_CLASS_LINES} is the most")
            if text:
                found[f"class {file.path} {name}"] = Problem(file.path, line, text)
    return found


def large_files(repository):
    found = {}
    for file in repository.cpp(*PRODUCT):
        lines = file.text.count("\n")
        if lines > FILE_LINES:
            text = f"{lines} lines, {FILE_LINES} is the most for a file"
            found[f"file {file.path}"] = Problem(file.path, 0, text)
    return found


def json_files(repository):
    """Files of the product that know the type of JSON values: readers and writers of formats."""
    found = {}
    for file in repository.cpp(*PRODUCT):
        match = JSON.search(file.code)
        if match:
            text = "Json belongs in readers and writers of files"
            found[f"json {file.path}"] = Problem(file.path, file.line_of(match.start()), text)
    return found


def product_lines(repository):
    """Lines of src, sim and backends that are neither blank nor a comment."""
    count = 0
    for path, file in repository.files.items():
        if path.startswith(tuple(top + "/" for top in PRODUCT)) and PRODUCT_LINES.search(path):
            if path not in GENERATED:
                lines = (line.strip() for line in file.text.splitlines())
                count += sum(bool(line) and not line.startswith(("//", "/*", "*"))
                             for line in lines)
    return count


def listed(repository):
    """(entries by their text, the most lines of the product or None)"""
    file = repository.files.get(LIST)
    lines = [line for line in (file.text.splitlines() if file else []) if line[:1] not in ("#", "")]
    most = [int(line.split()[1]) for line in lines if line.startswith("lines ")]
    return {line for line in lines if not line.startswith("lines ")}, most[0] if most else None


def check_walls(repository):
    known, most = listed(repository)
    found = {**large_classes(repository), **large_files(repository), **json_files(repository)}
    for entry, problem in found.items():
        if entry not in known:
            yield problem
    for entry in sorted(known - set(found)):
        yield Problem(LIST, 0, f"'{entry}' keeps to the limit now: take it off the list")
    count = product_lines(repository)
    if most is not None and count > most:
        text = f"the product has {count} lines, {most} is the most: remove some, or give a reason"
        yield Problem(LIST, 0, text)


CHECKS = (check_walls,)
