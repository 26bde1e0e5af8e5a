# Modes that see ops, and functions of DTensor that are no ops.


class _Below(TorchDispatchMode):
    """Sees the results that autograd has made of a call."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.recorder.level == "pieces" and _is_distributed((args, kwargs or {})):
            return NotImplemented  # DTensor's turn, whose ops on pieces come here
        return self.recorder.op(func, args, kwargs or {})


class _Above(SchemaCheckMode):
    """Sees calls as autograd does. The base class is the one that PyTorch lets onto this stack."""

    def __init__(self, recorder):
        super().__init__()
        self._dispatch_key = torch._C.DispatchKey.PreDispatch
        self.recorder = recorder

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        # Python's dispatcher, without which nothing is seen here, has decompositions of its own.
        with no_python_dispatcher():
            return self.recorder.call(func, args, kwargs or {})


def _traces(function):
    with no_python_dispatcher():
        return function()


class _Inside(TorchDispatchMode):
    """Active while a call of DTensors or a move runs: its collectives. The call itself is passed on
    to DTensor once."""

    def __init__(self, recorder, first):
        super().__init__()
        self.recorder, self.first = recorder, first

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.namespace in COLLECTIVES:
            self.recorder.add_collective(func, args)
            if self.recorder.rank != "all" and not _is_simulated(args):
                return _alone_below_modes(func, args, kwargs)
        elif self.first and _is_distributed((args, kwargs)):
            self.first = False
            return NotImplemented
        return func(*args, **kwargs)


def _listed(op_info):
    """Of each flat argument whether it is in a list."""
    count, tree = len(op_info.flat_args_schema), op_info.args_tree_spec
    if tree is None:
        return [False] * count
    given = tree_unflatten(list(range(count)), tree)
    return [isinstance(one, (list, tuple)) for one in given for _ in tree_leaves(one)]


class _OnTop:
    """Keeps a mode above those that the program enters: one that passes calls of DTensors on would
    pass them on past it."""

    def __init__(self, own):
        self.own = own
        self.kept = TorchDispatchMode.__enter__, TorchDispatchMode.__exit__
        TorchDispatchMode.__enter__ = lambda mode: self.below(mode, 0, ())
        TorchDispatchMode.__exit__ = lambda mode, *error: self.below(mode, 1, error)

    def end(self):
        TorchDispatchMode.__enter__, TorchDispatchMode.__exit__ = self.kept

    def below(self, mode, at, error):
        stack = _get_current_dispatch_mode_stack()
        ours = isinstance(mode, (_Below, _Above, _Inside)) or not stack or stack[-1] is not self.own
        if ours or mode.__dict__.get("_dispatch_key") is not None:
            return self.kept[at](mode, *error)
        _pop_mode()
        try:
            return self.kept[at](mode, *error)
        finally:
            _push_mode(self.own)


# Methods of a process group by which Python posts calls.
POSTS = (
    "allgather", "_allgather_base", "allgather_into_tensor_coalesced", "allreduce",
    "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "recv",
    "recv_anysource", "reduce", "reduce_scatter", "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced", "scatter", "send",
)
# Methods of a pipeline stage that give the messages of a microbatch, what they are, and whether
# they are received.
_MESSAGES_OF_STAGES = (
    ("get_fwd_recv_ops", "F%d of stage %d", True),
    ("get_bwd_recv_ops", "B%d of stage %d", True),
    ("get_fwd_send_ops", "F%d of stage %d", False),
    ("get_bwd_send_ops", "B%d of stage %d", False),
)


def _targets(stage, text, count):
    """The stage that each message of a microbatch is for; empty if that is not known. The first
    stage, and a release of other names, has no list."""
    if text[0] == "F":
        sent = getattr(stage, "act_send_info", {})
        lists = [sent[place] or () for place in sorted(sent)]
    else:
        lists = [getattr(stage, "grad_send_info", None) or ()]
    stages = [one for targets in lists for one in targets if one is not None]
    return stages if len(stages) == count else []


CALLBACKS = ("then", "add_done_callback")


def _behind_work(function):
    """Takes a callback of a future when its work is over, so that it runs here, where its ops are
    seen, and not on a thread of the backend."""

    @functools.wraps(function)
    def taken(future, callback):
        with contextlib.suppress(Exception):  # the callback is told of it
            future.wait()
        return function(future, callback)

    return taken


class _Moves:
    """Moves between placements, and between DTensors and their pieces, are no ops: the static
    methods that make them are replaced while a recording runs."""

    def __init__(self, recorder):
        self.recorder, self.undo = recorder, []
        if DTensor.__module__ == __name__:
            return
        if recorder.level == "pieces":
            names = "_propagate_tensor_meta_non_cached", "_propagate_tensor_meta"  # of older ones
            name = next(name for name in names if hasattr(ShardingPropagator, name))
            self.replace_quietly(ShardingPropagator, name)
        else:
            self.replace_all()
        work, storage = torch._C._distributed_c10d.Work, torch.UntypedStorage
        wait, resize = work.wait, storage.__dict__.get("resize_")
        self.undo += [(work, "wait", wait), (storage, "resize_", resize)]
        work.wait = lambda own, *args, **kwargs: recorder.wait_for_work(wait, own, *args, **kwargs)
        completed = work.is_completed
        self.undo.append((work, "is_completed", completed))
        work.is_completed = lambda own: recorder.poll(completed, own)
        storage.resize_ = lambda own, size: recorder.resize(own, size)
        for name in CALLBACKS:
            function = getattr(torch._C.Future, name)
            self.undo.append((torch._C.Future, name, function))
            setattr(torch._C.Future, name, _behind_work(function))
        for name in POSTS:
            self.watch_posts(torch._C._distributed_c10d.ProcessGroup, name)
        pipeline = sys.modules.get("torch.distributed.pipelining.stage")
        for name, text, receives in _MESSAGES_OF_STAGES if pipeline else ():
            self.label(pipeline._PipelineStageBase, name, text, receives)

        # They would take Python's dispatcher, without which calls are not seen, for a compiler.
        original = functional_collectives._are_we_tracing
        self.undo.append((functional_collectives, "_are_we_tracing", original))
        functional_collectives._are_we_tracing = lambda: _traces(original)

        for name in OBJECTS:
            for owner in (dist, dist.distributed_c10d):
                self.replace_objects(owner, name)

    def replace_all(self):
        move = dtensor_redistribute.Redistribute
        self.replace(move, "forward", self.redistribute)
        nested = getattr(dtensor_redistribute, "NestedRedistribute", None)
        if nested is None:
            self.replace(move, "backward", self.redistribute_bwd)
        else:
            self.replace(nested, "forward", self.redistribute_bwd)
        self.replace(dtensor_api._ToTorchTensor, "forward", self.to_local)
        self.replace(dtensor_api._ToTorchTensor, "backward", self.to_local_bwd)
        self.replace(dtensor_api._FromTorchTensor, "forward", self.from_local)
        self.replace(dtensor_api._FromTorchTensor, "backward", self.from_local_bwd)
        self.replace(dtensor_dispatch.OpDispatcher, "redistribute_local_args", self.implicit)

    def replace_quietly(self, owner, name, run=None):
        """A function whose ops are no part of the program: DTensor finds out shapes by such."""
        function = getattr(owner, name)

        def quietly(*args, **kwargs):
            self.recorder.quiet += 1
            try:
                return (run or function)(*args, **kwargs)
            finally:
                self.recorder.quiet -= 1

        setattr(owner, name, quietly)
        self.undo.append((owner, name, function))

    def watch_posts(self, owner, name):
        post, recorder = getattr(owner, name, None), self.recorder
        if post is None:
            return  # of another release

        def posts(*args, **kwargs):
            recorder.note_thread()
            return post(*args, **kwargs)

        self.undo.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, posts)

    def label(self, owner, name, text, receives):
        """Messages know what they are, so that crossed ones of one shape are told apart."""
        function, labels = getattr(owner, name), self.recorder.labels

        def labelled(stage, microbatch):
            ops = function(stage, microbatch)
            own = [stage.stage_index] * len(ops)
            for op, to in zip(ops, own if receives else _targets(stage, text, len(ops))):
                kept = labels.setdefault(id(op.tensor), collections.deque())
                kept.append((text % (microbatch, to), op.tensor))
            return ops

        setattr(owner, name, labelled)
        self.undo.append((owner, name, function))

    def replace_objects(self, owner, name):
        """Python's objects, pickled: numbers of the program, and no tensors of it."""
        function = getattr(owner, name)
        self.replace_quietly(owner, name, lambda *args, **kwargs: _alone(function, args, kwargs))

    def replace(self, owner, name, make):
        original = owner.__dict__[name]
        function = original.__func__ if isinstance(original, staticmethod) else original

        def replacement(*args, **kwargs):
            if self.recorder.quiet:
                return function(*args, **kwargs)
            return make(function, *args, **kwargs)

        setattr(owner, name, staticmethod(replacement))
        self.undo.append((owner, name, original))

    def end(self):
        for owner, name, original in self.undo:
            if original is None:
                delattr(owner, name)  # of a class below it
            else:
                setattr(owner, name, original)

    def redistribute(self, function, ctx, tensor, mesh, placements, *rest):
        fields = {"from": _placements(tensor), "to": [_placement(x) for x in placements]}
        run = lambda: function(ctx, tensor, mesh, placements, *rest)
        return self.recorder.move("redistribute", tensor, fields, run)

    def redistribute_bwd(self, function, ctx, gradient, *rest):
        run = lambda: function(ctx, gradient, *rest)
        if gradient is None:
            return run()
        spec = rest[0] if rest else ctx.current_spec
        fields = {"from": _placements(gradient), "forward_from": _placements(spec)}
        return self.recorder.move("redistribute_bwd", gradient, fields, run)

    def to_local(self, function, ctx, tensor, *rest):
        run = lambda: function(ctx, tensor, *rest)
        return self.recorder.move("to_local", tensor, {"from": _placements(tensor)}, run)

    def to_local_bwd(self, function, ctx, gradient):
        run = lambda: function(ctx, gradient)
        if gradient is None:
            return run()
        given = getattr(ctx, "grad_placements", None)
        labels = ctx.dtensor_spec.placements if given is None else given
        fields = {"forward_from": [_placement(x) for x in labels]}
        return self.recorder.move("to_local_bwd", gradient, fields, run)

    def from_local(self, function, ctx, tensor, mesh, placements, *rest):
        fields = {"to": [_placement(x) for x in placements]}
        run = lambda: function(ctx, tensor, mesh, placements, *rest)
        return self.recorder.move("from_local", tensor, fields, run)

    def from_local_bwd(self, function, ctx, gradient):
        run = lambda: function(ctx, gradient)
        if gradient is None:
            return run()
        given = getattr(ctx, "grad_placements", None)
        if given is None:
            given = getattr(ctx, "forward_input_placements", None)
        if given is None:
            given = getattr(ctx, "previous_placement", ())  # before 2.11
        fields = {"from": _placements(gradient), "forward_to": [_placement(x) for x in given]}
        return self.recorder.move("from_local_bwd", gradient, fields, run)

    def implicit(self, function, op_info, schema, *rest):
        """Operands that a call has moved by itself."""
        wanted = schema.args_schema
        if op_info.args_tree_spec is not None:
            wanted = tree_leaves(wanted, is_leaf=lambda spec: isinstance(spec, DTensorSpec))
        operand = -1
        for spec, target, listed in zip(op_info.flat_args_schema, wanted, _listed(op_info)):
            if not isinstance(spec, DTensorSpec):
                operand += spec is None and listed  # x[:, i] has an operand for each dim
                continue
            operand += 1
            if isinstance(target, DTensorSpec) and spec.placements != target.placements:
                move = {"t": operand, "from": _placements(spec), "to": _placements(target)}
                self.recorder.inner.setdefault("redist", []).append(move)
        return function(op_info, schema, *rest)
