# The ranks of a job: who waits for whom, and the end of a script that does not end by itself.


class _Impatient(BaseException):
    """The script has not made its steps in time, or its job is over."""


# Messages of a backend whose call was not completed: there, or on another rank, is no counterpart.
STUCK = re.compile(r"timed? ?out|connection (was )?(closed|reset)|broken pipe", re.IGNORECASE)
CALLS = tuple(
    os.path.join(TORCH, "distributed", name)
    for name in ("distributed_c10d.py", "_functional_collectives.py")
)
TO_ONE = ("send", "recv", "isend", "irecv", "send_object_list", "recv_object_list")
# What all ranks in one process cannot run.
APART = tuple(os.path.join(TORCH, "distributed", name) for name in ("fsdp", "pipelining"))
APART += CALLS + (os.path.join(TORCH, "nn", "parallel"),)
LINE = "SHARDLAB_LINE"  # of a rank to its job: the number of a socket


def _frames_of(error):
    """Frames, with lines, that an error has left; the last is where it was raised."""
    return list(traceback.walk_tb(error.__traceback__))


def _stop_behind(error):
    """The wait, or the end of patience, from which an error has come; else None."""
    met = []
    while error is not None and not any(error is one for one in met):
        met.append(error)
        error = error.__cause__ or error.__context__
    stuck = (x for x in met if isinstance(x, RuntimeError) and STUCK.search(str(x)))
    late = (x for x in met if isinstance(x, _Impatient))
    return next(stuck, None) or next(late, None)


def _frames_here():
    return list(traceback.walk_stack(sys._getframe(1)))[::-1]


def _needs_processes(error):
    """Whether it was a library's part that failed, and not the user's own line or an op."""
    inner = []
    for frame, _ in reversed(_frames_of(error)):
        if _Places.kind(frame.f_code.co_filename) is True:
            break
        inner.append(frame.f_code.co_filename)
    return any(name.startswith(APART) for name in inner) or "Local" in str(error)


def _place_of(frames):
    """FILE:LINE of the user's innermost frame, or an empty text. Some frames have no line."""
    own = os.path.dirname(os.__file__) + os.sep  # Python's own modules
    for frame, line in reversed(frames):
        name = frame.f_code.co_filename
        if line is not None and _Places.kind(name) is True and not name.startswith(own):
            return "%s:%d" % (_short(name, os.getcwd() + os.sep), line)
    return ""


def _call_in(frames):
    """The call of torch.distributed that the user's line leads to, and the ranks that it meets."""
    for frame, _ in frames[max([0, *_users(frames)]) :]:
        name = frame.f_code.co_name
        if _is_recorded_wait(frame) and frame.f_locals["call"] is not None:
            return frame.f_locals["call"]
        if frame.f_code.co_filename in CALLS and not name.startswith("_"):
            return {"call": name, "ranks": _ranks_of(name, frame.f_locals)}
    return None


def _is_recorded_wait(frame):
    return frame.f_code.co_filename == HERE and frame.f_code.co_name == "wait_for_work"


def _users(frames):
    return [i for i, (one, _) in enumerate(frames) if _Places.kind(one.f_code.co_filename) is True]


def _ranks_of(name, given):
    """Of a frame's arguments: the other side of a message, or all ranks of the group."""
    try:
        group = given.get("group")
        if not isinstance(group, dist.ProcessGroup):
            group = dist.group.WORLD
        if name not in TO_ONE:
            return sorted(dist.get_process_group_ranks(group))
        end = "src" if "recv" in name else "dst"
        if given.get("group_" + end) is not None:
            return [dist.get_global_rank(group, given["group_" + end])]
        return [] if given.get(end) is None else [given[end]]
    except Exception:  # of another release, or before there are groups
        return []


def _stop_of(frames, reason=""):
    """Where a rank has stopped, and for whom it waits there."""
    call = _call_in(frames)
    told = {"state": "waits" if call else "runs", "at": _place_of(frames), "reason": reason}
    return {**told, **(call or {})}


def _trace_of(error):
    """The error with the user's own lines, without those of libraries and of the recorder."""
    whole = traceback.TracebackException.from_exception(error)
    todo, met = [whole], []
    while todo:
        one = todo.pop()
        if one is not None and not any(one is other for other in met):
            met.append(one)
            own = [line for line in one.stack if _Places.kind(line.filename) is True]
            one.stack = traceback.StackSummary.from_list(own)
            todo += [one.__cause__, one.__context__]
    return "".join(whole.format())


class _Watchdog:
    """Ends a script that makes no step in time, or whose job is over, from a thread that the
    program cannot list. A signal gives the script's own thread its chance, which a wait inside of
    a backend does not take: then the file is finished here, and the process ends. `turn` is taken
    by the one of both that goes on; the script's thread stands still at its next line of Python if
    that is the other one."""

    GRACE = 2.0  # seconds

    def __init__(self, steps, given):
        self.steps, self.given = steps, given
        self.turn, self.over = _thread.allocate_lock(), _thread.allocate_lock()
        self.taken = self.raised = False
        self.line = given.line

    def __enter__(self):
        own = threading.current_thread() is threading.main_thread()
        self.watches = own and (self.given.patience > 0 or self.line is not None)
        if self.watches:
            self.main = threading.get_ident()
            self.before = signal.signal(signal.SIGALRM, self.signalled)
            self.over.acquire()
            _thread.start_new_thread(self.watch, ())

    def __exit__(self, kind, error, trace):
        if self.watches:
            if not self.turn.acquire(blocking=False):
                self.stand()
            self.over.release()
            signal.signal(signal.SIGALRM, self.before)

    def signalled(self, number, frame):
        if self.taken:
            self.stand()
        # Not inside of the recorder's own work, where the next signal comes soon, nor where an
        # error is on its way already.
        recorder = self.steps.recorder
        busy = recorder is not None and recorder.own.entered
        if not self.raised and not busy and sys.exc_info()[0] is None:
            self.raised = True
            raise _Impatient("it was not over")

    @staticmethod
    def stand():
        while True:
            time.sleep(60)

    def watch(self):
        patience = self.given.patience if self.given.patience > 0 else math.inf
        end = time.monotonic() + patience
        while time.monotonic() < end and not _is_over(self.line):
            if self.over.acquire(timeout=0.1):
                return
        end = time.monotonic() + self.GRACE
        while time.monotonic() < end:
            self.wake()
            if self.over.acquire(timeout=0.1):
                return
        if self.turn.acquire(blocking=False):
            self.taken = True
            self.wake()
            self.finish()

    def wake(self):
        if signal.getsignal(signal.SIGALRM) == self.signalled:
            signal.pthread_kill(self.main, signal.SIGALRM)

    def finish(self):
        recorder = self.steps.recorder
        try:
            frames = list(traceback.walk_stack(sys._current_frames().get(self.main)))[::-1]
            if self.steps.is_over():
                recorder.finish()
                _leave(0)
            told = _stop_of(frames)
            if recorder is not None:
                recorder.stops_here(frames)
                recorder.finish(_Impatient, "it waits at " + told["at"])
            _tell(self.given, told)
        finally:
            _leave(1)


def _line_to_job():
    number = os.environ.pop(LINE, None)
    if number is None:
        return None
    os.set_inheritable(int(number), False)
    return socket.socket(fileno=int(number))


def _is_over(line):
    """Whether the job has hung up."""
    return line is not None and bool(select.select([line], [], [], 0)[0])


def _tell(given, told):
    """To the job, or to the user if there is none."""
    told["when"] = time.time()
    if given.line is None:
        return _report(given, [told], [1])
    with contextlib.suppress(OSError):  # the job has ended
        given.line.sendall(json.dumps({**told, "text": told.get("text", "")[-9000:]}).encode())
    if "at" in told:  # a broken backend may not end
        _leave(1)
    return int(told["state"] != "nothing")


def _leave(code):
    """Ends the process as it is."""
    with contextlib.suppress(Exception):
        for stream in sys.stdout, sys.stderr:
            stream.flush()
        if "multiprocessing" in sys.modules:
            for child in sys.modules["multiprocessing"].active_children():
                child.terminate()
    os._exit(code)


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


def _interruptible(run):
    """Its code; a job that is interrupted has ended its ranks, and says so in a line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    except KeyboardInterrupt as error:
        _interrupted(*(error.args or (signal.SIGINT,)), None)
