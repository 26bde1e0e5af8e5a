"""Reads the repository for the tidy checks: files, C++ without comments or strings, includes."""

import dataclasses
import functools
import pathlib
import re

CODE_FOLDERS = ("src", "sim", "backends", "tests")
CPP_SUFFIXES = (".h", ".cpp", ".cu")

# Folders without text of ours. Build folders are called build or build-*.
SKIPPED = re.compile(r"^(\.git|\.cache|build|build-.*|__pycache__)$")
FACTS = "tests/golden/facts/"

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<raw>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')""",
    re.DOTALL | re.VERBOSE,
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Problem:
    """One violation, printed as `path:line: text` (line 0: the whole file)."""

    path: str
    line: int
    text: str

    def __str__(self):
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.text}"


def _blank(text, keep_ends):
    inner = text[1:-1] if keep_ends else text
    blanked = re.sub(r"[^\n]", " ", inner)
    return text[0] + blanked + text[-1] if keep_ends else blanked


class SourceFile:
    """One text file; `path` is relative to the repository, with slashes."""

    def __init__(self, path, text):
        self.path = path
        self.text = text

    @property
    def folder(self):
        """The folder that has a row in the include law: src/mesh, sim/run, backends/mpi, tests."""
        parts = self.path.split("/")
        return "/".join(parts[:2]) if parts[0] in ("src", "backends", "sim") else parts[0]

    def line_of(self, position):
        return self.text.count("\n", 0, position) + 1

    @functools.cached_property
    def without_comments(self):
        def replace(match):
            return _blank(match[0], False) if match.lastgroup == "comment" else match[0]

        return TOKEN.sub(replace, self.text)

    @functools.cached_property
    def code(self):
        """Comments and the insides of strings are blanks; positions and lines stay."""
        return TOKEN.sub(
            lambda match: _blank(match[0], match.lastgroup not in ("comment", None)), self.text
        )

    @functools.cached_property
    def strings(self):
        """[(position, text between the quotes)], raw strings included, characters not."""
        found = []
        for match in TOKEN.finditer(self.text):
            if match["string"]:
                found.append((match.start(), match["string"][1:-1]))
            elif match["raw"]:
                found.append((match.start(), match["raw"]))
        return found

    @functools.cached_property
    def includes(self):
        """[(line, opening quote or bracket, name)]"""
        return [
            (self.line_of(match.start()), match[1], match[2])
            for match in INCLUDE.finditer(self.without_comments)
        ]


class Repository:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = {}
        for path in sorted(self._paths(self.root)):
            name = path.relative_to(self.root).as_posix()
            if name.startswith(FACTS):
                continue
            try:
                self.files[name] = SourceFile(name, path.read_text(encoding="utf-8"))
            except UnicodeDecodeError:
                continue  # a picture or an archive

    def _paths(self, folder):
        for path in folder.iterdir():
            if SKIPPED.match(path.name) or path.is_symlink():
                continue
            if path.is_dir():
                yield from self._paths(path)
            else:
                yield path

    def cpp(self, *folders):
        """The C++ files below these top folders, sorted by path."""
        return [
            file
            for path, file in self.files.items()
            if path.split("/")[0] in (folders or CODE_FOLDERS) and path.endswith(CPP_SUFFIXES)
        ]

    def resolve(self, file, name):
        """The path of the file that `#include "name"` in `file` means, or None."""
        beside = file.path.rsplit("/", 1)[0] + "/" + name
        for candidate in ("src/" + name, "sim/install/" + name, name, beside):
            if candidate in self.files:
                return candidate
        return None
