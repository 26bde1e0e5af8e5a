#!/usr/bin/env python3
"""verify_facts.py fails on a missing, an empty, an unlisted and a changed file."""

import hashlib
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import verify_facts  # noqa: E402  (the path comes first)


class VerifyFacts(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        (self.folder / "layout").mkdir()
        (self.folder / "layout" / "a.gz").write_bytes(b"facts")
        checksum = hashlib.sha256(b"facts").hexdigest()
        (self.folder / "SHA256SUMS").write_text(f"{checksum}  layout/a.gz\n")

    def test_an_agreeing_folder_has_no_problem(self):
        self.assertEqual(verify_facts.problems_of(self.folder), [])

    def test_a_missing_file(self):
        (self.folder / "layout" / "a.gz").unlink()
        self.assertEqual(verify_facts.problems_of(self.folder), ["layout/a.gz: missing"])

    def test_an_empty_file(self):
        (self.folder / "layout" / "a.gz").write_bytes(b"")
        self.assertEqual(verify_facts.problems_of(self.folder), ["layout/a.gz: empty"])

    def test_a_changed_file(self):
        (self.folder / "layout" / "a.gz").write_bytes(b"facta")
        self.assertEqual(verify_facts.problems_of(self.folder), ["layout/a.gz: checksum differs"])

    def test_an_unlisted_file(self):
        (self.folder / "b.gz").write_bytes(b"more")
        self.assertEqual(verify_facts.problems_of(self.folder), ["b.gz: not in SHA256SUMS"])

    def test_a_missing_or_empty_list(self):
        (self.folder / "SHA256SUMS").write_text("")
        self.assertIn("SHA256SUMS: lists no file", verify_facts.problems_of(self.folder)[0])
        (self.folder / "SHA256SUMS").unlink()
        self.assertIn("SHA256SUMS: missing", verify_facts.problems_of(self.folder)[0])


if __name__ == "__main__":
    unittest.main()
