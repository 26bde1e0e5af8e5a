# The command, and the processes of its ranks: all that PyTorch is not needed for.


LINE = "SHARDLAB_LINE"  # of a rank to its job: the number of a socket
TO_ONE = ("send", "recv", "isend", "irecv", "send_object_list", "recv_object_list")


class _Job:
    """Processes of one command, as torchrun starts them. With lines each hears that it is to end,
    also by the end of this process, and says how it has ended."""

    MOMENT = 1.0  # seconds in which the others may find out by themselves that one has failed
    STEP = 6.0  # until they are ended, and until they are killed

    def __init__(self, command, world, lines=False, **more):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            met = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
        self.running, self.lines = [], []
        for rank in range(world):
            env = {**os.environ, **met, **_of_rank(rank, world)}
            if lines:
                ours, theirs = socket.socketpair()
                self.lines.append(ours)
                env[LINE] = str(theirs.fileno())
                # Ctrl-C is the job's: it tells the ranks.
                more.update(pass_fds=[theirs.fileno()], start_new_session=True)
            self.running.append(subprocess.Popen(command, env=env, **more))
            if lines:
                theirs.close()

    def wait(self):
        """The code of the first that fails; the others are ended."""
        before = signal.signal(signal.SIGTERM, self.interrupted)
        try:
            return self.watch()
        except KeyboardInterrupt:
            for one in self.running:
                one.kill()
            raise
        finally:
            signal.signal(signal.SIGTERM, before)

    @staticmethod
    def interrupted(number, frame):
        raise KeyboardInterrupt(number)

    def watch(self):
        code, ends = 0, [math.inf] * 3
        acts = [self.hang_up, subprocess.Popen.terminate, subprocess.Popen.kill]
        while None in [one.poll() for one in self.running]:
            time.sleep(0.05)
            code = code or next((one.returncode for one in self.running if one.returncode), 0)
            if code and ends[0] == math.inf:
                begin = time.monotonic() + (self.MOMENT if self.lines else 0)
                ends = [begin, begin + (self.STEP if self.lines else 0), begin + 2 * self.STEP]
            while acts and time.monotonic() > ends[-len(acts)]:
                act = acts.pop(0)
                for one in self.running:
                    if one.poll() is None:
                        act(one)
        return code or next((one.returncode for one in self.running if one.returncode), 0)

    def hang_up(self, process):
        if self.lines:
            self.lines[self.running.index(process)].shutdown(socket.SHUT_WR)

    def told(self):
        """What each rank has said of its end, or None."""
        said = []
        for line in self.lines:
            text = b""
            with contextlib.suppress(OSError):
                while block := line.recv(1 << 16, socket.MSG_DONTWAIT):
                    text += block
            said.append(json.loads(text) if text else None)
        return said


def _of_rank(rank, world):
    rank, world = str(rank), str(world)
    return {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}


def run_ranks(command, world, **more):
    """The command once for each rank, as torchrun starts it; the code of the first that fails."""
    return _Job(command, world, **more).wait()


def _report(given, told, codes, code=1):
    """Says why ranks have not made their steps. Where one has failed by itself, the others only
    wait for it."""
    code = code or 1
    failed = [one for one in told if one is not None and one["state"] == "failed"]
    if failed:
        sys.stderr.write(min(failed, key=lambda one: one["when"])["text"])
        return code
    for rank, (one, own) in enumerate(zip(told, codes)):
        if one is None and own:
            how = "was ended by signal %d" % -own if own < 0 else "has ended with code %d" % own
            fix = "see that it runs by itself: %s %s" % (given_python(), _again(given))
            return _error("rank %d %s" % (rank, how), fix, code)
    if all(one is None or one["state"] == "nothing" for one in told):
        return _error(
            "no module ran with gradients, so nothing was recorded",
            "with shardlab_record.record('step.json.gz', model): around a step",
        )
    stops = [one for one in told if one is not None and "at" in one]
    hangs = len(told) > 1 and all(one["state"] == "waits" for one in stops)
    late = "the script has not made its steps in %g s" % given.patience
    fix = "wait longer, or let it make fewer steps: shardlab record --patience %g %s" % (
        10 * given.patience,
        _again(given),
    )
    if hangs:
        late = "the script hangs: " + _reason(stops, late.replace("the script", "it"))
        fix = "give each of these calls its counterpart, on all ranks in one order"
    sys.stderr.write("error: %s\n%s  fix         %s\n" % (late, _stops(told), fix))
    return code


def _reason(stops, late):
    """The backend's own words, unless it only says that another rank has left."""
    words = [one["reason"].strip().split("\n")[0] for one in stops]
    own = [one for one in words if re.search("time", one.split("]")[-1], re.IGNORECASE)]
    if own:
        return re.sub(r"^\[[^]]*\] *", "", own[0])[:200]
    return "a rank has ended that others wait for" if all(words) else late


def _stops(told):
    """A line for each rank; one for all that do the same."""
    met = {}
    for rank, one in enumerate(told):
        met.setdefault(_stop_text(rank, one, told), []).append(rank)
    lines = []
    for text, ranks in met.items():
        if len(told) == 1:
            return "  at          %s\n" % text.removeprefix("is at ")
        if len(ranks) > 1:
            text = re.sub(r"^(is|has|waits)", lambda verb: PLURAL[verb[1]], text)
        lines.append("  %-11s %s\n" % (_rank_text(ranks), text))
    return "".join(lines[:16]) + ("  and so on\n" if lines[16:] else "")


PLURAL = {"is": "are", "has": "have", "waits": "wait"}


def _rank_text(ranks):
    if len(ranks) > 1 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return "ranks %d-%d" % (ranks[0], ranks[-1])
    return "rank%s %s" % ("s" if len(ranks) > 1 else "", ", ".join(map(str, ranks)))


def _stop_text(rank, one, told):
    if one is None or "at" not in one:
        return "has ended"
    if one["state"] == "runs":
        return "is at " + (one["at"] or "no line of the script yet")
    others = [x for x in one["ranks"] if x != rank]
    if one["call"] not in TO_ONE:  # those that have not come to it
        come = [i for i, x in enumerate(told) if x and _same_call(x, one)]
        others = [x for x in others if x not in come] or others
    ends = {"send": "to", "recv": "from"}
    verb = next((ends[end] for end in ends if end in one["call"] and one["call"] in TO_ONE), "with")
    whom = " %s %s" % (verb, _rank_text(others)) if others else ""
    return "waits for %s%s%s" % (one["call"], whom, " (%s)" % one["at"] if one["at"] else "")


def _same_call(a, b):
    return a.get("call") == b["call"] and a.get("ranks") == b["ranks"]


def _processes(given, words):
    """This program once more for each rank; then their files are made one."""
    files = [_path_of_rank(given.out, rank) for rank in range(given.ranks)]
    for path in files:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)  # of an earlier job
    job = _Job([sys.executable, HERE] + words, given.ranks, True)
    code, told = job.wait(), job.told()
    stuck = code and not any(one is not None and one["state"] == "failed" for one in told)
    recorded = [path for path in files if os.path.exists(path)]
    program, merged = os.environ.get("SHARDLAB_PROGRAM"), None
    if recorded and program is not None and (stuck or not code):
        merge = [program, "merge", *files, "--out", given.out]
        merged = subprocess.run(merge, capture_output=True, encoding="utf-8", check=False)
        parted = merged.returncode and "--level pieces" in merged.stderr
        if parted and given.level == "both":
            # Uneven pieces are padded on some ranks, for example.
            sys.stderr.write("ranks part inside of a DTensor: once more with --level pieces\n")
            given.level = "pieces"
            return _processes(given, ["--level", "pieces", *words])
    if code or not recorded:
        code = _report(given, told, [one.returncode for one in job.running], code)
    if merged is None:
        return code
    if merged.returncode:
        sys.stderr.write(merged.stderr)
        return code or merged.returncode
    for path in recorded:
        os.remove(path)
    proof = "shardlab prove %s, " % given.out if stuck else ""
    follow = "; next: %sshardlab replay %s" % (proof, given.out) if given.follow else ""
    sys.stdout.write("%s%s\n" % (merged.stdout.rstrip(), follow))
    return code


def _blame(given, words):
    """The script on one process and on all ranks; then the program compares both."""
    own = given.module or [given.script, *given.arguments]
    script = (["-m"] if given.module else []) + list(own)
    options = [word for word in words[: len(words) - len(script)] if word != "--blame"]
    files = [_path_of_rank(given.out, count, "") for count in (1, given.ranks)]
    one = [sys.executable, HERE, *options, "--ranks", "1", "--out", files[0], *script]
    code = run_ranks(one, 1)
    if not code and given.processes and given.ranks > 1:
        given.out, given.follow = files[1], False
        code = _processes(given, [*options, "--out", files[1], *script])
    elif not code:
        code = run_ranks([sys.executable, HERE, *options, "--out", files[1], *script], 1)
    return code or subprocess.call([os.environ["SHARDLAB_PROGRAM"], "blame", *files])


def _error(text, fix, code=1):
    sys.stderr.write("error: %s\n  fix         %s\n" % (text, fix))
    return code


def _refuse(text, fix):
    sys.exit(_error(text, fix, 2))


def _no_torch():
    _refuse(
        "PyTorch is not installed for this python (%s)" % sys.executable,
        "pip install torch, or name another one: shardlab record --python P",
    )


def _interruptible(run):
    """Its code; a job that is interrupted has ended its ranks, and says so in a line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    except KeyboardInterrupt as error:
        _interrupted(*(error.args or (signal.SIGINT,)), None)


def _path_of_rank(path, rank, kind="r"):
    """step.json.gz of rank 1: step.r1.json.gz"""
    stem, dot, ending = path.rpartition(".json")
    return "%s.%s%d%s%s" % (stem if dot else path, kind, rank, dot, ending if dot else "")


def _again(given):
    """The script as a command's last words."""
    return " ".join((["-m"] if given.module else []) + [given.script])


def given_python():
    return os.path.basename(sys.executable)


def _given(words):
    """The command of these words; ends the program where it cannot be done."""
    parser = argparse.ArgumentParser(
        prog="shardlab record",
        description="Runs a PyTorch script and records its first training step.",
    )
    parser.add_argument("--out", default="step.json.gz", help="the file (default: step.json.gz)")
    parser.add_argument("--skip", type=int, default=0, help="optimizer steps before")
    parser.add_argument("--steps", type=int, default=1, help="optimizer steps to record")
    parser.add_argument("--values", choices=("fp", "none"), default="fp", help="none: shapes alone")
    parser.add_argument("--level", choices=("both", "op", "pieces"), default="both",
                        help="op: no re-mesh; pieces: of DTensors those of each rank")
    parser.add_argument("--ranks", type=int, default=1, help="all of them in this process")
    parser.add_argument("--processes", action="store_true", help="a process for each rank, on gloo")
    parser.add_argument("--blame", action="store_true",
                        help="on one process, too; then both are compared")
    parser.add_argument("--data-limit", type=int, default=64 << 20, metavar="BYTES",
                        help="elements in the file; more are put beside it (default: 64 MiB)")
    parser.add_argument("--patience", type=float, default=3600, metavar="SECONDS",
                        help="until the steps are made (default: 3600; 0: any time)")
    parser.add_argument("--on-cpu", action="store_true",
                        help="a script for GPUs runs on the CPU, and nccl is gloo")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE",
                        help="a module as python -m runs it, and its own arguments")
    parser.add_argument("script", nargs="?",
                        help="the script; what follows are its own arguments")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    if given.module:
        given.script, given.arguments = given.module[0], given.module[1:]
    if given.script is None:
        _refuse("there is no script to record", "shardlab record train.py")
    if not given.module and not os.path.isfile(given.script):
        fix = "name a file, or a module: shardlab record -m package.train"
        _refuse("%s: no such script" % given.script, fix)
    if given.ranks < 1:
        _refuse("--ranks: %d is no number of ranks" % given.ranks, "--ranks 2")
    folder = os.path.dirname(os.path.abspath(given.out))
    if not os.access(folder, os.W_OK):
        _refuse("%s cannot be written" % given.out, "--out with another folder")
    given.follow = True
    return given


def _launched(given, words):
    """The code of a command whose script runs in other processes; None if it runs in this one."""
    if given.blame:
        launch = _blame
    elif given.processes and given.ranks > 1 and "RANK" not in os.environ:
        launch = _processes
    else:
        return None
    if importlib.util.find_spec("torch") is None:
        _no_torch()
    return _interruptible(lambda: launch(given, words))


if __name__ == "__main__":  # before the seconds that PyTorch takes
    _command = _given(sys.argv[1:])
    _code = _launched(_command, sys.argv[1:])
    if _code is not None:
        sys.exit(_code)
