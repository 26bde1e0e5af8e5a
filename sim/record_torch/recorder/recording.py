# One recording: its begin, its state and its end.


# Every name that the program has for a function of autograd leads here.
_ENGINE = {
    "backward": (lambda *args, **kwargs: _shardlab_backward(*args, **kwargs)).__code__,
    "grad": (lambda *args, **kwargs: _shardlab_grad(*args, **kwargs)).__code__,
}


def _redirected(name, own, code):
    """A function of autograd as it was, whose calls run `own`."""
    function = getattr(torch.autograd, name)
    before = type(function)(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    before.__kwdefaults__ = function.__kwdefaults__
    function.__globals__["_shardlab_" + name] = own
    function.__code__ = code
    return before


# An autograd.Function asks the last of these. A program may keep its `apply` before a recording
# begins: relu = Relu.apply.
_functions = []
_plain_apply = torch.autograd.Function.__dict__["apply"]


def _apply_of(cls):
    """Autograd's own."""
    return _plain_apply.__get__(None, cls)


def _apply(cls, *args, **kwargs):
    if _functions:
        return _functions[-1](cls, *args, **kwargs)
    return _apply_of(cls)(*args, **kwargs)


_apply.__name__ = "apply"  # by which spmd_types knows it
torch.autograd.Function.apply = classmethod(_apply)


class _Own:
    """Around work of the recorder's own. Its errors reach the file, and not the program; functions
    that the program has put around those of tensors do not see it."""

    def __init__(self, recorder):
        self.recorder, self.entered = recorder, []

    def __enter__(self):
        hidden = torch._C.DisableTorchFunction()
        hidden.__enter__()
        self.entered.append((hidden, time.perf_counter()))

    def __exit__(self, kind, error, trace):
        hidden, began = self.entered.pop()
        hidden.__exit__(None, None, None)
        if not self.entered:
            self.recorder.own_seconds += time.perf_counter() - began
        if kind is None or not issubclass(kind, Exception):
            return False
        if kind is _Unseen:
            self.recorder.refuse(str(error))
            return True
        while trace.tb_next is not None:
            trace = trace.tb_next
        text = (str(error).strip().split("\n") or [""])[0][:120]
        what = "the rest after an error of its own (%s: %s; line %d)"
        self.recorder.refuse(what % (kind.__name__, text, trace.tb_lineno))
        self.recorder.quiet += 1  # to the end
        return True


def _writes_to(numbers, event):
    """Whether an op or its call writes to one of these values: in place, or as its only effect."""
    in_place = event.get("op", "").split(".")[:2][-1].endswith("_")
    written = event.get("mut", []) + (event.get("out", []) if in_place else [])
    return any(one and one.get("v") in numbers for one in written)


class Recorder(_Program, _Values, _Calls, _Types):
    """One recording; made by record()."""

    def __init__(self, path, model, optimizer, level, values, data_limit):
        self.path = path
        self.level = level
        self.values = values
        self.data_limit = data_limit
        self.own = _Own(self)
        self.fills = {}  # id of a parameter -> the formula of its elements
        self.storages = {}  # address -> (weak reference, number)
        self.names = _Names(self.storage_of)
        self.holders = {}  # id of a module -> (weak references to it, to the module that holds it)
        if isinstance(model, torch.nn.Module):
            model = [model]
        self.takes_batches = {id(one) for one in model or []}  # modules that name batches
        for one in map(self.outermost, model or []):
            if not self.names.has(one):
                self.names.add(one)
        self.names.optimizers = [weakref.ref(optimizer)] if optimizer is not None else []
        parameters = (each for one in self.names.models for each in one.parameters())
        if any(isinstance(_pieces(each)[0], FakeTensor) for each in parameters):
            self.values = "none"
        self.numbers = {}  # key of a tensor -> number of its value
        self.roots = {}  # number of a storage -> the value that covers it
        self.unwritten = set()  # storages with memory that was never written
        self.left = set()  # those in which a reduce, on ranks that are not its root, left anything
        self.partly = {}  # storages that were written in parts -> bytes that are left
        self.count = 0
        self.taped = set()  # numbers of values that required a gradient in a call
        self.calls = 0
        self.inside = None  # the call whose ops are running
        self.taking_call = False  # and no op, which does not see the way of gradients
        self.quiet = 0
        self.phase = "fwd"
        self.stepping = _Stepping()
        self.modules = []  # (path, first call, inputs) of the modules that are running
        self.paths = {}  # id of a module -> (weak reference, path)
        self.owners = {}  # sequence number of autograd -> (call, module, place)
        self.functions = {}  # sequence number of autograd -> number of an autograd.Function
        self.again = set()  # numbers of values that such a function has returned as they were
        self.reentrant = 0  # checkpoints whose calls have gradients though autograd records none
        self.rule = None  # the function whose backward is running
        self.last_sequence = 0
        self.refused = {}
        self.own_seconds = 0.0
        self.leaves = _Beside(self.storage_of)  # names of leaves whose gradients are written
        self.asking = False  # the engine runs
        self.pending = None  # the leaf whose gradient is being made, numbers that it may have
        self.leaf_of = {}  # number of a storage -> (name, shape) of the leaf in it
        self.written = {}  # name of a leaf written since its gradient was made -> its memory
        self.accumulated = set()  # ids of the leaves that have theirs from this backward
        self.told = {}  # id of a leaf -> the number of its gradient, writes to that
        # id of a leaf that has a gradient -> it, its memory, writes to it. An input is kept until
        # the step: a new one may get the id of a dead one. Parameters live by themselves.
        self.states = {}
        self.behind = None  # the last step: the checks of its end, exchanges and refusals by then
        self.stepped = None  # called where the program has written to such a leaf by itself
        self.views = {}  # (key of a tensor, autograd's number) -> number of a value
        self.pieces = {}  # key of a plain tensor -> number of the DTensor whose piece it is
        self.meshes = {}  # (sizes, names, ranks) -> number
        self.ranks_of = []  # of each mesh
        self.groups = {}  # name of a group -> number
        self.inner = {}  # moves and collectives of the running call
        self.late = set()  # numbers of values that a collective may still be writing
        # id of a handle -> itself, the number of its collective, its arguments, the program's call
        self.works = {}
        self.failed = []  # waits that failed: the same number, a wait's event, events before it
        self.exchanged = 0  # collectives so far
        self.thread = threading.get_ident()
        self.polled = set()  # places of polls
        self.engines = set()  # threads of autograd that have posted calls
        self.elsewhere = []  # lines of other threads that post collectives, or wait for them
        self.labels = {}  # id of a tensor of messages -> what they are, and the tensor
        self.writes = {}  # number of a storage -> how often an op has written to it
        self.versions = _Beside(self.storage_of)  # version, (memory, writes, ..)
        self.taken = set()  # numbers of values from before
        self.left_out = 0  # values over the limit of which there is no whole
        self.rows = None  # base names of the ops that shardlab has
        self.epoch = 0  # counts unseen writes to tensors, as by a collective
        self.shared = {}  # number of a storage -> (view, print, writes): numpy writes to it

    def __enter__(self):
        global _active
        if _active is not None:
            raise RuntimeError("shardlab_record: one recording at a time")
        _Typed.watch()
        self.world, self.rank, self.backend = _world()
        if self.world > 1 and self.rank != "all":
            self.path = _path_of_rank(self.path, self.rank)
        self.file = _File(self.path)
        self.checkpoint = _Checkpoint(str(self.path))
        self.places = _Places(self.file)
        self.began = time.perf_counter()
        self.file.put(
            {
                "k": "program",
                "form": "recording",
                "schema": SCHEMA,
                "program": os.path.basename(self.path).split(".")[0],
                "torch": torch.__version__,
                "recorder": RECORDER,
                "rank": self.rank,
                "world": self.world,
                "backend": self.backend,
                "levels": ["call", "op"] if self.level == "both" else ["op"],
                "values": self.values,
            }
        )
        self.last_sequence = torch.autograd._get_sequence_nr()
        for model in self.names.models:
            self.learn(model)
        self.hook()
        self.moves = _Moves(self)
        self.contexts = [_Below(self)]
        if self.level == "both":
            self.contexts += [enable_python_dispatcher(), _Above(self)]
        if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
            # What is compiled shows no ops, and with fullgraph=True does not run below a mode.
            self.contexts.append(torch.compiler.set_stance("force_eager"))
        for context in self.contexts:
            context.__enter__()
        self.above = _OnTop(self.contexts[0])
        _active = self
        return self

    def __exit__(self, kind, error, trace):
        global _active
        _active = None
        with self.own:
            self.settle(True)
        self.above.end()
        for context in reversed(self.contexts):
            context.__exit__(None, None, None)
        self.moves.end()
        for handle in self.handles:
            handle.remove()
        for function, own in zip((torch.autograd.backward, torch.autograd.grad), self.engine):
            function.__code__ = own.__code__
        _functions.remove(self.function)
        torch.autograd.function.BackwardCFunction.apply = self.apply_rule
        del torch.Tensor.tolist, torch.Tensor.numpy  # those of the class below are left
        if kind is SystemExit and error.code in (None, 0):
            kind = None  # the end of a script
        self.finish(kind, error)
        return False

    def finish(self, kind=None, error=None):
        """Writes the file, with the end of a program that failed."""
        if kind is None:
            with self.own:
                if self.behind is None:
                    self.check_end()
                else:
                    self.end_behind_step()
                for line in dict.fromkeys(self.elsewhere):
                    self.file.put({"k": "wait", "name": "thread", "p": self.places.number(*line)})
        if self.file.held is not None:  # what is behind the step could not be read
            self.file.release(lambda at, event: True)
        with self.own:
            self.put_failed_waits(kind is not None)
        wall = time.perf_counter() - self.began
        end = {
            "k": "end",
            "events": self.file.events + 1,
            "n_values": self.count,
            "raw": self.file.raw_bytes,
            "refused": self.refused,
            "own_s": round(self.own_seconds, 3),
            "wall_s": round(wall, 3),
        }
        if kind is not None:
            name = "out of patience" if kind is _Impatient else kind.__name__
            end["error"] = "%s: %s" % (name, str(error).strip().split("\n")[0][:200])
        try:
            self.file.put(end)
            self.file.close()
            self.checkpoint.close()
        except (OSError, ValueError) as failed:
            sys.stderr.write("shardlab_record: %s is not whole: %s\n" % (self.path, failed))
            return
        self.tell()

    def put_failed_waits(self, ended):
        """One behind which the program did nothing more is never over; else it went on for the
        time that had passed."""
        for number, event, before in self.failed:
            last = ended and before == self.file.events
            if last and number is None:
                continue  # a barrier has its event
            self.file.put({**event, **({"of": number} if last else {"name": "a wait that failed"})})

    def stops_here(self, frames):
        """Of a thread that waits without an end: another one has come to this recorder."""
        number = next((x.f_locals["number"] for x, _ in frames if _is_recorded_wait(x)), None)
        for at in _users(frames)[-1:] if number is not None else ():
            code, line = frames[at][0].f_code, frames[at][1]
            place = self.places.number(code.co_filename, line, code.co_name)
            self.failed.append((number, {"k": "wait", "p": place}, self.file.events))

    def tell(self):
        for what, (times, place) in self.refused.items():
            sys.stderr.write(
                "shardlab_record: %s, %d times, first at %s: shardlab will refuse the file\n"
                % (what, times, place or "an unknown place")
            )
        if self.checkpoint.bytes:
            sys.stderr.write(
                "shardlab_record: %d bytes of elements, over --data-limit, are in %s: keep it "
                "beside the file\n" % (self.checkpoint.bytes, self.checkpoint.path)
            )
        if self.left_out:
            sys.stderr.write(
                "shardlab_record: the elements of %d values, over --data-limit, are in no file: "
                "raise it\n" % self.left_out
            )

    def say(self, more):
        sys.stderr.write(
            "%s: %d events, %d bytes%s\n"
            % (self.path, self.file.events, os.path.getsize(self.path), more)
        )

    def hook(self):
        module = torch.nn.modules.module
        self.handles = [
            module.register_module_forward_pre_hook(self.module_begins),
            module.register_module_forward_hook(self.module_ends, always_call=True),
        ]
        from torch.optim import optimizer

        self.handles += [
            optimizer.register_optimizer_step_pre_hook(self.optimizer_begins),
            optimizer.register_optimizer_step_post_hook(self.optimizer_ends),
        ]
        self.engine = tuple(
            _redirected(name, getattr(self, name), code) for name, code in _ENGINE.items()
        )
        _functions.append(self.function)
        self.apply_rule = torch.autograd.function.BackwardCFunction.apply
        rule = lambda own, *args: self.run_rule(own, args)
        torch.autograd.function.BackwardCFunction.apply = rule
        recorder, tolist, numpy = self, torch.Tensor.tolist, torch.Tensor.numpy
        torch.Tensor.tolist = lambda own: recorder.read(own, tolist)
        torch.Tensor.numpy = lambda own, **kwargs: recorder.share(own, numpy, kwargs)

    def ends(self):
        """(name, tensor) of parameters, and of those that only an optimizer has; of others that
        were written, by hand or before they were gone, their memory."""
        named = [one for model in self.names.models for one in self.names.tensors_of(model)]
        seen = {id(parameter) for _, parameter in named}
        for optimizer in filter(None, (kept() for kept in self.names.optimizers)):
            for own in (own for group in optimizer.param_groups for own in group["params"]):
                if id(own) not in seen and self.leaves.get(own) is not None:
                    named.append((self.leaves.get(own), own))
                    seen.add(id(own))
        known = {name for name, _ in named}
        return named + [one for one in self.written.items() if one[0] not in known]

    def check_end(self, ends=("", ".grad")):
        """Parameters and their gradients after the step."""
        for name, parameter in self.ends():
            for tensor, end in ((parameter, ""), (parameter.grad, ".grad")):
                known = tensor is not None and self.key(tensor) in self.numbers
                if known and end in ends:
                    self.check(name + end, tensor)
        for name, buffer in self.written_buffers():
            self.check(name, buffer)

    def written_buffers(self):
        """(name, tensor) of buffers that a process of a job has written to, or made anew."""
        if self.backend in ("none", "local"):
            return
        for model in self.names.models:
            for name, own in self.names.tensors_of(model, model.named_buffers()):
                number = self.numbers.get(self.key(own))
                writes = self.writes.get(self.storage_of(self.recorded_part(own)), 0)
                if number is not None and (writes or number not in self.taken):
                    yield name, own

    def step_is_over(self):
        """The program goes on up to its next forward: where it writes to parameters until then, as
        a broadcast from the rank that has made the step does, this belongs to the step; in a job
        of processes, so does what it writes to tensors from before, as to averages of weights."""
        with self.own:
            self.settle(True)
            self.file.hold()
            self.check_end()
            self.written.update((name, own.detach()) for name, own in self.ends())
            self.behind = len(self.file.held), self.exchanged, dict(self.refused)

    def parameters(self):
        """Numbers of parameters, those of no module, too, and of all views of their memory."""
        own = {
            self.storage_of(self.recorded_part(one))
            for model in self.names.models
            for one in model.parameters()
        }
        own |= self.leaf_of.keys()
        return {number for key, number in self.numbers.items() if _storage_in(key) in own}

    def end_behind_step(self):
        """Keeps what is behind the step up to the last write to what has been before."""
        checks, exchanged, refused = self.behind
        own, last, kept = self.parameters(), -1, -1
        if self.backend not in ("none", "local"):
            own |= {event["v"] for event, _ in self.file.held[checks:] if event["k"] == "const"}
        for at, (event, _) in enumerate(self.file.held[checks:], checks):
            exchanged += event["k"] == "coll"
            waits = event["k"] == "wait" and event.get("of", math.inf) < kept
            if waits or _writes_to(own, event):
                last, kept = at, exchanged
        if last < 0:
            self.refused = refused
            self.file.release(lambda at, event: at < checks)
            return
        parameter = lambda event: event["k"] == "check" and not event["name"].endswith(".grad")
        self.file.release(lambda at, event: at <= last and not (at < checks and parameter(event)))
        self.check_end(("",))

    def check(self, name, tensor):
        event = {"k": "check", "name": name}
        event.update(self.result(tensor))
        self.file.put(event)


def formula(count, seed, bias, scale):
    """Elements that a reader can work out by itself, so that a file need not hold them."""
    i = torch.arange(count, dtype=torch.int64)
    h = (i + 1) * 7919 + (seed + 1) * 104729 + ((i * i) % 251) * 31
    return bias + scale * (h % 509 - 254).to(torch.float64) / 256


def fill_parameters(model):
    """Gives every parameter the elements of a formula: small files for tests. It changes the
    model, so it is called before the step and never by a recording."""
    fills = {}
    with torch.no_grad():
        for seed, parameter in enumerate(model.parameters()):
            row = parameter.dim() < 2
            mean = float(_pieces(parameter)[0].double().mean())
            bias = 1.0 if row and mean > 0.5 else 0.0
            scale = 0.1 if row else round(1.7 / math.sqrt(parameter.shape[-1]), 3)
            elements = formula(parameter.numel(), seed, bias, scale).view(parameter.shape)
            if isinstance(parameter, DTensor):
                elements = dtensor_api.distribute_tensor(
                    elements, parameter.device_mesh, parameter.placements, src_data_rank=None
                )
            parameter.copy_(elements)
            fills[id(parameter)] = {"seed": seed, "bias": bias, "scale": scale}
    return fills


def record(path, model=None, optimizer=None, *, level="both", values="fp", data_limit=64 << 20):
    """Records what happens inside of `with`.

    path        of the file, ending in .json.gz
    model       a module, or a list of them: names of parameters, buffers and modules
    optimizer   names of its states
    level       "both", or "op": a quarter cheaper, and no re-mesh; "pieces": the same, of DTensors
                what each process has of them, for ranks that make different calls
    values      "fp": fingerprints of all results; "none": shapes alone
    data_limit  bytes of elements in the file; what comes later is put into a checkpoint beside it
    """
    return Recorder(path, model, optimizer, level, values, data_limit)
