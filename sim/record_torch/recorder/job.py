# The ranks of a job: who waits for whom, and the end of a script that does not end by itself.


class _Impatient(BaseException):
    """The script has not made its steps in time, or its job is over."""


# Messages of a backend whose call was not completed: there, or on another rank, is no counterpart.
STUCK = re.compile(r"timed? ?out|connection (was )?(closed|reset)|broken pipe", re.IGNORECASE)
CALLS = tuple(
    os.path.join(TORCH, "distributed", name)
    for name in ("distributed_c10d.py", "_functional_collectives.py")
)
# What all ranks in one process cannot run.
APART = tuple(os.path.join(TORCH, "distributed", name) for name in ("fsdp", "pipelining"))
APART += CALLS + (os.path.join(TORCH, "nn", "parallel"),)


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
