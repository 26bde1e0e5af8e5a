"""Who may include whom, and files that nothing includes or builds."""

import re

from source import Problem

# The law: each folder may include itself, those on its right, and what they may include.
# A test may include anything. backends/* stands for each folder below it without a row of its own.
LAW = {
    "src/base": [],
    "src/tensor": ["src/base"],
    "src/kernels": ["src/tensor"],
    "src/mesh": ["src/tensor"],
    "src/schema": ["src/mesh"],
    "src/plan": ["src/mesh"],
    "src/comm": ["src/mesh"],
    "src/ops": ["src/schema", "src/kernels"],
    "src/propagate": ["src/ops", "src/plan"],
    "src/redistribute": ["src/plan", "src/comm", "src/kernels"],
    "src/dispatch": ["src/propagate", "src/redistribute"],
    "src/autograd": ["src/dispatch"],
    "src/trace": ["src/autograd"],
    "src/api": ["src/trace"],
    "backends/shared": ["src/comm", "src/tensor", "src/kernels"],
    "backends/process": ["backends/shared"],
    "backends/*": ["backends/process"],
    "sim/schedule": ["src/base"],
    "sim/world": ["sim/schedule", "src/api", "backends/*"],
    "sim/record": ["src/schema", "src/plan", "src/comm"],
    "sim/language": ["sim/world"],
    "sim/scenario": ["sim/language"],
    "sim/run": ["sim/scenario", "sim/record"],
    "sim/capture": ["sim/run"],
    "sim/verify": ["sim/run"],
    "sim/judge": ["sim/verify", "sim/capture"],
    "sim/report": ["sim/judge"],
    "sim/recorded": ["sim/verify", "sim/capture"],
    "sim/testing": ["sim/verify"],
    "sim/proof": ["sim/verify"],
    "sim/doctor": ["sim/report"],
    "sim/install": ["sim/testing", "sim/judge"],
    "sim/cli": ["sim/report", "sim/recorded", "sim/doctor", "sim/capture", "sim/proof"],
}

# Libraries that stay out of the headers of these folders: whoever includes such a header would
# need the library, too.
PURE_HEADERS = ("mesh", "schema", "plan", "comm", "ops", "propagate", "redistribute")
HEAVY = re.compile(r"^(Eigen/|unsupported/Eigen|cuda|cublas|curand|mpi\.h|nccl)")

# Contracts that stand before their first user does; gone from here as soon as they have one.
AHEAD = {"src/base/scheduler.h"}

LISTED = re.compile(r"'([^'\n]+\.(?:cpp|cu|h))'")  # a header: the precompiled one
FILES_BLOCK = re.compile(r"\bfiles\(([^()]*)\)")


def row_of(folder):
    own = folder in LAW or not folder.startswith("backends/")
    return folder if own else "backends/*"


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
    """Every include goes down the table of design; an unlisted folder has no row yet."""
    for file in repository.cpp("src", "sim", "backends"):
        if row_of(file.folder) not in LAW:
            yield Problem(file.path, 0, f"{file.folder} has no row in the include law")
            continue
        known = known_by(row_of(file.folder))
        for line, _, name in file.includes:
            target = repository.resolve(file, name)
            if target is None:
                continue
            folder = repository.files[target].folder
            row = row_of(folder)
            # One backend is not another, though both have one row.
            both = row == "backends/*" and row_of(file.folder) == row
            allowed = folder == file.folder if both else row in known
            if not allowed:
                yield Problem(file.path, line, f"{file.folder} may not include {folder} ({name})")


def check_found(repository):
    """A quoted include is a file of this repository."""
    for file in repository.cpp():
        for line, quote, name in file.includes:
            if quote == '"' and repository.resolve(file, name) is None:
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


CHECKS = (
    check_law,
    check_found,
    check_pure_headers,
    check_dead_files,
    check_sorted_sources,
)
