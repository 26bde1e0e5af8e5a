"""The law of includes, and files that nothing includes or builds."""

import collections
import pathlib
import re

from source import Problem


def read_law(page):
    """{folder: what it may include, besides what these may include}, from the page's table. There
    `mesh` means src/mesh, sim/mesh or backends/mesh, depending on which is a row."""
    rows = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([^|]+) \|$", page, re.MULTILINE))
    tops = ("src/", "sim/", "backends/", "")

    def meant(name):
        found = [top + name for top in tops if top + name in rows]
        if len(found) != 1:
            raise SystemExit(f"src/README.md: {len(found)} folders are called {name}")
        return found[0]

    return {
        folder: [meant(name) for name in known.split(", ") if name != "–"]
        for folder, known in rows.items()
    }


LAW = read_law((pathlib.Path(__file__).parents[2] / "src/README.md").read_text(encoding="utf-8"))

# Libraries that stay out of the headers of these folders: users of such a header would need the
# library, too.
PURE_HEADERS = ("mesh", "schema", "plan", "comm", "ops", "propagate", "redistribute")
HEAVY = re.compile(r"^(Eigen/|unsupported/Eigen|cuda|cublas|curand|mpi\.h|nccl)")

# Contracts that exist before their first user; removed from here as soon as they have one.
AHEAD = {"src/base/scheduler.h"}

# Written into the build folder by scripts.
GENERATED = {"api/tensor_ops.inc", "ops/aliases.inc", "ops/torch_spellings.inc",
             "sim/cli/commands.inc", "sim/doctor/packages.inc", "sim/language/absent_names.inc",
             "sim/report/run_page.inc"}

# Circles that are known.
CIRCLES = "tests/tidy/circles.txt"

LISTED = re.compile(r"'([^'\n]+\.(?:cpp|cu|h))'")  # a header: the precompiled one
FILES_BLOCK = re.compile(r"\bfiles\(([^()]*)\)")
# A batch of the top meson.build: one entry of a list of batches, or a list of small rooms.
BATCHES = re.compile(r"(\w+_batches) \+?= \[(.*?)\n\s*\]", re.DOTALL)
BATCH = re.compile(r"(?:files\([^()]*\)\s*\+?\s*)+")
SHARED_BATCH = re.compile(r"(\w+_(?:rooms|backends)) \+= ((?:files\([^()]*\)\s*\+?\s*)+)")
MAX_BATCH_LINES = 5000


def place_of(path):
    """The room of a file, or its wing in a room that has wings: src/mesh, src/ops/nn."""
    folder = path.rpartition("/")[0]
    room = "/".join(folder.split("/")[:2])
    return folder if any(row.startswith(room + "/") for row in LAW) else room


def row_of(place):
    return place if place in LAW else place.rpartition("/")[0] + "/*"


def known_by(row):
    """All rows that a row of the law may include, itself among them."""
    known, left = set(), [row]
    while left:
        current = left.pop()
        if current not in known:
            known.add(current)
            left += LAW[current]
    return known


def check_law(repository):
    """Every include is of a lower row of the table of design; an unlisted folder has no row yet."""
    for file in repository.cpp("src", "sim", "backends"):
        own = place_of(file.path)
        if row_of(own) not in LAW:
            yield Problem(file.path, 0, f"{own} has no row in the include law")
            continue
        known = known_by(row_of(own))
        for line, _, name in file.includes:
            target = repository.resolve(file, name)
            if target is None:
                continue
            place = place_of(target)
            row = row_of(place)
            # One backend or wing is not another, though both have one row.
            both = row.endswith("*") and row_of(own) == row
            allowed = place == own if both else row in known
            if not allowed:
                yield Problem(file.path, line, f"{own} may not include {place} ({name})")


def reached(start, next_of):
    """All that is reached from `start`, which is among it only where a circle leads back."""
    found, left = set(), list(next_of(start))
    while left:
        current = left.pop()
        if current not in found:
            found.add(current)
            left += next_of(current)
    return found


def circles(repository):
    """Sources of one folder that need each other: a source and its header are one, and a header
    without a source is a part of each file that includes it. Lines `folder: name name`."""
    included, sources = collections.defaultdict(set), set()
    for file in repository.cpp("src", "sim", "backends"):
        own = file.path.rpartition(".")[0]
        if not file.path.endswith(".h"):
            sources.add(own)
        targets = (repository.resolve(file, name) for _, _, name in file.includes)
        units = {target.rpartition(".")[0] for target in targets if target}
        included[own] |= {unit for unit in units if place_of(unit) == place_of(own)}

    def needs(own):
        def opened(unit):
            return included[unit] if unit == own or unit not in sources else ()

        return reached(own, opened) & sources - {own}

    needed = {own: needs(own) for own in sources}
    behind = {own: reached(own, needed.get) for own in sources}
    found = set()
    for own in sources:
        around = sorted(other for other in behind[own] if own in behind[other])
        if around:
            names = " ".join(unit.rpartition("/")[2] for unit in around)
            found.add(f"{place_of(own)}: {names}")
    return sorted(found)


def check_circles(repository):
    """No circle but those of the list, and none of the list that is open by now."""
    listed = repository.files.get(CIRCLES)
    known = [line for line in (listed.text.splitlines() if listed else []) if line[:1] not in "#"]
    found = circles(repository)
    for circle in found:
        if circle not in known:
            yield Problem(CIRCLES, 0, f"sources that need each other are not listed: {circle}")
    for circle in known:
        if circle not in found:
            yield Problem(CIRCLES, 0, f"no circle any more, or a smaller one: {circle}")


def check_found(repository):
    """A quoted include is a file of this repository."""
    for file in repository.cpp():
        for line, quote, name in file.includes:
            if quote == '"' and name not in GENERATED and repository.resolve(file, name) is None:
                yield Problem(file.path, line, f'no file "{name}" here; other libraries take <>')


def check_pure_headers(repository):
    for file in repository.cpp("src"):
        if file.path.endswith(".h") and file.folder.split("/")[1] in PURE_HEADERS:
            for line, _, name in file.includes:
                if HEAVY.match(name):
                    yield Problem(file.path, line, f"<{name}> does not belong in this header")


def check_dead_files(repository):
    """Every source is built, every header is included."""
    built = set()
    for path, file in repository.files.items():
        if path.endswith("meson.build"):
            folder = path[: -len("meson.build")]
            built |= {folder + name for name in LISTED.findall(file.text)}
    included = set()
    for file in repository.cpp():
        targets = (repository.resolve(file, name) for _, _, name in file.includes)
        included |= {target for target in targets if target != file.path}
    for file in repository.cpp():
        if file.path.endswith(".h"):
            if file.path not in included | built | AHEAD:
                yield Problem(file.path, 0, "nothing includes this header")
        elif file.path not in built:
            yield Problem(file.path, 0, "no meson.build lists this file")


def check_sorted_sources(repository):
    for path, file in repository.files.items():
        if not path.endswith("meson.build"):
            continue
        for block in FILES_BLOCK.finditer(file.text):
            names = LISTED.findall(block[1])
            for before, after in zip(names, names[1:]):
                if before > after:
                    line = file.line_of(block.start())
                    yield Problem(path, line, f"'{after}' belongs before '{before}'")


def check_batches(repository):
    """No call of the compiler reads more lines of sources than that: an edit waits for all."""
    lines, places = collections.Counter(), {}
    for path, file in repository.files.items():
        if not path.endswith("meson.build"):
            continue
        folder = path.rpartition("/")[0]
        found = [(match[1], match.start(), match[2]) for match in SHARED_BATCH.finditer(file.text)]
        for batches in BATCHES.finditer(file.text):
            for batch in BATCH.finditer(batches[2]):
                place = batches.start(2) + batch.start()
                found.append((f"{path}:{place}", place, batch[0]))
        for name, place, text in found:
            for source in LISTED.findall(text):
                known = repository.files.get(f"{folder}/{source}")
                lines[name] += known.text.count("\n") if known else 0
            places.setdefault(name, (path, file.line_of(place)))
    for name, count in lines.items():
        if count > MAX_BATCH_LINES:
            text = f"a batch of {count} lines, {MAX_BATCH_LINES} is the most"
            yield Problem(*places[name], text)


CHECKS = (
    check_law,
    check_batches,
    check_circles,
    check_found,
    check_pure_headers,
    check_dead_files,
    check_sorted_sources,
)
