#!/usr/bin/env python3
"""`shardlab run --html`: the page's data, and its drawing in a browser.

    html_page_test.py PROGRAM [--browser]

With --browser the page is opened in headless Chromium; if there is none, the test is skipped (exit
code 77), with a message.
"""

import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from program import Program

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "recordings"
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


MESSAGES = """
[mesh]
pp = 3
[inputs]
x = "f32[3]"
[program]
code = '''
t, got = x.to_local() * 1.0, torch.zeros([3])
if rank > 0:
    dist.recv(got, rank - 1)
if rank < 2:
    dist.send(t, rank + 1)
'''
"""

CIRCLE = """
[mesh]
pp = 3
[inputs]
x = "f32[3]"
[program]
code = '''
got = torch.zeros([3])
dist.recv(got, (rank + 1) % 3)
dist.send(got, (rank + 2) % 3)
'''
"""

SCHEDULE = """
[mesh]
pp = 4
[program]
code = '''
rows = dist.pipeline_schedule("s.csv")
'''
"""

# Three passes forward and backward; the gradient of w is a pending sum.
LOOP = """
title = "steps"
[mesh]
dp = 2
[inputs]
x = "f32[4@dp, 3]"
w = { type = "f32[3, 2]", requires_grad = true }
[program]
code = '''
for i in range(4):
    loss = (x @ w).pow(2).sum()
    backward(loss)
    with no_grad():
        w -= 0.01 * w.grad
'''
"""

# The norm of a piece for that of the whole: 24 elements are wrong.
WRONG = """
title = "one group of two"
[mesh]
ep = 2
tp = 2
[inputs]
g = "f32[4@ep, 6@tp]"
[program]
code = '''
gl = g.to_local()
s = all_reduce(gl.pow(2).sum(), "sum", group="tp")
out = from_local(gl / s.sqrt(), mesh=mesh, ep=S(0), tp=S(1))
'''
"""

DEADLOCK = """
title = "one never comes"
[mesh]
x = 4
[program]
code = '''
if rank < 3:
    barrier()
'''
"""

MANY = "[mesh]\ntp = 2\n[inputs]\nx = \"f32[4@tp]\"\n[program]\ncode = '''\n" + "".join(
    f"name_{i} = x * {i}.0\n" for i in range(70)) + "'''\n"


# [how bright the page is, the lowest contrast of a text, that text]
CONTRAST = """(() => {
  const parts = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
    const c = rgb[i] / 255;
    return sum + weight * (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  }, 0);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const color = parts(getComputedStyle(one).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) return light(color);
    }
    return 1;
  };
  let worst = 21, where = '';
  for (const one of document.querySelectorAll('body *')) {
    if (one.closest('script, style, svg, option')) continue;
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !one.getClientRects().length) continue;
    const text = light(parts(getComputedStyle(one).color)), back = behind(one);
    const contrast = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
    if (contrast < worst) [worst, where] = [contrast, one.outerHTML.slice(0, 200)];
  }
  return [behind(document.body), worst, where];
})()"""


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


def expanded(packed):
    """A list of objects that is sent as columns."""
    rows = [{} for _ in range(packed["count"])]
    for key, column in packed["columns"].items():
        if isinstance(column, dict):
            column = [None if at is None else column["words"][at] for at in column["of"]]
        for row, value in zip(rows, column):
            if value is not None:
                row[key] = value
    return rows


class HtmlPage(Program):
    def page(self, text, *arguments):
        """The page's text."""
        self.fine("run", "--html", "out.html", *arguments, text=text)
        return (self.folder / "out.html").read_text(encoding="utf-8")

    def runs(self, text, *arguments):
        parser = Runs()
        parser.feed(self.page(text, *arguments))
        self.assertEqual(parser.scripts, 2)  # no text of the user's is an element
        runs = json.loads(parser.data)
        for run in runs:
            run.update({key: expanded(run[key]) for key in ("lines", "values", "curve")})
        return runs

    def cut(self, run, name):
        """Of the first cut: each piece is so large, and begins so far from those before it."""
        cut = run["types"][name]["cuts"][0]
        return cut["mesh_dims"], cut.get("each"), cut.get("apart"), cut.get("pieces")

    def test_pieces_are_those_of_uneven_and_empty_shards(self):
        (run,) = self.runs(UNEVEN)
        self.assertEqual(self.cut(run, "f32[7@tp, 3]"), ([1], 2, [2], None))
        self.assertEqual(self.cut(run, "f32[2@tp, 5@dp]"), ([1], 1, [1], None))
        self.assertEqual(run["types"]["f32[3]{sum:tp}"]["partial"],
                         [{"mesh_dim": 1, "placement": "P(sum)"}])

    def test_pieces_without_one_distance_are_listed(self):
        # Two dims cut 7 rows: halves of 4 and 3, quarters of those: [2, 2] and [2, 1].
        (run,) = self.runs("""[mesh]
a = 2
b = 2
[inputs]
x = "f32[7@(a,b)]"
e = "f32[8@(b,a)]"
[program]
code = "y = x * 2.0; f = e * 2.0"
""")
        self.assertEqual(self.cut(run, "f32[7@(a,b)]"), ([0, 1], 2, [4, 2], None))
        # b cuts first: its halves are 4 apart, those of a inside of them 2.
        self.assertEqual(self.cut(run, "f32[8@(b,a)]"), ([0, 1], 2, [2, 4], None))
        (run,) = self.runs("""[mesh]
a = 2
b = 2
[inputs]
x = "f32[9@(a,b)]"
[program]
code = "y = x * 2.0"
""")
        # Halves of 5 and 4 in quarters: 3, 2 and 2, 2.
        self.assertEqual(self.cut(run, "f32[9@(a,b)]"),
                         ([0, 1], None, None, [[[0, 3]], [[3, 2]], [[5, 2]], [[7, 2]]]))

    def test_pieces_on_two_meshes_with_one_text_are_two(self):
        """On ranks 0, 1 and on ranks 3, 2: each has its ranks, and values find their own."""
        (run,) = self.runs('''
[mesh]
w = 4
[program]
code = """
first = DeviceMesh("cpu", [0, 1], mesh_dim_names=("tp",))
second = DeviceMesh("cpu", [3, 2], mesh_dim_names=("tp",), preserve_rank_order=True)
a = distribute_tensor(torch.ones([4, 3]), first, [S(0)])
b = a.redistribute(second, [S(0)])
"""
''')
        types = {name: type.get("ranks") for name, type in run["types"].items()}
        self.assertEqual(types["f32[4@tp, 3] on first"], None)  # ranks 0 and 1
        self.assertEqual(types["f32[4@tp, 3] on second"], [3, 2])
        named = {value["name"]: value["type"] for value in run["values"]}
        self.assertEqual(named, {"a": "f32[4@tp, 3] on first", "b": "f32[4@tp, 3] on second"})

    def test_the_page_of_405b_is_small(self):
        self.fine("run", "--html", "out.html", "llama3/405b")
        self.assertLess((self.folder / "out.html").stat().st_size, 1_000_000)

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

    def drawn(self, page, then="", width=1280, dark=False):
        """The document after its script, and `then`, have run; and the console's messages."""
        path = self.folder / "opened.html"
        path.write_text(page.replace("</body>", f"<script>{then}</script></body>"),
                        encoding="utf-8")
        done = subprocess.run(
            [self.browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
             "--v=0", f"--window-size={width},900", f"--user-data-dir={self.folder}/profile",
             f"--blink-settings=preferredColorScheme={0 if dark else 1}",
             "--dump-dom", path.as_uri()],
            capture_output=True, encoding="utf-8", timeout=50, check=False)
        console = re.findall(r'CONSOLE.*?"(.*)"', done.stderr)
        return done.stdout, console

    def said(self, text, script, width=1280, dark=False):
        """The values of the script's expressions, in the page of a run."""
        then = f"document.body.dataset.said = JSON.stringify({script});"
        document, console = self.drawn(self.page(text), then, width, dark)
        self.assertEqual(console, [])
        told = re.search(r'data-said="([^"]*)"', document)
        self.assertTrue(told, document[-2000:])
        return json.loads(html.unescape(told.group(1)))

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

    def test_texts_can_be_read_by_day_and_by_night(self):
        """The contrast of each text with what is behind it, as WCAG 2 measures and asks for it."""
        wrong = UNEVEN + "[expect]\nw = \"f32[3@tp]\"\n"
        for dark in (False, True):
            back, worst, where = self.said(wrong, CONTRAST, dark=dark)
            self.assertEqual(back < 0.5, dark)
            self.assertGreaterEqual(worst, 4.5, f"{where}, dark: {dark}")

    def test_what_is_wrong_is_said_first(self):
        wrong = UNEVEN + "[expect]\nw = \"f32[3@tp]\"\n"
        document, console = self.drawn(self.page(wrong))
        self.assertEqual(console, [])
        self.has("not as expected", document)
        self.has("not met: w: expected f32[3@tp], got f32[3]", document)

    def test_forward_and_backward_are_parted_in_loops(self):
        stretches = self.said(LOOP, """[...document.querySelectorAll('#order h3')].map((head) =>
          head.textContent + ' ' + [...head.nextSibling.querySelectorAll(':scope > li > a')]
            .map((one) => one.textContent).join(' '))""")
        self.assertIn("backward, by line 12 11", stretches)
        for stretch in stretches:
            name, lines = stretch.split(", by line ")
            self.assertTrue(set(lines.split()) <= {"forward": {"11", "14"},
                                                   "backward": {"11", "12"}}[name], stretch)

    def test_wrong_elements_are_marked_where_they_are_held(self):
        said = self.said(WRONG, """[document.querySelectorAll('#holdings circle.wrong').length,
          document.getElementById('wrong').textContent.split(';')[0],
          [...document.querySelectorAll('button.rank.bad')].map((one) => one.textContent).join(),
          [...document.querySelectorAll('#by-line td')].map((one) => one.textContent)
            .filter((text) => text.includes('each rank holds')).length,
          [...document.querySelectorAll('#value-2 a')].map((one) => one.hash).join(),
          [...document.querySelectorAll('#line-12 a')].map((one) => one.hash).join()]""")
        self.assertEqual(said, [24, "out: 24 elements are wrong, marked", "0,1,2,3", 2,
                                "#line-12", "#value-2"])

    def test_ranks_of_a_deadlock_are_a_table(self):
        said = self.said(DEADLOCK, """[[...document.querySelectorAll('#outcome-list tbody tr')]
          .map((row) => [...row.children].map((cell) => cell.textContent).join('|')),
          document.querySelector('#outcome-list tbody a').hash,
          document.getElementById('error').textContent.split('\\n').length > 3]""")
        self.assertEqual(said, [["0, 1, 2|waits|barrier()|world|1|rank 3|8", "3|ended|||||"],
                                "#line-8", True])

    def test_tables_are_sorted_searched_and_filled_when_asked(self):
        said = self.said(MANY, """(() => {
          const lines = () => [...document.querySelectorAll('#by-line tbody tr')]
            .map((one) => one.id);
          const result = [lines().length];
          document.querySelector('#by-line p button').click();
          result.push(lines().length);
          document.querySelector('#by-line th button').click();
          result.push(lines()[0]);
          document.querySelector('#by-line th button').click();
          result.push(lines()[0]);
          document.dispatchEvent(new KeyboardEvent('keydown', { key: '/' }));
          result.push(document.activeElement.id);
          const box = document.getElementById('search');
          box.value = 'name_63';
          box.dispatchEvent(new Event('input'));
          result.push(lines(), box.nextSibling.textContent);
          return result; })()""")
        self.assertEqual(said, [50, 70, "line-76", "line-7", "search", ["line-70"],
                                "1 line, 1 value"])

    def test_collectives_have_shares_and_are_sorted(self):
        said = self.said(UNEVEN, """(() => {
          const cells = (at) => [...document.querySelectorAll('#collectives tbody tr')]
            .map((row) => row.children[at].textContent);
          const share = [...document.querySelectorAll('#collectives th button')].pop();
          share.click();
          return [cells(0), cells(7), share.parentNode.getAttribute('aria-sort')]; })()""")
        self.assertEqual(said, [["all_reduce"], ["100.0 %"], "descending"])

    def test_windows_scroll_in_one_direction(self):
        for width in (390, 768, 1280, 1920):
            for text in (UNEVEN, LOOP, WRONG, DEADLOCK, MESSAGES):
                wide, room = self.said(
                    text, "[document.documentElement.scrollWidth, innerWidth]", width)
                self.assertLessEqual(room, max(width, 500))  # the least that the browser allows
                self.assertLessEqual(wide, room)

    def test_messages_are_bars_of_each_rank_over_steps(self):
        """A message goes from rank to rank: the last one waits a step longer."""
        said = self.said(MESSAGES, """[[...document.querySelectorAll('#calls rect title')]
          .map((one) => one.textContent.replace(/ \\(.*?\\)/, '')),
          document.querySelectorAll('#calls line.message').length,
          document.querySelectorAll('#calls rect.never').length,
          document.querySelector('#calls a').getAttribute('href')]""")
        self.assertEqual(said, [["send to rank 1", "recv from rank 0", "send to rank 2",
                                 "recv from rank 1, waits", "recv from rank 1"], 2, 0, "#line-12"])

    def test_calls_of_a_deadlock_are_marked_on_all_ranks(self):
        said = self.said(CIRCLE, """[document.querySelectorAll('#calls rect.never').length,
          document.querySelectorAll('#calls line.missing').length,
          document.querySelectorAll('#by-line .move .bad').length]""")
        self.assertEqual(said, [3, 3, 1])

    def test_a_pipeline_schedule_shows_its_bubbles(self):
        """GPipe of 4 stages and 4 microbatches: 2 * 3 of its 14 columns are idle on each rank."""
        (self.folder / "s.csv").write_text("".join(
            ",".join(f"{stage}{kind}{i}" for kind in "FB" for i in range(4)) + "\n"
            for stage in range(4)), encoding="utf-8")
        said = self.said(SCHEDULE, """[document.querySelectorAll('#schedule rect').length,
          document.querySelector('#schedule').nextSibling.textContent]""")
        self.assertEqual(said, [32, "idle, if each computation takes equally long: " + ", ".join(
            f"rank {rank} 43 %" for rank in range(4))])

    def test_a_recording_is_a_tree_of_its_modules(self):
        recording = GOLDEN / "gpt__2.15.0.json.gz"
        self.shardlab("run", str(recording), "--mesh", "tp=2", "--html", "out.html")
        then = """document.body.dataset.said = JSON.stringify([
          [...document.querySelectorAll('#tree > details > summary code, #tree > details > ' +
            'details > summary code')].map((one) => one.textContent),
          document.querySelectorAll('#parameters tbody tr').length,
          [...document.querySelectorAll('#tree summary')].map((one) => one.textContent)
            .filter((text) => text.startsWith('0 to 1 ')).length,
          [...document.querySelectorAll('#by-line code')].some((one) =>
            one.textContent.includes('aten.')),
          [...document.querySelectorAll('table')].filter((one) => one.parentNode.clientWidth > 0 &&
            one.scrollWidth > one.parentNode.clientWidth).length,
          [...document.querySelectorAll('#parameters details td.mono')].every((one) =>
            /^v\\d+$/.test(one.textContent))]);"""
        document, console = self.drawn((self.folder / "out.html").read_text("utf-8"), then)
        self.assertEqual(console, [])
        said = json.loads(html.unescape(re.search(r'data-said="([^"]*)"', document).group(1)))
        modules = ["Gpt", "wte", "wpe", "drop", "h", "0 to 1", "ln_f", "lm_head"]
        self.assertEqual(sorted(said[0]), sorted(modules))
        self.assertEqual(said[2:], [1, False, 0, True])
        self.assertGreater(said[1], 25)

    def test_the_page_of_405b_draws_a_third_of_its_elements(self):
        self.shardlab("run", "--html", "out.html", "llama3/405b")
        page = (self.folder / "out.html").read_text(encoding="utf-8")
        document, console = self.drawn(page)
        self.assertEqual(console, [])
        self.assertLess(document.count("</"), 18_998 // 3)  # that many when all were drawn


if __name__ == "__main__":
    browser = "--browser" in sys.argv
    if browser and Browser.browser is None:
        print(f"skipped: there is none of {', '.join(BROWSERS)}")
        sys.exit(77)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Browser if browser else HtmlPage)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
