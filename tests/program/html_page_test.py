#!/usr/bin/env python3
"""`shardlab run --html`: the page's data, and its drawing in a browser.

    html_page_test.py PROGRAM [--browser]

With --browser the page is opened in headless Chromium; if there is none, the test is skipped (exit
code 77), with a message.
"""

import html.parser
import json
import re
import shutil
import subprocess
import sys
import unittest

from program import Program

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# 7 rows over 4 ranks: pieces of 2, 2, 2 and 1 row; 2 rows: two ranks hold nothing.
UNEVEN = """
title = "uneven </script><b>rows</b>"
[mesh]
dp = 2
tp = 4
[inputs]
x = "f32[7@tp, 3]"
z = "f32[2@tp, 5@dp]"
[program]
code = '''
s = x.sum(dim=0)
w = s.redistribute(tp=R)
for i in range(3):
    y = x * 2.0
    y = y + x
v = z * 3.0
assert "</script>" != "<!--"
'''
"""


class Runs(html.parser.HTMLParser):
    """The text of the element with the runs, and how many script elements there are."""

    def __init__(self):
        super().__init__()
        self.data, self.scripts, self.inside = "", 0, False

    def handle_starttag(self, tag, attrs):
        if tag == "script":
            self.scripts += 1
            self.inside = dict(attrs).get("id") == "runs"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.data += data


class HtmlPage(Program):
    def page(self, text, *arguments):
        """The page's text."""
        self.fine("run", "--html", "out.html", *arguments, text=text)
        return (self.folder / "out.html").read_text(encoding="utf-8")

    def runs(self, text, *arguments):
        parser = Runs()
        parser.feed(self.page(text, *arguments))
        self.assertEqual(parser.scripts, 2)  # no text of the user's is an element
        return json.loads(parser.data)

    def cuts(self, run, name):
        return {cut["tensor_dim"]: (cut["mesh_dims"], cut["pieces"])
                for cut in run["types"][name]["cuts"]}

    def test_pieces_are_those_of_uneven_and_empty_shards(self):
        (run,) = self.runs(UNEVEN)
        self.assertEqual(self.cuts(run, "f32[7@tp, 3]"),
                         {0: ([1], [[[0, 2]], [[2, 2]], [[4, 2]], [[6, 1]]])})
        self.assertEqual(self.cuts(run, "f32[2@tp, 5@dp]"),
                         {0: ([1], [[[0, 1]], [[1, 1]], [], []]), 1: ([0], [[[0, 3]], [[3, 2]]])})
        self.assertEqual(run["types"]["f32[3]{sum:tp}"]["partial"],
                         [{"mesh_dim": 1, "placement": "P(sum)"}])

    def test_the_facts_are_those_of_json(self):
        (run,) = self.runs(UNEVEN)
        facts = json.loads(self.fine("run", "--json", "t.toml"))
        for key, value in facts.items():
            if key != "events":
                self.assertEqual(run[key], value, key)
        self.assertEqual(run["text"], self.fine("run", "t.toml"))

    def test_points_of_a_matrix_are_runs_of_one_page(self):
        runs = self.runs(UNEVEN + "[matrix]\n\"mesh.tp\" = [2, 3]\n")
        self.assertEqual([run["mesh_dims"][1]["size"] for run in runs], [2, 3])

    def test_many_ranks_need_no_more_space(self):
        few = len(self.page(UNEVEN, "--backend", "fake", "--set", "mesh.dp=2"))
        many = len(self.page(UNEVEN, "--backend", "fake", "--set", "mesh.dp=4096"))
        self.assertLess(many, few + 200_000)

    def test_a_path_that_cannot_be_written_is_refused(self):
        code, _, errors = self.shardlab("run", "--html", "no/such/out.html", text=UNEVEN)
        self.assertEqual(code, 2, errors)
        self.assertIn("no/such/out.html cannot be written", errors)


class Browser(Program):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)

    def drawn(self, page, then=""):
        """The document after its script, and `then`, have run; and the console's messages."""
        path = self.folder / "opened.html"
        path.write_text(page.replace("</body>", f"<script>{then}</script></body>"),
                        encoding="utf-8")
        done = subprocess.run(
            [self.browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
             "--v=0", f"--user-data-dir={self.folder}/profile", "--dump-dom", path.as_uri()],
            capture_output=True, encoding="utf-8", timeout=50, check=False)
        console = re.findall(r'CONSOLE.*?"(.*)"', done.stderr)
        return done.stdout, console

    def page(self, text):
        self.shardlab("run", "--html", "out.html", text=text)
        return (self.folder / "out.html").read_text(encoding="utf-8")

    def has(self, text, document):
        self.assertTrue(text in document, f"{text!r} is not in the document")

    def test_the_page_draws_itself_and_answers_the_keyboard(self):
        then = """
          document.getElementById('type').value = 'f32[2@tp, 5@dp]';
          document.getElementById('type').dispatchEvent(new Event('change'));
          const ranks = [...document.querySelectorAll('button.rank')];
          ranks[4].focus();
          const said = [document.getElementById('held').textContent];
          ranks[7].focus();
          said.push(document.getElementById('held').textContent);
          const reached = [...document.querySelectorAll('[title="who holds what"]')]
            .every((one) => one.tagName === 'BUTTON' && one.tabIndex === 0);
          document.body.dataset.said = said.join('|') + '|' + ranks.length + '|' + reached;
        """
        document, console = self.drawn(self.page(UNEVEN), then)
        self.assertEqual(console, [])
        self.has('data-drawn="yes"', document)
        self.has("rank 4 (dp 1, tp 0) holds [0:1, 3:5], 1 x 2, 8 B|"
                 "rank 7 (dp 1, tp 3) holds [nothing, 3:5], 0 x 2, 0 B: it is empty|8|true",
                 document)
        self.has("uneven &lt;/script&gt;&lt;b&gt;rows&lt;/b&gt;</h1>", document)
        self.has("3 times", document)
        self.has("bytes that a rank holds over the program", document)
        self.has("forward: ", document)

    def test_what_is_wrong_is_said_first(self):
        wrong = UNEVEN + "[expect]\nw = \"f32[3@tp]\"\n"
        document, console = self.drawn(self.page(wrong))
        self.assertEqual(console, [])
        self.has("not as expected", document)
        self.has("not met: w: expected f32[3@tp], got f32[3]", document)


if __name__ == "__main__":
    browser = "--browser" in sys.argv
    if browser and Browser.browser is None:
        print(f"skipped: there is none of {', '.join(BROWSERS)}")
        sys.exit(77)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Browser if browser else HtmlPage)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
