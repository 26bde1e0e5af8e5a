# Things that the program does around ops: modules, gradients, functions, reads.


def _holders():
    """By id, each module that there is and the one that holds it, or None; both weakly."""
    modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
    holders = {id(one): (weakref.ref(one), None) for one in modules}
    for one in modules:
        for part in (one.__dict__.get("_modules") or {}).values():
            if part is not None:
                holders[id(part)] = weakref.ref(part), weakref.ref(one)
    return holders


class _Stepping:
    """Optimizers that step: one may have another one inside, whose end is not that of the step."""

    def __init__(self):
        self.all = []  # the outer ones first

    def begins(self, optimizer):
        while any(one is optimizer for one in self.all):  # left by an exception
            self.all.pop()
        self.all.append(optimizer)

    def ends(self, optimizer):
        """Whether no other one is left."""
        while self.all and self.all.pop() is not optimizer:
            pass
        return not self.all


class _Program:
    """The part of a Recorder that sees modules, gradients and functions."""

    def refuse(self, what):
        place = self.places.here().get("p")
        node = torch._C._current_autograd_node() if place is None and _in_backward() else None
        if node is not None:
            place = self.owners.get(node._sequence_nr(), {}).get("p")
        text = "" if place is None else self.places.text(place)
        times, first = self.refused.get(what, (0, text))
        self.refused[what] = [times + 1, first]

    def learn(self, model):
        begin = self.names.prefixes[id(model)]
        for path, module in model.named_modules():
            path = begin + plain_path(path) if path else begin[:-1] or type(module).__name__
            if self.known_path(module) is None:
                self.paths[id(module)] = weakref.ref(module), path
        for name, own in self.names.tensors_of(model) if self.level == "pieces" else ():
            if isinstance(own, DTensor) and own.requires_grad:
                self.watch_gradient(own, name)  # its piece is no leaf

    def known_path(self, module):
        kept, path = self.paths.get(id(module), (None, None))
        return path if kept is not None and kept() is module else None

    def path_of(self, module):
        if self.known_path(module) is None:
            model = self.outermost(module)
            if self.names.has(model):  # it has got the module since
                model = module
            self.names.add(model)
            self.learn(model)
        return self.known_path(module)

    def outermost(self, module):
        """The model that holds the module. A stage of a pipeline calls parts of a model that nobody
        calls as a whole: their names are those in the model, which no other part has."""
        met = set()
        while id(module) not in met and next(module.parameters(), None) is not None:
            met.add(id(module))
            kept, holder = self.holders.get(id(module), (None, None))
            if kept is None or kept() is not module:
                self.holders = _holders()
                kept, holder = self.holders.get(id(module), (None, None))
            above = holder() if holder is not None else None
            module = module if above is None else above
        return module

    def name_batch(self, module, args):
        # A hook for keywords would hang on the module; they are in the frame that calls this one.
        kwargs, frame = {}, sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "_call_impl":
            frame = frame.f_back
        if frame is not None and frame.f_locals.get("self") is module:
            kwargs = frame.f_locals.get("kwargs", {})
        try:
            bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
        except (TypeError, ValueError):
            return
        root = self.path_of(module)
        for name, value in bound.arguments.items():
            if isinstance(value, torch.Tensor) and self.names.given.get(value) is None:
                self.names.given.set(value, "%s.%s" % (root, name))

    def module_begins(self, module, args):
        if self.quiet:
            return
        with self.own:
            path = self.path_of(module)
            if self.states and not self.modules and torch.is_grad_enabled():
                if any(self.is_changed(own) for own in module.parameters()):
                    self.stepped()
            if id(module) in self.takes_batches:
                self.name_batch(module, args)
            inputs = [] if _in_backward() else self.seen(args)
            self.modules.append((path, self.calls, inputs))

    def module_ends(self, module, args, output):
        if not self.quiet and self.modules:
            with self.own:
                self.put_module(module, output)

    def put_module(self, module, output):
        path, first, inputs = self.modules.pop()
        if _in_backward():
            return
        event = {"k": "module", "m": path, "class": type(module).__name__}
        event.update({"in": inputs, "out": self.seen(output), "c": [first, self.calls]})
        self.file.put(event)

    def transformed(self):
        """True inside of a transform of torch.func, whose tensors have no memory."""
        if torch._C._functorch.peek_interpreter_stack() is None:
            return False
        self.refuse("a transform of torch.func")
        return True

    def seen(self, values):
        """Numbers of the tensors that have one."""
        if self.transformed():
            return []
        tensors = [x for x in _leaves(values) if isinstance(x, torch.Tensor)]
        numbers = [self.known(x) for x in tensors]
        return [number for number in numbers if number is not None]

    def optimizer_begins(self, optimizer, args, kwargs):
        self.stepping.begins(optimizer)
        self.phase = "opt"
        if all(kept() is not optimizer for kept in self.names.optimizers):
            self.names.optimizers.append(weakref.ref(optimizer))

    def optimizer_ends(self, optimizer, args, kwargs):
        self.phase = "fwd" if self.stepping.ends(optimizer) else "opt"

    def ask(self, which, *args, **kwargs):
        """The engine's own answer; a mode of functions may pass the request on as another."""
        self.asking = True
        try:
            return self.engine[which](*args, **kwargs)
        finally:
            self.asking = False

    def is_asked(self):
        return not self.quiet and not self.asking and not _in_backward()

    def backward(self, tensors, grad_tensors=None, *args, **kwargs):
        if not self.is_asked():
            return self.engine[0](tensors, grad_tensors, *args, **kwargs)
        tensors, grad_tensors, *args = (_to_keep(x) for x in (tensors, grad_tensors, *args))
        kwargs = {name: _to_keep(x) for name, x in kwargs.items()}
        with self.own:
            self.accumulated = set()
            self.put_backward(_BACKWARD, tensors, grad_tensors, args, kwargs)
        result = self.ask(0, tensors, grad_tensors, *args, **kwargs)
        with self.own:
            self.settle(True)
            self.put_gradients_of_libraries()
            self.made_gradients()
        return result

    def grad(self, outputs, inputs, grad_outputs=None, *args, **kwargs):
        if not self.is_asked():
            return self.engine[1](outputs, inputs, grad_outputs, *args, **kwargs)
        outputs, inputs, grad_outputs = (_to_keep(x) for x in (outputs, inputs, grad_outputs))
        with self.own:
            given = (inputs, grad_outputs, *args)
            self.put_backward(_GRAD, outputs, grad_outputs, given, kwargs)
        result = self.ask(1, outputs, inputs, grad_outputs, *args, **kwargs)
        with self.own:
            self.settle(True)
            if not self.transformed():
                event = {"k": "gradients", **self.places.here()}
                event["out"] = [None if x is None else self.result(x) for x in _leaves(result)]
                self.file.put(event)
        return result

    def put_backward(self, signature, tensors, gradients, args, kwargs):
        if signature is _BACKWARD:
            args = (gradients, *args)
        try:
            bound = signature.bind(tensors, *args, **kwargs).arguments
        except TypeError:
            return  # as the engine will say
        of = [x for x in _leaves(tensors) if isinstance(x, torch.Tensor)]
        event = {"k": "backward", "of": self.seen(of), **self.places.here()}
        through = [self.passed_by(x) for x in of]
        if any(x is not None for x in through):
            event["through"] = through
        given = _leaves(gradients)
        if any(x is not None for x in given):
            event["grads"] = [None if x is None else self.number(x) for x in given]
        if bound.get("inputs") is not None:
            event["to" if "outputs" in bound else "only"] = self.seen(bound["inputs"])
        for name in ("retain_graph", "create_graph"):
            if bound.get(name):
                event[name] = True
        self.file.put(event)

    def function(self, cls, *args, **kwargs):
        """An autograd.Function: its calls carry no gradient, and its backward is its own."""
        apply = _apply_of(cls)
        library = cls.__module__.startswith("torch.distributed.")
        if self.quiet or _in_backward() or self.phase != "fwd" or library:
            return apply(*args, **kwargs)
        if cls.__module__ == "torch.utils.checkpoint":
            return self.checkpointed(apply, args, kwargs)
        event, first, known = None, self.calls, self.count
        with self.own:
            if not self.transformed():
                event = self.begun_function(cls, args, kwargs)
                known = self.count
        result = apply(*args, **kwargs)
        if event is not None:
            with self.own:
                event["calls"], event["known"] = [first, self.calls], known
                self.put_function(event, result)
        return result

    def begun_function(self, cls, args, kwargs):
        event = {"k": "function", "name": cls.__qualname__, **self.places.here()}
        if self.reentrant:
            event["reentrant"] = True
        if self.modules:
            event["m"] = self.modules[-1][0]
        event["args"] = self.numbered(args)
        self.mark_detached(event, args, kwargs)
        return event

    def put_function(self, event, result):
        known = event["known"]
        results = result if isinstance(result, tuple) else (result,)
        event["out"] = [None if x is None else x["v"] for x in self.numbered(results)]
        taped = [x for x in results if isinstance(x, torch.Tensor) and x.grad_fn is not None]
        event["constant"] = [not any(x is own for own in taped) for x in results]
        if taped:
            node = taped[0].grad_fn._sequence_nr()
            event["f"] = self.functions[node] = len(self.functions)
            self.own_sequence(node, {})
            self.own_sequence(node + 1, {x: event[x] for x in ("m", "p") if x in event})
            self.again.update(x["v"] for x in self.numbered(taped) if x["v"] < known)
        self.file.put(event)

    def checkpointed(self, apply, args, kwargs):
        """use_reentrant=True: calls without gradients, which are recomputed with them."""
        self.reentrant += 1
        try:
            return apply(*args, **kwargs)
        finally:
            self.reentrant -= 1

    def run_rule(self, node, gradients):
        """The backward of an autograd.Function: its gradient rule for other meshes."""
        number = self.functions.get(node._sequence_nr())
        if self.quiet or self.rule is not None or number is None:
            return self.apply_rule(node, *gradients)
        event = None
        with self.own:
            self.settle()
            event = {"k": "rule", "f": number, "args": self.numbered(gradients)}
        self.rule = number
        try:
            result = self.apply_rule(node, *gradients)
        finally:
            self.rule = None
        with self.own:
            results = self.numbered(result if isinstance(result, tuple) else (result,))
            if event is not None:
                event["out"] = [None if x is None else x["v"] for x in results]
                self.file.put(event)
        return result

    def numbered(self, values):
        """Tensors by number, other values as None. Nothing is read: data may be on its way."""
        found = []
        for x in values:
            if isinstance(x, torch.Tensor):
                known = self.known(x)
                found.append({"v": self.number(x) if known is None else known})
            else:
                found.append(None)
        return found

    def passed_by(self, tensor):
        """The autograd.Function that has returned the tensor as it was, or None."""
        number = self.known(tensor) if self.again else None
        node = tensor.grad_fn if number in self.again else None
        while node is not None and node._sequence_nr() not in self.functions:
            views = node.name().startswith(("View", "Alias", "Unsafe", "ToCopy", "Expand"))
            node = node.next_functions[0][0] if views else None
        return None if node is None else self.functions[node._sequence_nr()]

    def mark(self, told, value, taped):
        """Operands that have the number of another one, and another gradient."""
        if isinstance(value, (list, tuple)):
            for one, own in zip(told, value):
                self.mark(one, own, taped)
        elif isinstance(value, torch.Tensor):
            function = self.passed_by(value)
            if function is not None:
                told["f"] = function
            if value.requires_grad and told["v"] in taped:
                told["taped"] = True

    def read(self, tensor, tolist):
        """Numbers of a tensor, which the program uses from here on."""
        numbers = tolist(tensor)
        if self.quiet == 0 and type(tensor) in PLAIN:
            with self.own:
                number = self.known(tensor) if tensor.numel() <= 64 else None
                if number is not None:
                    event = {"k": "read", "in": [number], **self.places.here()}
                    event["out"] = [{"scalar": [self.argument(x) for x in _leaves(numbers)]}]
                    self.file.put(event)
        return numbers

    def share(self, tensor, numpy, kwargs):
        array = numpy(tensor, **kwargs)
        if self.quiet == 0 and type(tensor) in PLAIN:
            with self.own:
                if tensor.numel() > 0:
                    storage = self.storage_of(tensor)
                    print_ = self.quietly(_fingerprint, tensor)
                    view = tensor.dtype, tensor.storage_offset(), tensor.shape, tensor.stride()
                    self.shared[storage] = view, print_, self.writes.get(storage, 0)
        return array

    def check_unseen(self, tensor):
        """True when the tensor was written by something that is no op: compiled code, numpy."""
        if type(tensor) not in PLAIN or tensor.is_inference() or tensor._is_view():
            return  # the memory of a view counts its writes elsewhere
        storage = self.storage_of(tensor)
        version, writes = tensor._version, self.writes.get(storage, 0)
        before = self.versions.get(tensor)
        # Another handle of this memory may have got the number of one that is gone.
        now = (storage, writes, self.epoch, tensor._cdata)
        if before and before[1] == now and version > before[0]:
            self.refuse("a write to a tensor that no op has made")
        self.versions.set(tensor, (version, now))
        view, print_, seen = self.shared.get(storage, ((None,), None, 0))
        if view[0] is tensor.dtype:
            now = self.quietly(lambda: _fingerprint(_view_of(tensor, *view[1:])))
            if now != print_ and seen == writes:
                self.refuse("a write through numpy")
            self.shared[storage] = view, now, writes

    def note_writes(self, tensors):
        for tensor in tensors:
            piece = _pieces(tensor)[0]
            storage = self.storage_of(tensor)
            if storage in self.unwritten and not isinstance(piece, FakeTensor):
                self.partly[storage] = piece.untyped_storage().nbytes()
            if storage in self.partly:
                self.partly[storage] -= piece.numel() * piece.element_size()
                if self.partly[storage] <= 0:
                    del self.partly[storage]
            self.unwritten.discard(storage)
            self.left.discard(storage)
            self.writes[storage] = self.writes.get(storage, 0) + 1
            name, shape = self.leaf_of.get(storage, (None, None))
            fresh = name is not None and name not in self.written
            if fresh and self.told and tensor.shape == shape:
                self.written[name] = tensor.detach()

    def leave(self, storages):
        """Of a reduce, on ranks that are not its root: gloo leaves anything there."""
        self.left.update(storages)
        self.unwritten.update(storages)

    def still_left(self, func, written):
        """Memory with anything in it that an op has changed in place: by a factor, for example."""
        if _Facts.of(func).seeded or _Facts.of(func).name.endswith(("copy_", "fill_", "zero_")):
            return ()
        return self.left.intersection(self.storage_of(x) for x in written)

    def watch_gradient(self, leaf, name):
        """Its gradient is written when backward has made it. A hook would hang on the leaf: ops of
        the node that accumulates show it."""
        if self.leaves.get(leaf) is None:
            self.leaves.set(leaf, name)
            self.leaf_of[self.storage_of(leaf)] = name, leaf.shape

    def made_gradients(self):
        """Keeps what the leaves are now, for steps of optimizers that torch knows nothing of."""
        if self.stepped is not None:
            for model in self.names.models:
                for own in model.parameters():
                    if own.grad is not None and self.is_forward():
                        self.keep_state(own)

    def is_forward(self):
        return not _in_backward() and self.phase == "fwd"

    def state_of(self, leaf):
        """Its memory, and how often the program has written to it."""
        storage = self.storage_of(self.recorded_part(leaf))
        return storage, self.writes.get(storage, 0)

    def keep_state(self, leaf):
        kept = None if isinstance(leaf, torch.nn.Parameter) else leaf
        self.states[id(leaf)] = kept, self.state_of(leaf)

    def is_changed(self, leaf):
        """Whether the program has written to a leaf since its gradient was made."""
        if id(leaf) not in self.states or not self.is_forward():
            return False
        return self.states[id(leaf)][1] != self.state_of(leaf) and not self.optimizing()

    @staticmethod
    def optimizing():
        """In the closure of an optimizer of torch, whose step goes on."""
        frame = sys._getframe()
        while frame is not None and os.path.join(TORCH, "optim") not in frame.f_code.co_filename:
            frame = frame.f_back
        return frame is not None

    def accumulates(self):
        """The leaf whose gradient is being accumulated, if it is watched."""
        node = torch._C._current_autograd_node() if _in_backward() else None
        if node is None or not node.name().endswith("AccumulateGrad"):
            return None
        return node.variable if self.leaves.get(node.variable) is not None else None

    def settle(self, over=False):
        """The gradient as backward leaves it, before the program scales or clips it: where the next
        thing happens. The node may run ops before it sets the gradient."""
        if self.pending is None:
            return
        leaf, numbers = self.pending
        gradient = leaf.grad
        if gradient is not None and (over or self.known(gradient) in numbers):
            self.pending = None
            if id(leaf) not in self.accumulated or not self.is_told(leaf, gradient):
                self.put_gradient(leaf, gradient)
        elif over:
            self.pending = None

    def put_gradient(self, leaf, gradient):
        number = self.number(gradient)
        event = {"k": "check", "name": self.leaves.get(leaf) + ".grad", "pass": "bwd"}
        event.update(self.result(gradient))
        self.file.put(event)
        self.accumulated.add(id(leaf))
        writes = self.writes.get(self.storage_of(self.recorded_part(gradient)), 0)
        self.told[id(leaf)] = number, writes
        if self.stepped is not None:
            self.keep_state(leaf)

    def put_gradients_of_libraries(self):
        """Those that no node of autograd has set: FSDP's."""
        for model in self.names.models:
            for _, own in self.names.tensors_of(model):
                gradient = own.grad
                mine = isinstance(own, DTensor) and gradient is not None
                if not mine or id(own) in self.accumulated or self.leaves.get(own) is None:
                    continue
                if not self.is_told(own, gradient):
                    self.put_gradient(own, gradient)

    def is_told(self, leaf, gradient):
        """DDP runs ops in the node, behind the gradient."""
        writes = self.writes.get(self.storage_of(self.recorded_part(gradient)), 0)
        return self.told.get(id(leaf)) == (self.known(gradient), writes)

    def stamp(self, event):
        """Phase, module, place and call of an op; of a gradient, those of its forward call."""
        if _in_backward():
            event["pass"] = "bwd"
            node = torch._C._current_autograd_node()
            self.settle(self.pending is not None and self.accumulates() is not self.pending[0])
            if node is not None:
                event["node"] = node.name().replace("torch::autograd::", "")
                owner = self.owners.get(node._sequence_nr())
                if owner is not None:
                    event.update(owner)
            if self.modules:
                event["recompute"], event["m"] = True, self.modules[-1][0]
            elif self.places.is_in_hook():
                event.update(self.places.here())
                if self.rule is None:
                    event["node"] = "hook"
        else:
            event["pass"] = self.phase
            if self.modules:
                event["m"] = self.modules[-1][0]
            event.update(self.places.here())
        if self.inside is not None:
            event["c"] = self.inside
        if self.rule is not None:
            event["f"] = self.rule

    def own_sequence(self, end, owner):
        for number in range(self.last_sequence, end):
            self.owners[number] = owner
        self.last_sequence = max(self.last_sequence, end)
