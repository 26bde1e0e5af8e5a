# A script for GPUs on a CPU: questions about CUDA are answered, and tensors stay where they are.


def _synchronize(*args, **kwargs):
    """The host waits for its device: a step of a proof."""
    if _active is not None and not _active.quiet:
        with _active.own:
            _active.put_wait(name="synchronize")


class _Nothing:
    """A stream, an event or a pool of CUDA: every method does nothing, in `with` too."""

    def __init__(self, *args, **kwargs):
        self.device, self.cuda_stream = torch.device("cpu"), 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def elapsed_time(self, other):
        return 1.0

    def query(self):
        return True

    def record_event(self, event=None):
        return event or _Nothing()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class _Properties:
    name, major, minor, total_memory, multi_processor_count = "CPU", 9, 0, 80 << 30, 132
    warp_size, max_threads_per_multi_processor, gcnArchName = 32, 2048, ""
    shared_memory_per_block, regs_per_multiprocessor, L2_cache_size = 48 << 10, 64 << 10, 50 << 20


def _is_gpu(value):
    """Whether an argument names a GPU. Numbers do, where a device is expected: not asked here."""
    if isinstance(value, str):
        return value == "cuda" or value.startswith("cuda:")
    return isinstance(value, torch.device) and value.type == "cuda"


def _moved(value):
    if isinstance(value, str) and value.startswith("torch.cuda."):  # the name of a type
        return value.replace("cuda.", "")
    return torch.device("cpu") if _is_gpu(value) else value


def _placed(device):
    """As _moved(), and where a number is that of a GPU."""
    return torch.device("cpu") if type(device) is int else _moved(device)


def _normalize(own, x):
    """SyncBatchNorm, which PyTorch has for GPUs alone: sums of all ranks by ops with gradients."""
    group = (own.process_group or dist.group.WORLD) if dist.is_initialized() else None
    if group is None or not own.training or dist.get_world_size(group) == 1:
        return torch.nn.modules.batchnorm._BatchNorm.forward(own, x)
    from torch.distributed.nn.functional import _AllReduce

    total = functools.partial(_AllReduce.apply, dist.ReduceOp.SUM, group)
    wide, dims = x.float(), [dim for dim in range(x.dim()) if dim != 1]
    shape = [1, -1] + [1] * (x.dim() - 2)
    sums = total(torch.cat([wide.sum(dims), wide.new_tensor([x.numel() / x.size(1)])]))
    count, mean = sums[-1].detach(), sums[:-1] / sums[-1].detach()
    wide = wide - mean.view(shape)
    var = total(wide.square().sum(dims)) / count
    if own.track_running_stats:
        with torch.no_grad():
            own.num_batches_tracked.add_(1)
            part = own.momentum
            if part is None:
                part = 1 / own.num_batches_tracked.item()
            own.running_mean.lerp_(mean.to(own.running_mean.dtype), part)
            own.running_var.lerp_((var * count / (count - 1)).to(own.running_var.dtype), part)
    wide = wide * torch.rsqrt(var + own.eps).view(shape)
    if own.affine:
        wide = wide * own.weight.view(shape)
        wide = wide if own.bias is None else wide + own.bias.view(shape)
    return wide.to(x.dtype)


def _copied(function):
    return functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))


# Classes of torch.cuda and torch.accelerator, and functions that make one.
NOTHING = (
    "current_stream default_stream stream device device_of device_index cudart Stream Event graph "
    "ExternalStream StreamContext CUDAGraph Graph"
).split()
# Functions of no result, and the beginnings of those that give a number.
DONE = (
    "empty_cache empty_host_cache init ipc_collect set_stream set_per_process_memory_fraction "
    "_lazy_init check_error set_sync_debug_mode _record_memory_history _dump_snapshot range_push "
    "range_pop range_start range_end mark"
).split()
ZERO = ("memory_", "max_memory_", "host_memory_", "device_memory_", "utilization", "temperature",
        "power_draw", "clock_rate", "get_sync_debug_mode", "current_blas_handle")  # fmt: skip


class _OnCpu(torch.overrides.TorchFunctionMode):
    """Active while a script runs with --on-cpu."""

    def __init__(self):
        super().__init__()
        self.undo = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.device:
            return func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in ("cuda", "pin_memory") and args and isinstance(args[0], torch.Tensor):
            return args[0]
        if name == "is_pinned":
            return False
        if func == torch.Tensor.is_cuda.__get__ and self.is_asked_by_script():
            return args[0].device.type == "cpu"
        args = [_moved(value) for value in args]
        if name == "to" and len(args) > 1:
            args[1] = _placed(args[1])
        kwargs = {key: _moved(value) for key, value in (kwargs or {}).items()}
        if "device" in kwargs:
            kwargs["device"] = _placed(kwargs["device"])
        kwargs.pop("pin_memory", None)
        if name == "scaled_dot_product_attention":
            torch.backends.cuda.enable_math_sdp(True)  # CPUs lack some of the others
        if name == "scaled_dot_product_attention" and isinstance(args[0], DTensor):
            # PyTorch has rules for the kernels of GPUs alone.
            from torch.distributed.tensor.experimental import implicit_replication

            attention = torch.nn.attention
            with attention.sdpa_kernel(attention.SDPBackend.MATH), implicit_replication():
                return func(*args, **kwargs)
        return func(*args, **kwargs)

    @staticmethod
    def is_asked_by_script():
        """Not by PyTorch, and not by this file."""
        frame = sys._getframe(1)
        while frame.f_code.co_name == "__torch_function__":
            frame = frame.f_back
        library = os.path.dirname(torch.__file__) + os.sep
        return not frame.f_code.co_filename.startswith((library, HERE))

    def put(self, owner, name, value):
        if hasattr(owner, name):
            if value is _Nothing:  # each its own: compilers keep tables of these
                value = type(name, (value,), {})
            elif inspect.isroutine(value):
                value = _copied(value)
            self.undo.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)

    def __enter__(self):
        self.answer()
        self.move_modules()
        if dist.is_available():
            self.move_processes()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        for owner, name, value in reversed(self.undo):
            setattr(owner, name, value)

    def answer(self):
        """Questions to torch.cuda and torch.accelerator."""
        count = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        zero, nothing = lambda *args, **kwargs: 0, lambda *args, **kwargs: None
        current = [int(os.environ.get("LOCAL_RANK", "0"))]

        def choose(device):
            index = torch.device(device).index if isinstance(device, str) else device
            index = getattr(index, "index", index)
            current[0] = index if isinstance(index, int) else 0

        same = {
            "is_available": lambda: True,
            "device_count": lambda: count,
            "get_device_name": lambda device=None: "CPU",
            "get_device_capability": lambda device=None: (9, 0),
            "get_device_properties": lambda device=None: _Properties(),
            "is_bf16_supported": lambda *args, **kwargs: True,
            "is_current_stream_capturing": lambda: False,
            "can_device_access_peer": lambda device, peer: True,
            "mem_get_info": lambda device=None: (80 << 30, 80 << 30),
            "get_memory_info": lambda device=None: (80 << 30, 80 << 30),
            "memory_stats": lambda device=None: collections.defaultdict(int),
            "memory_summary": lambda *args, **kwargs: "",
            "_snapshot": lambda *args, **kwargs: {},
            "make_graphed_callables": lambda callables, *args, **kwargs: callables,
            "initial_seed": torch.initial_seed,
            "get_rng_state": lambda device=None: torch.get_rng_state(),
            "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
            "get_rng_state_all": lambda: [torch.get_rng_state()] * count,
            "set_rng_state_all": lambda states: torch.set_rng_state(states[current[0]]),
            "default_generators": (torch.default_generator,) * count,
            "current_accelerator": lambda *args, **kwargs: torch.device("cuda"),
            **dict.fromkeys(("current_device", "current_device_index", "current_device_idx"),
                            lambda: current[0]),
            **dict.fromkeys(("set_device", "set_device_index", "set_device_idx"), choose),
            "synchronize": _synchronize,
            **dict.fromkeys(NOTHING, _Nothing),
            **dict.fromkeys(DONE, nothing),
        }  # fmt: skip
        gpus, own = torch.cuda, getattr(torch, "accelerator", None)
        for owner in (gpus, gpus.memory, gpus.random, gpus.streams, gpus.graphs, gpus.nvtx,
                      gpus.profiler, own):  # fmt: skip
            for name in dir(owner) if owner else ():
                if owner is own and name == "get_device_capability":  # it is a table of dtypes
                    continue
                if name in same:
                    self.put(owner, name, same[name])
                elif name.startswith(ZERO):
                    self.put(owner, name, zero)
                elif name.startswith(("reset_", "manual_seed", "seed", "caching_allocator_")):
                    self.put(owner, name, nothing)
                elif name.endswith(("Tensor", "Storage")) and hasattr(torch, name):
                    self.put(owner, name, getattr(torch, name))
        for name in ("Event", "Stream"):
            self.put(torch, name, _Nothing)
        self.put(torch.Tensor, "record_stream", nothing)
        self.put(torch.version, "cuda", torch.version.cuda or "12.8")

    def move_modules(self):
        """Modules, files, loaders and regions of another dtype."""
        own, module = self, torch.nn.Module
        to = module.to

        def move(own, *args, **kwargs):
            args = [_placed(x) for x in args]
            return to(own, *args, **{key: _moved(x) for key, x in kwargs.items()})

        self.put(module, "to", move)
        self.put(module, "cuda", lambda own, device=None: own)
        begin = torch.autocast.__init__
        casts = lambda region, device_type, *args, **kwargs: begin(
            region, "cpu" if _is_gpu(device_type) else device_type, *args, **kwargs
        )
        self.put(torch.autocast, "__init__", casts)
        for name in ("is_autocast_enabled", "get_autocast_dtype"):
            ask = getattr(torch, name, None)
            self.put(
                torch, name, lambda device="cpu", ask=ask: ask("cpu" if _is_gpu(device) else device)
            )
        self.put(torch, "get_autocast_gpu_dtype", lambda: torch.get_autocast_dtype("cpu"))
        load, own_type = torch.load, torch.set_default_tensor_type
        self.put(
            torch, "load",
            lambda f, map_location=None, *args, **kwargs: load(f, "cpu", *args, **kwargs),
        )
        self.put(torch, "set_default_tensor_type", lambda kind: own_type(_moved(kind)))
        from torch.utils._device import DeviceContext as context

        enter = context.__init__
        self.put(context, "__init__", lambda own, device: enter(own, _placed(device)))
        base = torch.Generator
        new = lambda kind, device="cpu": base.__new__(kind, device=_moved(device))
        self.put(torch, "Generator", _OfAnyRank("Generator", (base,), {"__new__": new}))
        self.run_eagerly()
        for owner, name in (
            (torch.autograd, "_engine_run_backward"), (threading.Thread, "_bootstrap_inner"),
        ):  # fmt: skip
            self.put(owner, name, self.again(getattr(owner, name)))
        parallel = sys.modules["torch.nn.parallel.data_parallel"]
        self.put(parallel, "_get_available_device_type", lambda: None)  # it runs the module itself
        self.put(
            torch.nn.parallel, "data_parallel",
            lambda module, inputs, *args, module_kwargs=None, **kwargs: module(
                *(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {})
            ),
        )
        optimizer = torch.optim.Optimizer
        optimize = optimizer.__init__

        def uncaptured(own, params, defaults):
            off = {"capturable": False} if "capturable" in defaults else {}
            optimize(own, params, {**defaults, **off})

        self.put(optimizer, "__init__", uncaptured)
        loader = torch.utils.data.DataLoader
        start = loader.__init__

        def loads(given, *args, **kwargs):
            kwargs.update(pin_memory=False)
            kwargs.pop("pin_memory_device", None)
            start(given, *args, **kwargs)

        own.put(loader, "__init__", loads)

    def again(self, function):
        """A function in which this mode is active: the call of backward has taken it off, and
        each thread has modes of its own."""
        mode = torch.overrides.TorchFunctionMode

        @functools.wraps(function)
        def run(*args, **kwargs):
            mode.__enter__(self)
            try:
                return function(*args, **kwargs)
            finally:
                mode.__exit__(self, None, None, None)

        return run

    def run_eagerly(self):
        """A compiler would ask for the GPU, also before the step that is recorded."""
        make = torch.compile

        def made(*args, **kwargs):
            result = make(*args, **kwargs)
            if hasattr(torch.compiler, "set_stance"):
                torch.compiler.set_stance("force_eager")
            return result

        self.put(torch, "compile", made)

    def move_processes(self):
        """nccl is gloo, and a mesh of GPUs one of CPUs."""

        def moved(function):
            @functools.wraps(function)
            def run(*args, **kwargs):
                args = [self.backend(value) for value in args]
                kwargs = {key: self.backend(value) for key, value in kwargs.items()}
                kwargs.pop("device_id", None)
                return function(*args, **kwargs)

            return run

        init, group = dist.init_process_group, moved(dist.new_group)

        def begin(backend=None, *args, **kwargs):  # by default, it has nccl for GPUs
            return moved(init)(backend or "gloo", *args, **kwargs)

        for owner in (dist, dist.distributed_c10d, dist.device_mesh):
            self.put(owner, "init_process_group", functools.wraps(init)(begin))
            self.put(owner, "new_group", group)
        self.put(dist, "barrier", without(dist.barrier, "device_ids"))
        self.put(dist.distributed_c10d, "is_nccl_available", lambda: True)
        self.put(dist, "is_nccl_available", lambda: True)
        mesh = dist.device_mesh
        self.put(mesh.DeviceMesh, "__init__", moved(mesh.DeviceMesh.__init__))
        self.put(mesh, "init_device_mesh", moved(mesh.init_device_mesh))
        self.put(dist, "init_device_mesh", mesh.init_device_mesh)
        parallel = torch.nn.parallel.DistributedDataParallel
        self.put(parallel, "__init__", without(parallel.__init__, "device_ids", "output_device"))
        self.put(parallel, "_passing_sync_batchnorm_handle", lambda own, module: None)
        self.put(torch.nn.SyncBatchNorm, "forward", _normalize)
        spawn = torch.multiprocessing.spawn

        def spawned(fn, args=(), nprocs=1, *more, **kwargs):
            """One process for each GPU: this is one of them."""
            if nprocs != torch.cuda.device_count():
                return spawn(fn, args, nprocs, *more, **kwargs)
            return fn(torch.cuda.current_device(), *args)

        self.put(torch.multiprocessing, "spawn", spawned)

    @staticmethod
    def backend(value):
        if isinstance(value, str) and "nccl" in value:
            return "gloo"
        return "cpu" if isinstance(value, str) and _is_gpu(value) else _moved(value)


def without(function, *names):
    """The function, without arguments of these names."""
    place = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def run(*args, **kwargs):
        args = [None if place[at : at + 1] in [[x] for x in names] else value
                for at, value in enumerate(args)]  # fmt: skip
        return function(*args, **{key: x for key, x in kwargs.items() if key not in names})

    return run
