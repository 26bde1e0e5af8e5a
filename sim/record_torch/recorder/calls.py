# Calls and ops, the two levels of a recording.


class _Calls:
    """The part of a Recorder that sees calls, ops, moves and collectives."""

    def passes(self, func):
        """True for an op that is no part of the program."""
        return self.quiet > 0 or _Facts.of(func).passes

    def call(self, func, args, kwargs):
        later = self.inside is not None or _in_backward() or self.phase != "fwd"
        if later or self.passes(func) or _Facts.of(func).exchanges:
            return func(*args, **kwargs)
        event = None
        with self.own:
            if not self.transformed():
                self.taking_call = True
                event = self.begun_call(func, args, kwargs)
        self.taking_call = False
        if event is None:
            return func(*args, **kwargs)
        self.inside, first, known = event["c"], torch.autograd._get_sequence_nr(), self.count
        try:
            result = func(*args, **kwargs)
        finally:
            self.inside = None
        with self.own:
            last = torch.autograd._get_sequence_nr()
            where = {name: event[name] for name in ("p", "by", "m") if name in event}
            self.own_sequence(first, {})
            self.own_sequence(last, {"of": event["c"], **where})
            if last > first:
                event["seq"] = [first, last]
                self.distinguish_views(func, args, kwargs, result, (first, known))
            self.see_restrided(event, result, known)
            self.taking_call = True
            self.name_dtype(event, func, result)
            self.promote(event, func, args, kwargs, result)
            event["out"] = [self.outcome(x, False) for x in _leaves(result)]
            self.file.put(event)
        self.taking_call = False
        return result

    def begun_call(self, func, args, kwargs):
        event = {"k": "call", "c": self.calls, **self.places.here()}
        if self.modules:
            event["m"] = self.modules[-1][0]
        self.calls += 1
        self.arguments(event, func, args, kwargs)
        self.mark_detached(event, args, kwargs)
        if not torch.is_grad_enabled() and not self.reentrant:
            event["no_grad"] = True
        if torch.is_autocast_enabled("cpu"):
            event["autocast"] = DTYPES[torch.get_autocast_dtype("cpu")]
        return event

    def see_restrided(self, call, result, known):
        """Results of the call's own ops, from number `known` on, to which a kernel has given other
        strides, by no op that is seen: an adaptive pooling does it with channels last."""
        for own in _leaves(result):
            if type(own) is not torch.Tensor or self.known(own) is not None:
                continue
            root = self.roots.get(self.storage_of(own))
            if root is not None and root >= known:
                args = [list(own.shape), list(own.stride()), own.storage_offset()]
                event = {"k": "local_op", "pass": "fwd"}
                event.update((key, call[key]) for key in ("m", "p", "c") if key in call)
                event.update(op="aten.as_strided.default", args=[{"v": root}, *args])
                event["out"] = [self.result(own)]
                self.file.put(event)

    def distinguish_views(self, func, args, kwargs, result, before):
        """A result that has the elements of an older value, by another way: w.t().t()."""
        first, known = before
        for tensor in _leaves(result):
            if not isinstance(tensor, torch.Tensor) or tensor.grad_fn is None:
                continue
            node, key = tensor.grad_fn._sequence_nr(), self.key(tensor)
            older = self.numbers.get(key, known) < known
            if older and node >= first and not _written(func, args, kwargs):
                self.views[key, node] = self.count
                self.count += 1

    def mark_detached(self, event, args, kwargs):
        """x and x.detach() are one value; gradients depend on which of them a call takes."""
        tensors = [x for x in _leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        detached = []
        for tensor in tensors:
            number = self.known(tensor)
            if tensor.requires_grad:
                if self.is_new_leaf(tensor, number):
                    event.setdefault("leaves", []).append(number)
                    self.watch_gradient(tensor, "v%d" % number)
                self.taped.add(number)
            elif number in self.taped:
                detached.append(number)
        if detached and torch.is_grad_enabled():
            event["detached"] = sorted(set(detached))
        if self.again or "detached" in event:
            self.mark(event["args"], args, event.get("detached", ()))
            for name, value in event.get("kwargs", {}).items():
                self.mark(value, kwargs[name], event.get("detached", ()))

    def is_new_leaf(self, tensor, number):
        """A result that the program has made a leaf: x = (a + b).requires_grad_()."""
        own = number is not None and number not in self.taped and self.leaves.get(tensor) is None
        return own and tensor.is_leaf and type(tensor) is torch.Tensor

    def op(self, func, args, kwargs):
        if self.passes(func):
            return func(*args, **kwargs)
        whole = self.backend != "none" and _is_distributed((args, kwargs))
        if _Facts.of(func).exchanges and not whole:
            return self.collective(func, args, kwargs)
        event = None
        with self.own:
            if _Facts.of(func).name not in MEMORY:
                event = self.begun_op(func, args, kwargs, whole)
        self.inner = {}
        try:
            if whole and self.sees_inside(func):
                with _Inside(self, True):
                    result = func(*args, **kwargs)
            else:
                result = func(*args, **kwargs)
        except Exception as error:
            with self.own:
                self.put_error(event, error)
            raise
        with self.own:
            if event is not None:
                event.update(self.inner)
                self.put_op(event, func, args, kwargs, result)
        return result

    def begun_op(self, func, args, kwargs, whole):
        event = {"k": "op" if whole else "local_op"}
        self.stamp(event)
        if whole and _Facts.of(func).name in LOSSES:
            if func in DTensor._op_dispatcher._custom_op_handlers:
                event["loss_parallel"] = True
        self.arguments(event, func, args, kwargs)
        if self.inside is None and not _in_backward():
            now = torch.autograd._get_sequence_nr()
            self.own_sequence(now, {name: event[name] for name in ("m", "p") if name in event})
        return event

    @staticmethod
    def name_dtype(event, func, result):
        """That of a new tensor, where the program has set another default."""
        if torch.get_default_dtype() is torch.float32 or not _Facts.of(func).takes_dtype:
            return
        given = event.get("kwargs", {})
        inexact = isinstance(result, torch.Tensor) and (
            result.is_floating_point() or result.is_complex()
        )
        if inexact and given.get("dtype") is None:
            event["kwargs"] = {**given, "dtype": {"dtype": DTYPES[result.dtype]}}

    def promote(self, event, func, args, kwargs, result):
        """Integers that become numbers of another default than f32: by casts in front."""
        default, facts = torch.get_default_dtype(), _Facts.of(func)
        tensors = [x for x in _leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        made = any(isinstance(x, torch.Tensor) and x.dtype is default for x in _leaves(result))
        inexact = any(x.is_floating_point() or x.is_complex() for x in tensors)
        if default is torch.float32 or not made or inexact or facts.takes_dtype:
            return
        if facts.name == "aten::where":
            return  # a condition stays one
        kept = ("k", "pass", "m", "p", "by", "c", "of", "node", "no_grad")
        casts = {}
        for tensor in tensors:
            given = self.describe(tensor)
            if given["v"] in casts:
                continue
            cast = {name: event[name] for name in kept if name in event}
            if event["k"] == "call":
                cast["c"], self.calls = self.calls, self.calls + 1
            dtype = DTYPES[default]
            cast["op"], cast["args"] = "aten._to_copy.default", [{"v": given["v"]}]
            cast["kwargs"] = {"dtype": {"dtype": dtype}}
            casts[given["v"]], self.count = self.count, self.count + 1
            cast["out"] = [{**given, "v": casts[given["v"]], "dtype": dtype}]
            self.file.put(cast)
        for name in ("args", "kwargs"):
            if name in event:
                event[name] = _renumbered(event[name], casts)

    def put_error(self, event, error):
        if event is not None:
            text = (str(error).strip().split("\n") or [""])[0][:200]
            event["error"] = {"class": type(error).__name__, "message": text}
            self.file.put(event)

    def sees_inside(self, func):
        """Whether the moves and collectives of a call of DTensors can be seen: not under a mode of
        the program's own, which must get the call first."""
        for mode in _get_current_dispatch_mode_stack():
            if not type(mode).__module__.startswith(("torch.", __name__)):
                with self.own:
                    self.refuse("a call of DTensors under the mode %s" % type(mode).__name__)
                return False
        return True

    def put_op(self, event, func, args, kwargs, result):
        self.name_dtype(event, func, result)
        self.promote(event, func, args, kwargs, result)
        random = _draws(func, args, kwargs)
        undefined = _Facts.of(func).undefined
        written = _written(func, args, kwargs)
        if undefined:
            for tensor in _leaves(result):
                if isinstance(tensor, torch.Tensor):
                    self.unwritten.add(self.storage_of(tensor))
            event["undefined"] = True
        left = self.still_left(func, written) if self.left else ()
        self.note_writes(written)
        self.leave(left)
        if _Facts.of(func).name == "fsdp::all_gather_copy_in":
            written = []  # this rank's part of its results has been written
        if random:
            event["random"] = True
        tied = _Facts.of(func).text in CHOICES and self.quietly(_tied, func, args, kwargs)
        if tied:
            event["ties"] = True
        chosen = (1,) if tied else VECTORS.get(_Facts.of(func).text, ())
        unseen = (*chosen, 1) if _Facts.of(func).name == "aten::_ctc_loss" else chosen
        event["out"] = [
            self.outcome(x, not random and at not in unseen)
            for at, x in enumerate(_leaves(result))
        ]
        shown = {x["v"] for x in event["out"] if x and "v" in x}
        mut = [x for x in written if self.number(x) not in shown]
        if mut:
            event["mut"] = [self.result(x, not random) for x in mut]
        if random or not self.is_replayed(func):
            drawn = [x for x in _leaves(result) if isinstance(x, torch.Tensor)] + mut
            for own, tensor in zip(
                [x for x in event["out"] if x and "v" in x] + event.get("mut", []), drawn
            ):
                self.add_data(own, tensor)
        for at in chosen:
            self.add_data(event["out"][at], result[at])
        self.file.put(event)
        leaf = self.accumulates()
        if leaf is not None:
            numbers = {x["v"] for x in event["out"] + event.get("mut", []) if x and "v" in x}
            self.pending = leaf, numbers

    def is_replayed(self, func):
        """False for an op that `shardlab` has no row for: its results are in the file."""
        if self.rows is None:
            program = os.environ.get("SHARDLAB_PROGRAM")
            asked = [program, "ops", "--color", "never"]
            done = program and subprocess.run(asked, capture_output=True, text=True, check=False)
            lines = done.stdout.splitlines() if done and done.returncode == 0 else []
            self.rows = {_base_name(line.split(" ")[0]) for line in lines}
        known = not self.rows or not _Facts.of(func).of_aten
        return known or _base_name(_Facts.of(func).name) in self.rows

    def move(self, kind, tensor, fields, run):
        """An event of its own for an action that is no op."""
        event = None
        with self.own:
            event = {"k": kind}
            self.stamp(event)
            self.epoch += 1
            event["in"] = self.number(tensor)
            event.update(fields)
        before, self.inner = self.inner, {}
        self.quiet += 1
        try:
            with _Inside(self, False):
                result = run()
        finally:
            self.quiet -= 1
            inner, self.inner = self.inner, before
        with self.own:
            moved = result[0] if isinstance(result, tuple) else result
            if moved is not None and "in" in event:
                event.update(inner)
                event["out"] = [self.result(moved)]
                self.file.put(event)
        return result

    def add_collective(self, func, args):
        """To the event of the call that runs."""
        name = func._schema.name.split("::")[1].replace("allreduce_", "all_reduce")
        if name in ("wait_tensor", "barrier", "_wrap_tensor_autograd"):
            return
        one = {"c": name}
        for argument, value in zip(func._schema.arguments, args):
            if isinstance(value, str) and "group" in argument.name:
                one["g"] = self.group(value)
            elif isinstance(value, str) and "reduce" in argument.name:
                one["reduce"] = value
            elif isinstance(value, torch.ScriptObject) and "reduce" in argument.name:
                one["reduce"] = self.script_object(value).get("reduce")
        self.inner.setdefault("comm", []).append(one)

    def collective(self, func, args, kwargs):
        """On plain tensors, over a group."""
        name = func._schema.name
        simulated = self.rank == "all" or _is_simulated(args)
        run = func if simulated else lambda *a, **k: _alone_below_modes(func, a, k)
        self.epoch += 1
        if name == "_c10d_functional::_wrap_tensor_autograd":
            return run(*args, **kwargs)
        event = None
        with self.own:
            if name == "c10d::barrier":
                self.put_wait(name="barrier", args=[{"pg": self.group(_group_of(args))}])
            elif name in EXCHANGES:
                event = self.begun_collective(func, args)
            else:
                self.refuse("the message or collective %s" % func)
        result = run(*args, **kwargs)
        if event is not None:
            with self.own:
                work, any_sender = _work_in(result), name == ANY_SENDER
                if not any_sender:
                    self.put_collective(event, name, args, result)
                if work is not None:
                    last = self.exchanged - 1
                    number, given = (event, args) if any_sender else (last, None)
                    self.works[id(work)] = work, number, given, _call_in(_frames_here())
        return result

    def begun_collective(self, func, args):
        event = {"k": "coll"}
        self.stamp(event)
        event["op"] = str(func)
        if func._schema.name.endswith("wait_tensor"):
            self.late.discard(self.known(args[0]))  # its data has not come: it is not checked yet
        elif self.unwritten and func._schema.name in SENT:
            self.give_unseen(func, args)
        event["args"] = [
            {"pg": self.group(value)}
            if isinstance(value, str) and "group" in argument.name
            else self.argument(value)
            for argument, value in zip(func._schema.arguments, args)
        ]
        if _joins_batch():
            event["joins"] = True
        if func._schema.name in MESSAGES:
            labels = self.labels.get(id(_leaves(args[:1])[0]))
            if labels:
                event["label"] = labels.popleft()[0]
        return event

    def put_collective(self, event, name, args, result):
        if EXCHANGES[name] is None:
            ends = name.endswith("wait_tensor") or _is_simulated(args)
            event["out"] = [self.result(result, ends)]
            self.late.update(x["v"] for x in event["out"] if not ends)
        else:
            # A written value may not have arrived: it is checked at its first use.
            place = EXCHANGES[name]
            written = [] if place == () else _leaves(args[place])
            self.note_writes(written)
            event["out"], event["mut"] = [], [self.result(x, False) for x in written]
            if name == "c10d::reduce_" and dist.ProcessGroup.unbox(args[1]).rank() != args[3]:
                self.leave([self.storage_of(x) for x in written])
            else:
                self.late.update(x["v"] for x in event["mut"])
        self.exchanged += 1
        self.file.put(event)

    def put_wait(self, **fields):
        """A step of the rank that is no call: a proof that nothing hangs needs all of them."""
        self.file.put({"k": "wait", **self.places.here(), **fields})

    def note_thread(self):
        """Of a call or a wait: whether it is in no order with those of the recording's thread. One
        thread of autograd is, since the program waits for its end."""
        own = threading.get_ident()
        if _in_backward():
            self.engines.add(own)
        if len(self.engines) > 1 if _in_backward() else own != self.thread:
            self.elsewhere.append(self.places.line_here())

    def wait_for_work(self, wait, work, *args, **kwargs):
        if threading.get_ident() != self.thread:
            self.note_thread()
            return wait(work, *args, **kwargs)
        nothing = (None,) * 4
        _, event, given, call = self.works.pop(id(work), nothing)
        number = None if isinstance(event, dict) else event
        try:
            result = self.quietly_wait(wait, work, *args, **kwargs)
        except Exception:
            with self.own:
                place = {"k": "wait", **self.places.here()}
                self.failed.append((number, place, self.file.events))
            raise
        with self.own:
            if isinstance(event, dict):  # now the sender is known
                event["op"], event["any"] = "c10d.recv_.default", True
                event["args"].insert(2, int(work._source_rank()))
                self.put_collective(event, ANY_SENDER, given, None)
                number = self.exchanged - 1
            if number is not None:
                self.put_wait(of=number)
        return result

    def poll(self, asked, work):
        if not self.quiet and threading.get_ident() == self.thread:
            with self.own:
                place = self.places.here().get("p")
                if place not in self.polled:
                    self.polled.add(place)
                    self.put_wait(name="is_completed()")
        return asked(work)

    def quietly_wait(self, wait, *args, **kwargs):
        """Gloo copies and scales in here, by ops."""
        self.quiet += 1
        self.epoch += 1
        try:
            return _alone(wait, args, kwargs)
        finally:
            self.quiet -= 1

    def resize(self, storage, size):
        """Memory that is freed and reused, with contents that were never written."""
        if not self.quiet:
            with self.own:
                _, number = self.storages.get(storage._cdata, (None, None))
                if number in self.roots:
                    event = {"k": "storage", "v": self.roots[number], "bytes": int(size)}
                    self.file.put(event)
                    if int(size) > 0:
                        self.unwritten.add(number)
        return torch._C.StorageBase.resize_(storage, size)

    def outcome(self, value, print_it):
        if isinstance(value, torch.Tensor):
            return self.result(value, print_it)
        return None if value is None else {"scalar": self.argument(value)}
