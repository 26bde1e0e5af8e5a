"""Words and calls that do not belong in the code, line length, paths of one machine."""

import re

from source import CPP_SUFFIXES, Problem

THREAD_LOCAL_HOME = (
    "src/base/rank_context.cpp",
    "src/base/rank_context.h",
    "src/dispatch/placed_sizes.cpp",  # a pure function remembered, no state of a rank
)

# Files that may read a clock or wait, each with its reason.
CLOCK_ALLOWED = {
    "tests/nccl/double/deadline.h": "a wait that nothing ends is reported",
    "tests/nccl/double/deadline.cpp": "a wait that nothing ends is reported",
    "backends/shared/patience.cpp": "waits for other processes and devices",
    "backends/shared/patience.h": "the same",
    "backends/mpi/communicator.cpp": "waits for other processes, and asks after their health",
    "backends/process/control_channel.cpp": "waits for other processes up to a stated time",
    "backends/process/control_channel.h": "the same",
    "backends/process/places.cpp": "says when a rank failed, for torchrun",
    "backends/nccl/turns.cpp": "tells the others that a rank waits",
    "sim/edit/stopwatch.h": "what a test took, for CI systems",
    "sim/cli/run_command.cpp": "waits until a file changes",
    "backends/process/last_resort.cpp": "ends a process that waits inside of MPI",
    "tests/mpi/faulty_program.cpp": "a rank that falls silent, or is late",
    "tests/nccl/launches_test.cpp": "a launch that does not return",
    "tests/mpi/killed.cpp": "says when it learned of a failure",
    "tests/mpi/ways.cpp": "the same, and a rank sleeps",
    "tests/conformance/collectives_test.cpp": "a rank comes late",
    "tests/unit/process/control_channel_test.cpp": "a rank judges for longer than the patience",
    "backends/nccl/lookout.cpp": "a rank inside of a launch is looked after now and then",
    "backends/mpi/operation.cpp": "a rank that waits too long says for whom",
    "backends/process/rendezvous.cpp": "processes that never come are named after a stated time",
    "backends/process/socket.cpp": "the same",
    "backends/process/socket.h": "the same",
}

CLOCK = re.compile(
    r"\b(sleep_for|sleep_until|sleep|usleep|nanosleep|wait_for|wait_until|steady_clock"
    r"|system_clock|high_resolution_clock|clock_gettime|gettimeofday)\b|\b(?:std::)?time\s*\("
    r"\s*(?:NULL|nullptr|0)\s*\)|\bclock\s*\(\s*\)"
)
BANNED = {
    # The C library's rand() takes nothing; ours takes a shape.
    re.compile(r"(?<![\w.>:])(?:std::)?(?:srand\s*\(|rand\s*\(\s*\))"): (
        "unseeded randomness; draw by element index"
    ),
    re.compile(r"\brandom_device\b"): "unseeded randomness; take a seed",
    re.compile(r"(?<![\w.>])(?:std::)?system\s*\("): "starts a shell",
    re.compile(r"\bstd::(?:ranges::)?views::"): (
        "does not compile with clang 13 to 15 on libstdc++; write a loop"
    ),
    re.compile(
        r"\bstd::ranges::(?:rotate|(?:stable_)?partition|remove(?:_if)?|unique|search"
        r"|equal_range|find_end)\s*\("
    ): "returns a subrange, which clang 13 to 15 does not compile; take the one of iterators",
}

# From a JSON number with a fraction, or one too large, nlohmann makes some integer, or none that is
# defined.
INTEGER = r"(?:int|std::size_t|std::u?int\d+_t)"
CUT_NUMBER = re.compile(
    rf"\.get<(?:{INTEGER}|std::vector<{INTEGER}>)>\(\)"
    rf"|\.value\(\s*\"[^\"]*\",\s*(?:\d|{INTEGER}[{{(])"
)
JSON_READERS = ("tests/facts/", "sim/recording/", "sim/cli/", "sim/replay/", "sim/report/")

# Features that only some systems have are in small files, which have a side for each system.
OF_ONE_SYSTEM = {
    "src/base/program_path.cpp": "the file of the program",
    "src/base/read_real.cpp": "a standard library without decimal numbers",
    "backends/process/stream_socket.cpp": "sockets",
    "src/base/kept_memory.cpp": "a setting of a C library's memory",
    "sim/schedule/exception_state.cpp": "a C++ runtime that does not declare all of its ABI",
    "sim/schedule/stack_map.cpp": "memory for stacks",
    "sim/schedule/stack_map.h": "the same",
    "backends/nccl/errand.cpp": "the end of a program whose libraries wait for a thread",
    "tests/nccl/launches_test.cpp": "NCCL is for Linux",
    "sim/doctor/system_texts.cpp": "what a system tells of itself",
    "tests/bench/vector_library_floor.cpp": "functions of vectors in a C library",
    "tests/nccl/double/region.cpp": "NCCL is for Linux, its double as well",
}
SYSTEM = re.compile(
    r"\b(epoll_\w+|eventfd|signalfd|timerfd_\w+|inotify_\w+|futex|memfd_create|pidfd_\w+|syscall"
    r"|prctl|accept4|pipe2|dup3|SOCK_CLOEXEC|SOCK_NONBLOCK|MSG_NOSIGNAL|MAP_STACK|MAP_POPULATE"
    r"|sched_[gs]etaffinity|CPU_SET|gettid|getrandom|getauxval|mallinfo2?|malloc_trim|secure_getenv"
    r"|program_invocation_\w+|pthread_getattr_np|pthread_setname_np|__rlimit_resource|__APPLE__"
    r"|__linux__|_LIBCPP_VERSION|_LIBCPPABI_VERSION|__cxa_get_globals|__GLIBC__)\b"
)
SYSTEM_FILE = re.compile(r"^/proc/self/exe")
SYSTEM_HEADER = re.compile(
    r"^(linux/|mach|malloc\.h|sys/(eventfd|epoll|prctl|sysctl|sysinfo|auxv|random)\.h)"
)

LOCAL_STATE = re.compile(r"\b(thread_local|__thread)\b")

TOP_FOLDERS = ("src", "sim", "backends", "tests", "scenarios")

BACKENDS = ("threads", "fake", "mpi", "nccl")
BACKEND_NOUNS = {"backend", "communicator", "device", "world", "group"}
IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b.*", re.MULTILINE)
BACKEND_MACRO = re.compile(r"(?:^|[^A-Z])(NCCL|MPI|CUDA|CUDACC|THREADS|FAKE)(?![A-Z])")

# An open end states its condition after a colon.
OPEN_END = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b(?!: \S.{9,})")
MACHINE_PATH = re.compile(r"(?<![\w.})$<*-])/(?:work|root|tmp)(?:/|\b)(?!\.)")
PAGE = re.compile(r"\b([\w/]+\.md)\b")
MAX_COLUMNS = 100
WRAPPED = CPP_SUFFIXES + (".py", ".sh", ".build", "meson_options.txt", "/run")


def matches(file, text, pattern):
    for match in pattern.finditer(text):
        yield file.line_of(match.start()), match


def check_clocks(repository):
    for file in repository.cpp():
        if file.path in CLOCK_ALLOWED or file.path.startswith("tests/bench/"):
            continue
        for line, match in matches(file, file.code, CLOCK):
            yield Problem(file.path, line, f"{match[0]}: no clocks or sleeps outside of sim/clock")


def check_banned(repository):
    for file in repository.cpp():
        for pattern, why in BANNED.items():
            for line, match in matches(file, file.code, pattern):
                yield Problem(file.path, line, f"{match[0].strip()}: {why}")


def check_json_integers(repository):
    for file in repository.cpp():
        if file.path.startswith(JSON_READERS):
            for line, match in matches(file, file.code, CUT_NUMBER):
                yield Problem(file.path, line, f"{match[0]}: take integers by integer_of()")


def check_thread_local(repository):
    for file in repository.cpp():
        if file.path not in THREAD_LOCAL_HOME:
            for line, match in matches(file, file.code, LOCAL_STATE):
                yield Problem(file.path, line, f"{match[0]}: only {THREAD_LOCAL_HOME[0]} has one")


def check_systems(repository):
    """Calls, headers and names that only one system has are in a file of their own."""
    for file in repository.cpp():
        if file.path in OF_ONE_SYSTEM:
            continue
        found = [(line, match[0]) for line, match in matches(file, file.code, SYSTEM)]
        found += [(line, f"<{name}>") for line, _, name in file.includes
                  if SYSTEM_HEADER.match(name)]
        found += [(file.line_of(position), text) for position, text in file.strings
                  if SYSTEM_FILE.match(text)]
        for line, what in found:
            yield Problem(file.path, line, f"{what}: not on every system; see OF_ONE_SYSTEM")


def names_backend(text):
    """The backend that an identifier or a string names, or None.

    "threads" is also a plain word (num_threads): it counts alone or with a noun of the door.
    """
    if text in BACKENDS:
        return text
    words = [word.lower() for word in WORD.findall(text.replace("fake_quantize", "quantize"))]
    for backend in BACKENDS:  # fake_quantize_per_tensor_affine is an op
        if backend in words and (backend != "threads" or BACKEND_NOUNS.intersection(words)):
            return backend
    return None


def check_backend_names(repository):
    """src knows nothing of a backend but the doors."""
    for file in repository.cpp("src"):
        found = [(match.start(), match[0]) for match in IDENTIFIER.finditer(file.code)]
        # A local variable may be called threads; a namespace or a string of that name may not.
        found = [
            (position, name)
            for position, name in found
            if name != "threads" or file.code[position + len(name) :].startswith("::")
        ]
        for position, name in found + file.strings:
            backend = names_backend(name)
            if backend:
                line = file.line_of(position)
                yield Problem(file.path, line, f"names the backend {backend} ({name})")
        for line, match in matches(file, file.code, CONDITIONAL):
            if BACKEND_MACRO.search(match[0]):
                yield Problem(file.path, line, f"asks for a backend: {match[0].strip()}")


def check_open_ends(repository):
    for file in repository.files.values():
        for line, match in matches(file, file.text, OPEN_END):
            yield Problem(file.path, line, f"{match[0]} without a reason")


def check_machine_paths(repository):
    for file in repository.files.values():
        for line, match in matches(file, file.text, MACHINE_PATH):
            yield Problem(file.path, line, f"{match[0]}: a path of one machine")


def check_pages(repository):
    """A comment may call a page by the end of its path, but there has to be such a page."""
    pages = [path for path in repository.files if path.endswith(".md")]
    for file in repository.cpp():
        for line, match in matches(file, file.text, PAGE):
            ends = any(("/" + page).endswith("/" + match[1]) for page in pages)
            if not ends and not (repository.root / match[1]).exists():
                yield Problem(file.path, line, f"there is no page {match[1]}")


def check_columns(repository):
    for file in repository.files.values():
        if file.path.endswith(WRAPPED):
            for number, text in enumerate(file.text.splitlines(), 1):
                if len(text) > MAX_COLUMNS:
                    yield Problem(file.path, number, f"{len(text)} columns of {MAX_COLUMNS}")


def check_top_level(repository):
    """The folders at the top are fixed; dotfolders belong to tools."""
    for path in repository.files:
        first, below, _ = path.partition("/")
        if below and not first.startswith(".") and first not in TOP_FOLDERS:
            yield Problem(path, 0, f"the top level has no folder {first}")


def check_scenarios_listed(repository):
    """Each scenario is a test: scenarios/meson.build lists it, or installs its whole folder."""
    listing = repository.files.get("scenarios/meson.build")
    listed = set(re.findall(r"'([^']+\.toml)'", listing.text)) if listing else set()
    folders = re.findall(r"install_subdir\('([^']+)'", listing.text) if listing else []
    for path in repository.files:
        name = path.removeprefix("scenarios/")
        if path.startswith("scenarios/") and path.endswith(".toml") and name not in listed:
            if name.split("/")[0] in folders:
                continue
            yield Problem(path, 1, "scenarios/meson.build does not list it")


SPACE = re.compile(r"(?:inline )?namespace ?([\w:]*) ?\{$")
TYPE = re.compile(r"(?:class|struct) (?:alignas\(\d+\) )?(\w+)(?: final)?(?: :[^:;{][^;{]*)? \{")


def check_types_once(repository):
    """For the linker two types of one name are one: it takes the destructor of either."""
    places = {}
    for file in repository.cpp("src", "sim", "backends"):
        spaces = []
        for number, line in enumerate(file.text.splitlines(), 1):
            if opened := SPACE.match(line):
                spaces.append(opened[1])
            elif line.startswith("}  // namespace"):
                spaces = spaces[:-1]
            elif file.path.endswith(".h") and (found := TYPE.match(line)):
                name = "::".join([*spaces, found[1]])
                first = places.setdefault(name, file.path)
                if first != file.path:
                    yield Problem(file.path, number, f"{name} is a type of {first}, too")


CHECKS = (
    check_types_once,
    check_clocks,
    check_banned,
    check_json_integers,
    check_thread_local,
    check_backend_names,
    check_systems,
    check_open_ends,
    check_machine_paths,
    check_pages,
    check_columns,
    check_scenarios_listed,
    check_top_level,
)
