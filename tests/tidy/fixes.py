#!/usr/bin/env python3
"""The share of errors for users that say what to write instead.

    fixes.py [ROOT] [--without]     the share; --without lists the errors that have no fix

An error is made by `fail(ErrorKind::..., ...)` or by constructing an `Error` with a kind. Internal
errors are defects of ours, and the text of an assertion is the user's own: neither counts, nor does
an error that is thrown on. A function that never returns, or returns an Error, and makes exactly
one error is a helper: each of its calls counts in its place.

An error has a fix if its statement has one (`Fix{...}` or `.with("fix", ...)`), if it is a variable
that gets one later in its function, if its helper always adds one, or if its helper has a parameter
`fix` and the call gives it a text.
"""

import dataclasses
import functools
import pathlib
import re
import sys

sys.dont_write_bytecode = True

import functions  # noqa: E402
from source import Problem, Repository  # noqa: E402

# The least share of errors with a fix; it only rises.
LEAST_SHARE = 0.92
FOLDERS = ("src", "sim", "backends")
SKIPPED = ("src/base/error.h", "backends/nccl/double/")

MADE = re.compile(r"(?<![\w.>])(?:fail|\w*Error(?:\s+(?P<variable>\w+))?)\s*[({]")
NEVER_RETURNS = re.compile(r"\[\[noreturn\]\][\w\s:]*?\b(\w+)\s*\(")
RETURNS_ERROR = re.compile(
    r"(?<![\w<])Error\s+(?:\w+::)*(\w+)\s*\((?!\s*(?:ErrorKind|std::move)\b)"
)
DECLARED = re.compile(r"(?:\bvoid|\bError)\s+(?:\w+::)*$")
INITIALISER = re.compile(r"[^:]:\s*(?:public\s+)?$|,\s*$")
GIVES_FIX = re.compile(r'\bFix\s*\{|with\(\s*"fix"')
NOT_COUNTED = ("kInternal", "kAssert")


@dataclasses.dataclass(frozen=True)
class Site:
    """One error that a user can see."""

    path: str
    line: int
    has_fix: bool


@dataclasses.dataclass(frozen=True)
class Helper:
    """A function that makes one error for its callers."""

    path: str
    name: str
    arguments: range  # allowed numbers of them in a call
    fix_at: int  # the place of the parameter `fix`, or -1
    always: bool

    def gives_fix(self, arguments):
        if self.fix_at < 0:
            return self.always
        return len(arguments) > self.fix_at and arguments[self.fix_at] not in ('""', "{}")


def closing(code, at):
    """The position of the bracket that closes the one at `at`."""
    depth = 0
    for position in range(at, len(code)):
        depth += (code[position] in "([{") - (code[position] in ")]}")
        if depth == 0:
            return position
    return len(code) - 1


def split(file, opening, end):
    """The arguments between two brackets, as text."""
    found, start, depth = [], opening + 1, 0
    for position in range(opening + 1, end):
        mark = file.code[position]
        depth += (mark in "([{") - (mark in ")]}")
        if mark == "," and depth == 0:
            found.append(file.text[start:position].strip())
            start = position + 1
    last = file.text[start:end].strip()
    return found + [last] if last else found


def statement_end(code, at):
    """The end of the statement that holds `at`: at its semicolon, or where its bracket closes."""
    depth = 0
    for position in range(at, len(code)):
        depth += (code[position] in "([{") - (code[position] in ")]}")
        if depth < 0 or (code[position] == ";" and depth == 0):
            return position
    return len(code)


@functools.lru_cache(maxsize=None)
def line_starts(file):
    return [0] + [match.end() for match in re.finditer("\n", file.text)]


class Body:
    """A function with its text: begin, end and parameters."""

    def __init__(self, file, function):
        starts = line_starts(file)
        last = function.line - 1 + function.lines
        self.file, self.name = file, function.name.split("::")[-1]
        self.begin = starts[function.line - 1]
        self.end = starts[last] if last < len(starts) else len(file.text)

    def parameters(self):
        opening = self.file.code.find("(", self.begin, self.end)
        return split(self.file, opening, closing(self.file.code, opening))


class Errors:
    """All errors of the tree, and the helpers that make them."""

    def __init__(self, repository):
        self.repository = repository
        self.files = [file for file in repository.cpp(*FOLDERS)
                      if not file.path.startswith(SKIPPED)]
        self.bodies = {file.path: [Body(file, found) for found in functions.functions_of(file)]
                       for file in self.files}
        self.names = {name for file in self.files for pattern in (NEVER_RETURNS, RETURNS_ERROR)
                      for name in pattern.findall(file.code)} - {"fail"}
        self.calls = re.compile(r"\b(" + "|".join(sorted(self.names) or ["(?!)"]) + r")\s*\(")
        candidates = [body for bodies in self.bodies.values() for body in bodies
                      if body.name in self.names]
        self.helpers = {}
        for _ in range(3):  # a helper of helpers is known once they are
            found = {(body.file.path, body.name): self._helper(body) for body in candidates}
            self.helpers = {key: helper for key, helper in found.items() if helper}

    def sites(self):
        for file in self.files:
            helpers = [body for body in self.bodies[file.path]
                       if (file.path, body.name) in self.helpers]
            for position, has_fix in sorted(self._errors(file, 0, len(file.text))):
                if not any(body.begin <= position < body.end for body in helpers):
                    yield Site(file.path, file.line_of(position), has_fix)

    def _errors(self, file, begin, end):
        """[(position, whether it has a fix)] of the errors made there, with those of helpers."""
        for match in MADE.finditer(file.code, begin, end):
            opening = match.end() - 1
            arguments = split(file, opening, closing(file.code, opening))
            before = file.code[max(0, match.start() - 40) : match.start()]
            made = (len(arguments) > 1 and match["variable"] not in self.names
                    and (match[0].startswith("fail") or not INITIALISER.search(before)))
            if made and self._counts(arguments):
                yield match.start(), self._has_fix(file, match)
        visible = self._visible(file) if self.helpers else set()
        for match in self.calls.finditer(file.code, begin, end):
            opening = match.end() - 1
            arguments = split(file, opening, closing(file.code, opening))
            fitting = [helper for (path, name), helper in self.helpers.items()
                       if name == match[1] and path in visible
                       and len(arguments) in helper.arguments]
            fitting = [helper for helper in fitting if helper.path == file.path] or fitting
            declared = DECLARED.search(file.code[max(0, match.start() - 80) : match.start()])
            if fitting and not declared and self._counts(arguments):
                given = all(helper.gives_fix(arguments) for helper in fitting)
                yield match.start(), given or self._has_fix(file, match)

    @staticmethod
    def _counts(arguments):
        kinds = re.findall(r"ErrorKind::(\w+)", " ".join(arguments[:3]))
        return not kinds or any(kind not in NOT_COUNTED for kind in kinds)

    def _has_fix(self, file, match):
        end = statement_end(file.code, match.start())
        if GIVES_FIX.search(file.text, match.start(), end):
            return True
        variable = match.groupdict().get("variable")
        ends = [body.end for body in self.bodies[file.path]
                if body.begin <= match.start() < body.end]
        later = file.text[end : ends[0]] if ends else ""
        return bool(variable) and re.search(variable + r'\.with\(\s*"fix"', later) is not None

    def _helper(self, body):
        own = re.compile(r"\b" + body.name + r"\s*\(").search(body.file.code, body.begin).start()
        makes = [fix for position, fix in self._errors(body.file, body.begin, body.end)
                 if position != own]
        if len(makes) != 1:
            return None
        parameters = body.parameters()
        names = [re.split(r"[\s&*]+", text.split("=")[0].strip())[-1] for text in parameters]
        fix_at = names.index("fix") if "fix" in names else -1
        # A default is in the declaration, which may be elsewhere: a last parameter `fix` probably
        # has one.
        optional = sum("=" in text for text in parameters) or fix_at == len(names) - 1 >= 0
        arguments = range(len(names) - optional, len(names) + 1)
        if "..." in body.file.code[body.begin : body.end].split("{")[0]:
            arguments = range(len(names) - 1, 20)
        return Helper(body.file.path, body.name, arguments, fix_at, makes[0])

    @functools.lru_cache(maxsize=None)
    def _visible(self, file):
        """The file, the headers that it includes, and the sources of these headers."""
        found, queue = set(), [file.path]
        while queue:
            path = queue.pop()
            if path not in found:
                found.add(path)
                includes = self.repository.files[path].includes
                targets = [self.repository.resolve(self.repository.files[path], name)
                           for _, mark, name in includes if mark == '"']
                queue += [target for target in targets if target]
        return found | {path[:-2] + ".cpp" for path in found if path.endswith(".h")}


def share_of(sites):
    return sum(site.has_fix for site in sites) / len(sites) if sites else 1.0


def summary(repository):
    """A line for people: the share of errors with a fix."""
    sites = list(Errors(repository).sites())
    with_fix = sum(site.has_fix for site in sites)
    return f"{with_fix} of {len(sites)} errors say what to write instead: {share_of(sites):.1%}"


def check_share(repository):
    share = share_of(list(Errors(repository).sites()))
    if share < LEAST_SHARE:
        text = f"{share:.1%} of the errors have a fix, at least {LEAST_SHARE:.0%} must"
        yield Problem("tests/tidy/fixes.py", 0, text + "; --without lists those that have none")


CHECKS = (check_share,)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--without"]
    default = pathlib.Path(__file__).resolve().parents[2]
    repository = Repository(arguments[0] if arguments else default)
    if "--without" in sys.argv:
        for site in Errors(repository).sites():
            if not site.has_fix:
                text = repository.files[site.path].text.splitlines()[site.line - 1].strip()
                print(f"{site.path}:{site.line}: {text}")
    print(summary(repository))


if __name__ == "__main__":
    main()
