"""Calls whose arguments make calls of ops, draw numbers or read input: C++ leaves their order to
the compiler, so that the ops of a program would be issued in another order by another compiler.

Without a compiler: in programs over ops a name is *effective* when it issues ops: `calls` itself,
functions called with it, a function, member or lambda of this file whose body holds an effective
name, and arithmetic with a variable that is declared as an Expression. A call with two effective
arguments is reported. Arguments in braces are evaluated from left to right, an object before the
arguments of its member, and operators on expressions refuse two computed operands by their types
(src/ops/core/expression.h).
"""

import re

from source import Problem

# Programs over ops are in src; in sim the ranks are asked what the program knows of each.
FOLDERS = ("src", "sim")
CALLS = r"(?:\w+\.)?calls_?"
# Text that issues an op or takes the next of a sequence, at any place.
ISSUES = re.compile(
    rf"\b{CALLS}\s*(?:\(|->|\.(?:one|call|redistribute)\s*\()|\(\s*{CALLS}\b|\{{\s*{CALLS}\s*,"
    r"|\.(?:of|to|with|filled|choose|conjugate|minus|plus|times|over)\s*\("
    r"|\b(?:next|draw|parse)_\w+\s*\(|\b(?:settle|evaluate|call_op|call)\s*\("
)
# A value that only becomes an expression.
QUIET = re.compile(rf"\bExpression\s*[({{]\s*{CALLS}\s*,\s*[\w.\[\]]+(?:\.tensor\(\))?\s*[)}}]")
LAMBDA = re.compile(r"\b(?:const\s+)?auto\s+(\w+)\s*=\s*\[[^\]]*\]")
GIVES = "Expression|DTensor|Results|Gradients|Argument|Tap|Positions"
FUNCTION = re.compile(rf"\b(?:{GIVES})\s+(\w+)\s*\(")
VARIABLES = re.compile(r"\bExpression&?\s+(\w+(?:\s*[,=][^;{}]*)?)")
NAME_BEFORE = re.compile(r"([A-Za-z_][\w:.>\-]*(?:<[^<>;(){}]*>)?)\s*$")
NO_CALL = re.compile(r"^(?:if|for|while|switch|return|sizeof|catch|alignof|decltype|noexcept)$")
OPEN, CLOSE = "([{", ")]}"


def closing(code, start):
    """The position at which the bracket at `start` ends."""
    depth = 0
    for at in range(start, len(code)):
        if code[at] in OPEN:
            depth += 1
        elif code[at] in CLOSE:
            depth -= 1
            if depth == 0:
                return at
    return len(code)


def parts(text):
    """The arguments of a call, split at commas outside of brackets."""
    depth, start, found = 0, 0, []
    for at, mark in enumerate(text):
        depth += mark in OPEN
        depth -= mark in CLOSE
        if mark == "," and depth == 0:
            found.append(text[start:at])
            start = at + 1
    return found + [text[start:]]


def bodies(code):
    """(name, body) of lambdas with a name and of functions that give tensors."""
    for pattern in (LAMBDA, FUNCTION):
        for match in pattern.finditer(code):
            brace = code.find("{", match.end())
            end = code.find(";", match.end())
            if brace >= 0 and (end < 0 or brace < end):
                yield match[1], code[brace : closing(code, brace)]


def without_lambdas(argument):
    """A lambda that is passed on is not evaluated here."""
    return "" if re.match(r"\s*\[[&=\w, ]*\]", argument) else argument


class Effects:
    """The names of a file that issue ops."""

    def __init__(self, code):
        self.names = set()
        self.pattern = None
        variables = set()
        for match in VARIABLES.finditer(code):
            for part in parts(match[1]):
                variables.add(re.match(r"\s*(\w*)", part)[1])
        variables.discard("")
        self.arithmetic = None
        if variables:
            word = "|".join(sorted(variables))
            self.arithmetic = re.compile(
                rf"\b(?:{word})\s[-+*/]\s|\s[-+*/]\s(?:{word})\b(?!\.value)"
                rf"|(?:^|[(,\s])-(?:{word})\b"
            )
        known = list(bodies(code))
        while True:
            more = {name for name, body in known if name not in self.names and self.has(body)}
            if not more:
                break
            self.names |= more
            self.pattern = re.compile(rf"\b(?:{'|'.join(sorted(self.names))})(?:<[^<>;()]*>)?\s*\(")

    def has(self, text):
        text = QUIET.sub("", text)
        return bool(
            ISSUES.search(text)
            or (self.pattern and self.pattern.search(text))
            or (self.arithmetic and self.arithmetic.search(text))
        )


def unordered_calls(code):
    """Positions of calls with two effective arguments, and the name before the bracket."""
    effects = Effects(code)
    if not effects.has(code):
        return
    for at, mark in enumerate(code):
        if mark != "(":
            continue
        name = NAME_BEFORE.search(code, max(0, at - 80), at)
        if not name or NO_CALL.match(name[1]):
            continue
        inside = code[at + 1 : closing(code, at)]
        if "," not in inside or not effects.has(inside):
            continue
        arguments = [without_lambdas(part) for part in parts(inside)]
        if sum(effects.has(argument) for argument in arguments) > 1:
            yield at, name[1]


def check_order(repository):
    for file in repository.cpp(*FOLDERS):
        for position, name in unordered_calls(file.code):
            yield Problem(
                file.path,
                file.line_of(position),
                f"{name}(..): two arguments issue ops, in the compiler's order; name the first",
            )


CHECKS = (check_order,)
