#!/usr/bin/env python3
"""What the language accepts parses in Python 3, to the tree that the parser printed.

Reads the snippets that parser_test.cpp reads: each is followed by the fully parenthesised form the
parser must print. Here Python says whether both mean the same. Snippets marked "refused" are Python
outside of the subset.
"""
import ast
import pathlib
import sys

text = pathlib.Path(sys.argv[1]).read_text()
text = text[text.index("\n") + 1 : text.rindex(')snippets"')]
failed = 0
blocks = text.split("----\n")


def tree(source):
    """The tree of a text, or None where Python refuses it."""
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return None


for block in blocks:
    snippet, printed = block.split("=>\n")
    wanted = tree(snippet)
    if wanted is None or (printed != "refused\n" and tree(printed) != wanted):
        failed += 1
        print("Python does not agree:\n" + block)
print(f"{len(blocks)} snippets, {failed} failed")
sys.exit(1 if failed or len(blocks) < 30 else 0)
