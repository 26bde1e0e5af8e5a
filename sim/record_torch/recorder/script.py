# A whole script, on one process or on several.


class _OfAnyRank(type(torch._C.Generator)):
    """A program may ask whether something is a torch.Generator, and means the library's."""

    def __instancecheck__(cls, value):
        return isinstance(value, torch._C.Generator)


class _Generator(torch._C.Generator, metaclass=_OfAnyRank):
    """torch.Generator while all ranks are in this process: its seed may be a number of the rank."""

    def manual_seed(self, seed):
        seeds = getattr(getattr(seed, "node", None), "_local_ints", None)
        if seeds is None:
            return super().manual_seed(seed)
        super().manual_seed(seeds[0])
        copies = {rank: torch._C.Generator(device=self.device) for rank in seeds if rank}
        for rank, copy in copies.items():
            copy.manual_seed(seeds[rank])
        simulate.generators[self._cdata] = [self, self.get_state(), copies]
        return self


class simulate:
    """All ranks of a program in this process: `with shardlab_record.simulate(4): main()`. Each has
    data of its own; the program's questions to torch.distributed are answered for every rank."""

    generators = {}  # address -> one, its state behind rank 0, those of the other ranks

    def __init__(self, ranks):
        self.ranks = ranks

    def __enter__(self):
        if LocalTensorMode is None:
            raise RuntimeError(
                "PyTorch %s has no LocalTensorMode, which holds all ranks in one process: "
                "use a newer release" % torch.__version__
            )
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=0, world_size=self.ranks, store=FakeStore())
        self.started = dist.init_process_group
        dist.init_process_group = lambda *args, **kwargs: None
        self.ended = dist.destroy_process_group
        dist.destroy_process_group = lambda *args, **kwargs: None
        self.mode = LocalTensorMode(self.ranks)
        self.mode.__enter__()
        self.of_rank, self.generator = local_tensor._map_to_rank_local_val, torch.Generator
        self.generators.clear()
        local_tensor._map_to_rank_local_val, torch.Generator = self.value_of_rank, _Generator
        return self

    def value_of_rank(self, value, rank):
        """As the library has it; but a process has a torch.Generator of its own."""
        if not isinstance(value, torch._C.Generator):
            return self.of_rank(value, rank)
        first = rank == 0  # it takes the program's, and the others copies of what that was
        if first:
            now = value.get_state()
            _, left, copies = self.generators.get(value._cdata, (None, None, {}))
            if left is None or not torch.equal(left, now):
                copies = {}  # it is new, or the program has seeded it
            self.generators[value._cdata] = [value, None, copies]
            self.began = now
            return value
        record = self.generators[value._cdata]
        record[1] = value.get_state()
        if rank not in record[2]:
            record[2][rank] = torch._C.Generator(device=value.device)
            record[2][rank].set_state(self.began)
        return record[2][rank]

    def __exit__(self, kind, error, trace):
        local_tensor._map_to_rank_local_val, torch.Generator = self.of_rank, self.generator
        self.mode.__exit__(kind, error, trace)
        dist.init_process_group, dist.destroy_process_group = self.started, self.ended
        dist.destroy_process_group()
        return False




class _Done(SystemExit):
    """The requested steps are recorded."""


# Functions that change a model before it is trained (they run new modules, and cut parameters), and
# that make ranks of a pipeline meet.
PREPARING = frozenset(
    "register_parametrization fully_shard parallelize_module distribute_module distribute_tensor "
    "replicate _initialize_stage _initialize_stages _initialize_pp_stages".split()
)


def _is_preparing():
    """While a model is being made, and in a loader of data."""
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name in PREPARING or LOADER in code.co_filename:
            return True
        if code.co_name == "__init__" and isinstance(
            frame.f_locals.get(code.co_varnames[0] if code.co_varnames else ""), torch.nn.Module
        ):
            return True
        frame = frame.f_back
    return False


def _is_attribute(func):
    """x.T is none: autograd sees it."""
    if getattr(getattr(func, "__self__", None), "__name__", "") in ("T", "mT", "H", "mH"):
        return False
    return getattr(func, "__name__", "__get__") in ("__get__", "__set__")


class _Watch(torch.overrides.TorchFunctionMode):
    """Begins a recording at the first function of a script whose result requires a gradient, where
    no module has begun it."""

    def __init__(self, steps):
        super().__init__()
        self.steps, self.dull = steps, set()  # functions whose results require none

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        steps = self.steps
        known = steps.recorder is not None and steps.recorder.states  # gradients have been made
        if known and torch.is_grad_enabled() and not _is_attribute(func):
            with torch._C.DisableTorchFunction():
                leaves = [x for x in _leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
                again = any(x.requires_grad and steps.recorder.is_changed(x) for x in leaves)
            if again:
                return self.run_behind_step(func, args, kwargs)
        if not steps.handles or not steps.is_due() or not self.may_begin(func, args, kwargs):
            return func(*args, **kwargs)
        steps.begin(None)
        result = func(*args, **kwargs)
        tensors = [x for x in _leaves(result) if isinstance(x, torch.Tensor)]
        if all(x.grad_fn is None for x in tensors) and steps.recorder is not None:
            self.dull.add(func)
            steps.take_back()
        return result

    def run_behind_step(self, func, args, kwargs):
        """A function of a leaf that was written to since its gradient was made: the next step's, if
        its result requires a gradient."""
        recorder = self.steps.recorder
        recorder.quiet += 1
        try:
            result = func(*args, **kwargs)
        finally:
            recorder.quiet -= 1
        tensors = [x for x in _leaves(result) if isinstance(x, torch.Tensor)]
        if any(x.grad_fn is not None for x in tensors):
            recorder.stepped()
        return result

    def may_begin(self, func, args, kwargs):
        if func in self.dull or _is_attribute(func):
            return False
        if not torch.is_grad_enabled():
            return False
        with torch._C.DisableTorchFunction():
            tensors = [x for x in _leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            return any(x.requires_grad for x in tensors) and not _is_preparing()


class _Steps:
    """Records a script from its first forward of a module that is trained, its first function whose
    result requires a gradient, or its first message on, until `steps` steps are made: of optimizers
    of torch, or of its own. A stage of a pipeline receives before its first forward. With `beyond`
    the program runs on to the next forward, since it may write to parameters behind the step."""

    MESSAGES = ("send", "recv", "isend", "irecv", "batch_isend_irecv")

    def __init__(self, path, skip, steps, options, beyond=False):
        self.path, self.skip, self.steps, self.options = path, skip, steps, options
        self.beyond = beyond
        self.made = 0
        self.recorder = self.made_file = None
        from torch.optim import optimizer

        self.handles = [
            torch.nn.modules.module.register_module_forward_pre_hook(self.forward_begins),
            optimizer.register_optimizer_step_pre_hook(self.step_begins),
            optimizer.register_optimizer_step_post_hook(self.step_ends),
        ]
        self.stepping = _Stepping()
        _functions.append(self.function_begins)
        self.messages = []  # (where it is, its name, what it was)
        for name in self.MESSAGES if dist.is_available() else ():
            function = getattr(dist, name)
            begins = self.beginning(function)
            for owner in (dist, dist.distributed_c10d):
                self.messages.append((owner, name, function))
                setattr(owner, name, begins)

    def beginning(self, function):
        @functools.wraps(function)
        def begins(*args, **kwargs):
            if self.is_due() and not _is_preparing():
                self.begin(None)
            return function(*args, **kwargs)

        return begins

    def is_due(self):
        due = self.recorder is None and self.handles and self.made >= self.skip
        return due and _active is None and torch.utils.data.get_worker_info() is None

    def begin(self, model):
        self.recorder = record(self.path, model, **self.options)
        self.recorder.__enter__()
        self.recorder.stepped = self.own_step_ends

    def function_begins(self, cls, *args, **kwargs):
        """An autograd.Function: checkpoint(use_reentrant=True) runs modules without gradients."""
        tensors = [x for x in _leaves(args) if isinstance(x, torch.Tensor)]
        trained = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
        library = cls.__module__.startswith("torch.distributed.")
        if trained and not library and self.is_due() and not _is_preparing():
            self.begin(None)
            return self.recorder.function(cls, *args, **kwargs)
        return _apply_of(cls)(*args, **kwargs)

    def take_back(self):
        """The function that began the recording was none of a step."""
        self.recorder.__exit__(_Done, None, None)
        os.remove(self.recorder.path)
        self.recorder = None

    def forward_begins(self, module, args):
        if self.is_over():
            self.done()
        if self.recorder is not None:
            if not self.recorder.names.models:
                self.recorder.takes_batches.add(id(module))
            return
        trained = self.is_due() and torch.is_grad_enabled()
        trained = trained and any(own.requires_grad for own in module.parameters())
        if trained and not _is_preparing():
            self.begin(module)
            # The hooks of the recording come too late for the module that has started it.
            self.recorder.module_begins(module, args)

    def step_begins(self, optimizer, args, kwargs):
        self.stepping.begins(optimizer)

    def step_ends(self, optimizer, args, kwargs):
        if not self.stepping.ends(optimizer):
            return
        self.made += 1
        if self.recorder is None or self.is_over():
            return
        if self.made < self.skip + self.steps:
            self.recorder.states.clear()
        elif self.beyond:
            self.recorder.step_is_over()
        else:
            self.done()

    def own_step_ends(self):
        """The next forward begins: a leaf was written to since backward."""
        self.recorder.states.clear()
        self.made += 1
        if self.made >= self.skip + self.steps:
            self.done()

    def is_over(self):
        return self.recorder is not None and self.recorder.behind is not None

    def done(self):
        self.end()
        raise _Done(0)

    def end(self, kind=None, error=None, trace=None):
        if self.recorder is not None:
            self.recorder.__exit__(kind, error, trace)
            self.made_file, self.recorder = self.recorder, None
        if self.handles:
            _functions.remove(self.function_begins)
        for handle in self.handles:
            handle.remove()
        for owner, name, function in self.messages:
            setattr(owner, name, function)
        self.handles, self.messages = [], []


def from_first_forward(path, steps=math.inf, **options):
    """Records from the first call of a module with gradients on, until its end() is called, or the
    steps of an optimizer are made, which raise _Done."""
    return _Steps(path, 0, steps, options)


def _ranks(count):
    if count == 1:
        return contextlib.nullcontext()
    os.environ.update({"MASTER_ADDR": "localhost", "MASTER_PORT": "0", **os.environ})
    os.environ.update(_of_rank(0, count))
    return simulate(count)


def _run(given):
    """Runs the script; the recorder, if anything was recorded."""
    options = {"values": given.values, "level": given.level, "data_limit": given.data_limit}
    steps = _Steps(given.out, given.skip, given.steps, options, True)
    try:
        gpu = _OnCpu() if given.on_cpu else contextlib.nullcontext()
        _Typed.steps = steps
        together = given.ranks > 1 and not given.processes
        with gpu, _AtImport(together), _Watch(steps), _Watchdog(steps, given):
            if given.module:
                runpy.run_module(given.script, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(given.script, run_name="__main__")
    except (Exception, SystemExit, _Impatient) as error:
        # Behind the step a rank may have ended that another one waits for.
        if not isinstance(error, _Done) and not steps.is_over():
            raise
    finally:
        steps.end(*sys.exc_info())
    return steps.made_file


def main(given):
    if given.processes and given.ranks == 1:
        one = {"MASTER_ADDR": "localhost", "MASTER_PORT": "0", **_of_rank(0, 1)}
        os.environ.update({**one, **os.environ})
    given.line, alone = _line_to_job(), "RANK" not in os.environ
    sys.argv = [given.script] + given.arguments
    sys.path[0] = os.getcwd()
    if not given.module:
        sys.path[0] = os.path.dirname(os.path.abspath(given.script))
    together = given.ranks > 1 and not given.processes
    try:
        with _ranks(given.ranks if together else 1):
            recorder = _run(given)
    except _Impatient as error:
        return _tell(given, _stop_of(_frames_of(error)))
    except _Apart:
        return _error(
            "spmd_types does not hold all ranks in one process",
            "give each rank a process: shardlab record --ranks %d --processes %s"
            % (given.ranks, _again(given)),
        )
    except Exception as error:
        if isinstance(error, ImportError) and given.module and error.name == given.script:
            fix = "run it in the folder of its package"
            return _error("%s: no such module" % given.script, fix, 2)
        stop = _stop_behind(error)
        if stop is not None:
            return _tell(given, _stop_of(_frames_of(stop), str(stop)))
        fix = "see that it runs by itself: %s %s" % (given_python(), _again(given))
        if together and _needs_processes(error):
            fix = "give each rank a process: shardlab record --ranks %d --processes %s" % (
                given.ranks,
                _again(given),
            )
        if not given.on_cpu and re.search("CUDA|NVIDIA", str(error)):
            fix = "run it without GPUs: shardlab record --on-cpu %s" % _again(given)
        text = "error: the script failed: %s\n  fix         %s\n" % (type(error).__name__, fix)
        return _tell(given, {"state": "failed", "text": _trace_of(error) + text})
    if recorder is None:
        return _tell(given, {"state": "nothing"})
    if alone and not recorder.refused:
        follow = "replay %s" if together else "run %s --mesh tp=2 --plan megatron"
        recorder.say("; next: shardlab " + follow % given.out)
    return 0


if __name__ == "__main__":
    # Its hooks and the script's `import shardlab_record` are one module.
    sys.modules["shardlab_record"] = sys.modules["__main__"]
    sys.exit(_interruptible(lambda: main(_command)))
