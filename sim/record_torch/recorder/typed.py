# Calls of spmd_types: moves of plain tensors, and what the program says of their types.


FUNCTION = type(_finite)


class _Apart(BaseException):
    """The package needs a process for each rank."""


class _AtImport:
    """Sees the package's functions from its import on, before the program takes them by name.
    PyTorch imports it, too: with all ranks in one process a call of the program is refused."""

    def __init__(self, together):
        self.together = together

    def __enter__(self):
        if "spmd_types" in sys.modules:  # PyTorch has imported it before the script
            self.watch()
        else:
            sys.meta_path.insert(0, self)

    def __exit__(self, *error):
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name, path=None, target=None):
        if name != "spmd_types":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            run = spec.loader.exec_module

            def run_and_watch(module):
                run(module)
                self.watch()

            spec.loader.exec_module = run_and_watch
        return spec

    def watch(self):
        importlib.import_module("spmd_types.checker")
        _Typed.together = self.together
        _Typed.watch()


class _Typed:
    """The package with functions that tell the recording that runs of their calls. The package's
    own calls of each other are parts of them."""

    VERSION = "0.3.1"
    MOVES = (
        "all_gather all_reduce all_to_all convert invariant_to_replicate redistribute "
        "reduce_scatter reinterpret shard unshard"
    ).split()
    CLAIMS = (
        "assert_local_type assert_local_type_like assert_type assert_type_like mutate_type "
        "reinterpret_no_grad"
    ).split()
    BOUNDARIES = ("local_map", "no_typecheck")
    # They ask, speak to the checker alone, or make values of types.
    SILENT = (
        "current_mesh current_mesh_all_names current_mesh_names dtensor_placement_to_spmd_type "
        "get_axis_local_type get_local_type get_partition_spec has_local_type is_type_checking "
        "local maybe_get_axis_local_type merge_types normalize_axis normalize_mesh "
        "normalize_partition_spec register_autograd_function register_decomposition "
        "register_local_autograd_function register_local_backward_hook register_no_typecheck "
        "reinterpret_mesh spmd_type_to_dtensor_placement trace traceback_filtering"
    ).split()
    package = None
    together = False  # all ranks are in this process, which the package does not hold
    steps = None  # of a script whose recording may begin at a claim

    @classmethod
    def watch(cls, name="spmd_types"):
        """From here on calls of the package are seen, by whatever name the program has them."""
        package = sys.modules.get(name)
        if package is None or cls.package is not None:
            return
        cls.package, cls.functions, wrapped = package, {}, {}
        for name, function in list(vars(package).items()):
            if type(function) is FUNCTION and name not in cls.SILENT:
                cls.functions[name] = function
                wrapped[function] = cls.wrapper(name, function)
        own = package.__name__ + "."
        for module in list(sys.modules.values()):
            inside = getattr(module, "__name__", own).startswith(own)
            if inside and module is not getattr(package, "checker", None):
                continue
            for key, value in list(getattr(module, "__dict__", {}).items()):
                if type(value) is FUNCTION and value in wrapped:
                    setattr(module, key, wrapped[value])
        checker, name = sys.modules.get(own + "_checker"), "_infer_global_output_type"
        if hasattr(checker, name):
            setattr(checker, name, cls.unseen(getattr(checker, name)))
        rules = sys.modules.get(own + "rules")
        if hasattr(rules, "run_typecheck"):
            rules.run_typecheck = cls.checked(rules.run_typecheck)
        # Ops of the package's own are seen as the ops that they are made of.
        moves = sys.modules.get(own + "_local")
        for name, op in list(getattr(moves, "__dict__", {}).items()):
            if type(op).__name__ == "CustomOpDef" and hasattr(op, "_init_fn"):
                setattr(moves, name, op._init_fn)

    @staticmethod
    def unseen(function):
        """A part of the checker, whose tensors of its own are none of the program's."""

        def quiet(*args, **kwargs):
            recorder = _active
            if recorder is not None:
                recorder.quiet += 1
            try:
                return function(*args, **kwargs)
            finally:
                if recorder is not None:
                    recorder.quiet -= 1

        return quiet

    @classmethod
    def checked(cls, function):
        """Results of an autograd.Function have the types that its spmd_typecheck gives them."""

        @functools.wraps(function)
        def seen(*args):
            result = function(*args)
            cls.claim("spmd_typecheck", _leaves(result))
            return result

        return seen

    @classmethod
    def claim(cls, name, tensors):
        recorder = _active
        if recorder is None or recorder.quiet:
            return
        with recorder.own:
            for one in tensors:
                if isinstance(one, torch.Tensor):
                    recorder.put_claim(name, one, cls.types_of(one))

    @classmethod
    def wrapper(cls, name, function):
        kind = cls.told
        if name in cls.BOUNDARIES:
            kind = cls.boundary
        elif name == "set_current_mesh":
            kind = cls.entered

        @functools.wraps(function)
        def seen(*args, **kwargs):
            if cls.together and name not in cls.BOUNDARIES:
                raise _Apart
            return kind(name, function, args, kwargs)

        return seen

    @classmethod
    def told(cls, name, function, args, kwargs):
        first = args[0] if args else next(iter(kwargs.values()), None)
        if cls.steps is not None and cls.steps.is_due() and not _is_preparing():
            if any(getattr(one, "requires_grad", False) for one in _leaves(first)):
                cls.steps.begin(None)
        recorder = _active
        if recorder is None or recorder.quiet:
            return function(*args, **kwargs)
        with recorder.own:
            recorder.note_package()
            if name not in cls.MOVES and name not in cls.CLAIMS:
                recorder.refuse("spmd_types.%s" % name)
        if name not in cls.MOVES:
            result = function(*args, **kwargs)
            if name in cls.CLAIMS:
                cls.claim(name, _leaves(first))
            return result
        event = None
        with recorder.own:
            event = recorder.begun_move(name, function, args, kwargs)
        changes = any(kwargs.get(key) for key in ("inplace", "op_dtype", "out_dtype"))
        alone = recorder.world == 1 and not changes
        recorder.quiet += alone
        try:
            result = function(*args, **kwargs)
        finally:
            recorder.quiet -= alone
        with recorder.own:
            if alone:
                recorder.put_copy(first, result)
            if event is not None:
                recorder.put_move(event, result, kwargs.get("inplace"))
        return result

    @classmethod
    def boundary(cls, name, function, args, kwargs):
        """A decorator, whose function has results of the types that it is given."""
        made = function(*args, **kwargs)
        if "out_types" not in kwargs:
            return made

        def decorate(body):
            inner = made(body)

            @functools.wraps(body)
            def called(*args, **kwargs_of_call):
                cls.claim_all(name, args, kwargs.get("in_types"))
                result = inner(*args, **kwargs_of_call)
                cls.claim_all(name, result, kwargs["out_types"])
                return result

            return called

        return decorate

    @classmethod
    def claim_all(cls, name, values, types):
        recorder = _active
        if recorder is None or recorder.quiet or types is None or types is cls.package.Infer:
            return
        with recorder.own:
            recorder.note_package()
            found = []
            try:
                tree_map(lambda own, said: found.append((own, said)) or own, values, types)
            except ValueError:
                recorder.refuse("types of %s of another form than its values" % name)
            for own, said in found:
                if isinstance(own, torch.Tensor) and said is not None:
                    recorder.put_claim(name, own, recorder.quietly(cls.types_said, own, said))

    @classmethod
    def types_said(cls, tensor, said):
        """Those that a tensor of its sizes would have."""
        other = torch.empty(_pieces(tensor)[0].shape, device="meta")
        plain = type(said) is tuple
        cls.functions["assert_type"](other, *(said if plain else ({}, said)))
        return cls.types_of(other)

    @classmethod
    def types_of(cls, tensor):
        """What is known of a tensor: its type along each dim, and where several dims cut it."""
        local = cls.package.get_local_type(tensor)
        spec = cls.package.get_partition_spec(tensor)
        cuts = {}
        for dim, entry in enumerate(spec or ()):
            axes = entry if isinstance(entry, tuple) else (entry,) if entry is not None else ()
            for place, axis in enumerate(axes):
                cuts[cls.package.normalize_axis(axis)] = "S(%d)" % dim, place
        found = []
        for axis, kind in local.items():
            text, place = cuts.get(axis, (kind.value, 0))
            found.append({**cls.dim(axis), "type": text, **({"order": place} if place else {})})
        return sorted(found, key=lambda one: [-stride for _, stride in one["of"]])

    @classmethod
    def dim(cls, axis):
        """A dim of a mesh is known by its sizes and strides over the ranks."""
        axis = cls.package.normalize_axis(axis)
        sizes, strides = axis.layout.shape, axis.layout.stride
        if isinstance(sizes, int):
            sizes, strides = (sizes,), (strides,)
        named = cls.package.current_mesh_all_names() or {}
        name = next((name for name, own in named.items() if own == axis), repr(axis))
        return {"dim": name, "of": [[size, max(step, 1)] for size, step in zip(sizes, strides)]}

    @staticmethod
    def type_text(kind):
        return "S(%d)" % kind.dim if hasattr(kind, "dim") else kind.value

    @classmethod
    @contextlib.contextmanager
    def entered(cls, name, function, args, kwargs):
        with function(*args, **kwargs):
            if _active is not None and not _active.quiet:
                with _active.own:
                    axes = cls.package.current_mesh()
                    _active.put_typed(name, {"args": [], "types": [cls.dim(axis) for axis in axes]})
            yield


class _Types:
    """The part of a Recorder that writes calls of spmd_types down."""

    noted = False
    said = 0  # claims and moves so far

    def note_package(self):
        """The version, of which the rules of types are those of one."""
        if self.noted:
            return
        self.noted = True
        try:
            version = importlib.metadata.version("spmd_types")
        except importlib.metadata.PackageNotFoundError:  # a copy of its sources
            version = "of unknown version"
        if version != _Typed.VERSION:
            sys.stderr.write(
                "shardlab_record: spmd_types %s: types are judged by the rules of %s\n"
                % (version, _Typed.VERSION)
            )
        self.file.put({"k": "package", "name": "spmd_types", "version": version})

    def put_typed(self, name, fields):
        self.note_package()
        self.file.put({"k": "typed", "call": name, **self.places.here(), **fields})

    def put_claim(self, name, tensor, types):
        self.put_typed(name, {"args": [{"v": self.number(tensor)}], "types": types})
        self.watch_flow(tensor, types)

    def watch_flow(self, tensor, types):
        """The gradient that reaches a value of which something was said. A hook of the tensor would
        be seen by the program; the node that made the value has one."""
        number, self.said = self.said, self.said + 1
        node, place = tensor.grad_fn, tensor.output_nr
        if node is None or all(one["type"] not in "RI" for one in types):
            return
        told = {"of": number, "types": types, **self.places.here()}

        def reached(gradients):
            gradient = gradients[place]
            if gradient is not None and _active is self and not self.quiet:
                with self.own:
                    self.put_typed("gradient", {"args": [{"v": self.number(gradient)}], **told})

        node.register_prehook(reached)

    def begun_move(self, name, function, args, kwargs):
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        axis = _Typed.dim(given["axis"])
        if self.world > 1 and math.prod(size for size, _ in axis["of"]) == 1:
            return None  # one process has all of them, to compare with
        sides = {"invariant_to_replicate": ("I", "R")}.get(name)
        if sides is None:
            sides = [_Typed.type_text(given[side]) for side in ("src", "dst")]
        event = {"k": "typed", "call": name, "args": [{"v": self.number(given["x"])}]}
        event["types"] = [{**axis, "type": kind} for kind in sides]
        return {**event, **self.places.here()}

    def put_copy(self, x, result):
        """A move on one process, whose collectives give what they take; V has a dim of its own."""
        if self.key(result) in self.numbers:
            return
        func, given = torch.ops.aten.clone.default, (x,)
        if result.dim() != x.dim():
            more = result.dim() > x.dim()
            func = torch.ops.aten.unsqueeze.default if more else torch.ops.aten.select.int
            given = (x, 0) if more else (x, 0, 0)
        self.taking_call = True
        event = self.begun_call(func, given, {})
        self.taking_call, self.inside = False, event["c"]
        self.put_op(self.begun_op(func, given, {}, False), func, given, {}, result)
        self.inside = None
        self.own_sequence(torch.autograd._get_sequence_nr(), {"of": event["c"]})
        event["out"] = [self.outcome(result, False)]
        self.file.put(event)

    def put_move(self, event, result, inplace):
        """With inplace=True nothing is left of the operand: the result alone is said."""
        result_type = event["types"][1:]
        if inplace:
            event["args"], event["types"] = [], result_type
        event["args"].append({"v": self.number(result)})
        self.file.put(event)
        self.watch_flow(result, result_type)
