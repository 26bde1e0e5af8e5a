"""Finds C++ functions and how long they are, without a compiler.

Braces are matched in the text without comments and strings; the text before a brace gives its kind.
Lambdas inside a function are part of it.
"""

import dataclasses
import re

from source import Problem

MAX_LINES = 60
MAX_LONG_SHARE = 0.01
LIST = "tests/tidy/long_functions.txt"

BRACE_OR_END = re.compile(r"[{};]")
PREPROCESSOR = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
CONTAINER = re.compile(
    r"(?:template\s*<.*>\s*)?(?:inline\s+|export\s+|static\s+|typedef\s+)*"
    r"(?:namespace|class|struct|union|enum|extern\s*\"\s*\")",
    re.DOTALL,
)
# `) const noexcept -> T` and constructors' initialisers up to the body's brace.
SIGNATURE = re.compile(
    r"\)\s*(?:const|noexcept(?:\([^()]*\))?|override|final|mutable|&&?|->[^;]*|requires[^;]*|\s)*"
    r"(?::[^:].*[)}]\s*)?$",
    re.DOTALL,
)
# Blanks and access specifiers before the first word of a signature.
LEAD = re.compile(r"(?:\s|(?:public|private|protected)\s*:(?!:))*")
NAME = re.compile(
    r"((?:[A-Za-z_]\w*::)*(?:operator\s*[^\s\w(]+|operator\s*\(\)|~?[A-Za-z_]\w*))\s*\("
)
# A type before the name, and nothing that only a value or a type has.
DECLARATION = re.compile(
    r"(?!using\b|typedef\b|friend\s+class\b|return\b|static_assert\b|extern\s+template\b)"
    r"[^()={]*[\w>&*\]]\s+[*&]*(?:operator|~?\w)[^()={]*\(", re.DOTALL)
TEST_NAME = re.compile(r'\w+\s*\(\s*"((?:\\.|[^"\\])*)"')


@dataclasses.dataclass(frozen=True)
class Function:
    path: str
    line: int
    lines: int
    name: str


def _kind(head):
    """The kind of block that a brace after `head` opens."""
    if CONTAINER.match(head, LEAD.match(head).end()):
        return "container"
    return "function" if SIGNATURE.search(head) else "value"


def _name(file, start, end):
    raw = file.text[start:end]
    test = TEST_NAME.match(raw.strip())
    if test:
        return test[1]
    name = NAME.search(file.code[start:end])
    return name[1] if name else "lambda"


def _scan(file):
    """(functions, heads of statements, (head, line, lines) of namespaces and classes) of a file at
    namespace or class level, in order."""
    code = PREPROCESSOR.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), file.code)
    found, heads, containers, stack, start = [], [], [], [], 0
    for match in BRACE_OR_END.finditer(code):
        position, mark = match.start(), match[0]
        inside_function = bool(stack) and stack[-1][0] != "container"
        if mark == "{":
            kind = "inner" if inside_function else _kind(code[start:position])
            stack.append((kind, start, position))
            if kind != "value":
                start = position + 1
        elif mark == "}":
            kind, head, opened = stack.pop() if stack else ("inner", position, position)
            first = LEAD.match(code, head).end()
            line = file.line_of(first) if kind in ("function", "container") else 0
            length = file.line_of(position) - line + 1 if line else 0
            if kind == "function":
                found.append(Function(file.path, line, length, _name(file, first, opened)))
            elif kind == "container":
                containers.append((code[first:opened], line, length))
            # After an initialiser `a_{1}` the head continues: a body or a semicolon follows.
            start = head if kind == "value" else position + 1
        elif not inside_function:
            heads.append(code[LEAD.match(code, start).end():position])
            start = position + 1
    return found, heads, containers


def functions_of(file):
    """The functions of a file at namespace or class level, in order."""
    if "functions" not in file.__dict__:
        file.functions, file.heads, file.containers = _scan(file)
    return file.functions


def declared_in(file):
    """Names of the functions that a file declares without a body, each as often as it does."""
    functions_of(file)
    names = [NAME.search(head) for head in file.heads if DECLARATION.match(head)]
    return [name[1] for name in names if name]


def all_functions(repository):
    return [function for file in repository.cpp() for function in functions_of(file)]


def listed_functions(repository):
    """The long functions that are known: lines `path name`."""
    file = repository.files.get(LIST)
    lines = file.text.splitlines() if file else []
    return [line for line in lines if line and not line.startswith("#")]


def check_length(repository):
    functions = all_functions(repository)
    listed = listed_functions(repository)
    over = {f"{function.path} {function.name}": function
            for function in functions if function.lines > MAX_LINES}
    for key, function in over.items():
        if key not in listed:
            text = f"{function.name} has {function.lines} lines, {MAX_LINES} is the most"
            yield Problem(function.path, function.line, text)
    for key in listed:
        if key not in over:
            yield Problem(LIST, 0, f"'{key}' is not long any more: take it off the list")
    if len(over) > MAX_LONG_SHARE * len(functions):
        share = f"{len(over)} of {len(functions)} functions have over {MAX_LINES} lines"
        yield Problem(LIST, 0, f"{share}, more than {MAX_LONG_SHARE:.0%}")


CHECKS = (check_length,)
