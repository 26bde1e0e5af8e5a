"""Comments that open with a clause ("What a rank holds", "By rank") or a code ("none: ") in place
of their subject, sentences in them that open with a clause, and names of tests that do."""

import re

from source import CPP_SUFFIXES, TOKEN, Problem

# Comments of each folder that may open so. The numbers only go down.
MOST = {"src": 0, "backends": 0, "sim": 0, "tests": 0}
# After a file's name, too ("a.h - what ..."); where(x) is a call, /*where*/ a name.
OPENER = re.compile(
    r"(?://+<?|/\*+)\s*(?:[\w.]+ - )?(what|where|that|who)\b(?!\(|\*/)", re.IGNORECASE
)
# A note at the end of a line of code may open so.
BLOCK_OPENER = re.compile(r"//+\s*(Of|By|As|[Nn]one(?=:)|[Nn]ull(?=:)|[Ee]mpty(?=:))\b")
SENTENCE = re.compile(r"\. (What|Where|That|Who)\b")


def openers(file):
    """[(line, word)]. Comments below each other at one column are one."""
    found = []
    before, ended = None, True  # line and column of the last comment; its last sentence has ended
    for match in TOKEN.finditer(file.text):
        if not match["comment"]:
            continue
        column = match.start() - file.text.rfind("\n", 0, match.start())
        line = file.line_of(match.start())
        opener = OPENER.match(match["comment"])
        if not file.text[match.start() - column : match.start()].strip():
            opener = opener or BLOCK_OPENER.match(match["comment"])
        if opener and (ended or before != (line - 1, column)):
            found.append((line, opener[1]))
        found += [(line, sentence[1]) for sentence in SENTENCE.finditer(match["comment"])]
        before, ended = (line, column), match["comment"].rstrip().endswith(".")
    return found


def check_openers(repository):
    suffixes = CPP_SUFFIXES + (".inc",)
    for folder, most in MOST.items():
        found = [
            (path, line, word)
            for path, file in repository.files.items()
            if path.startswith(folder + "/") and path.endswith(suffixes)
            for line, word in openers(file)
        ]
        if len(found) > most:
            for path, line, word in found:
                text = f"a comment opens with {word}; begin with its subject"
                yield Problem(path, line, f"{text} ({len(found)} in {folder}, {most} at most)")


# A name has ids in front: TEST_CASE("B-17 R-2 cuda: what is sent").
TEST_NAME = re.compile(
    r'\b(?:TEST_CASE|SUBCASE|SHARD_TEST)\(\s*"(?:[A-Z]+-\d+ |\w+: )*'
    r"(what|where|that|who|whose|of|by|as)\b(?!\()",
    re.IGNORECASE,
)


def check_test_names(repository):
    for path, file in repository.files.items():
        if not path.startswith("tests/") or not path.endswith(".cpp"):
            continue
        for name in TEST_NAME.finditer(file.text):
            text = f"the name of a test opens with {name[1]}; begin with its subject"
            yield Problem(path, file.line_of(name.start()), text)


CHECKS = (check_openers, check_test_names)
