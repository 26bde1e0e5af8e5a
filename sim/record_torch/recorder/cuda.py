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
    return torch.device("cpu") if _is_gpu(value) else value


def _copied(function):
    return functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))


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
        args = [_moved(value) for value in args]
        if name == "to" and len(args) > 1 and type(args[1]) is int:
            args[1] = torch.device("cpu")
        kwargs = {key: _moved(value) for key, value in (kwargs or {}).items()}
        if type(kwargs.get("device")) is int:
            kwargs["device"] = torch.device("cpu")
        kwargs.pop("pin_memory", None)
        if name == "scaled_dot_product_attention" and isinstance(args[0], DTensor):
            # PyTorch has rules for the kernels of GPUs alone.
            from torch.distributed.tensor.experimental import implicit_replication

            attention = torch.nn.attention
            with attention.sdpa_kernel(attention.SDPBackend.MATH), implicit_replication():
                return func(*args, **kwargs)
        return func(*args, **kwargs)

    def put(self, owner, name, value):
        if hasattr(owner, name):
            if isinstance(value, type):  # each its own: compilers keep tables of these
                value = type(name, (value,), {})
            else:
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
            index = getattr(device, "index", device)
            current[0] = index if isinstance(index, int) else 0

        same = {
            "is_available": lambda: True,
            "device_count": lambda: count,
            "current_device": lambda: current[0],
            "set_device": choose,
            "synchronize": _synchronize,
            "get_device_name": lambda device=None: "CPU",
            "get_device_capability": lambda device=None: (9, 0),
            "get_device_properties": lambda device=None: _Properties(),
            "is_bf16_supported": lambda *args, **kwargs: True,
            "mem_get_info": lambda device=None: (80 << 30, 80 << 30),
            "memory_stats": lambda device=None: collections.defaultdict(int),
            "memory_summary": lambda *args, **kwargs: "",
            "current_stream": _Nothing,
            "default_stream": _Nothing,
            "stream": _Nothing,
            "device": _Nothing,
            "Stream": _Nothing,
            "Event": _Nothing,
            "get_rng_state": lambda device=None: torch.get_rng_state(),
            "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        }
        for name in torch.cuda.__dict__.copy():
            if name in same:
                self.put(torch.cuda, name, same[name])
            elif name.startswith(("memory_", "max_memory_", "utilization", "temperature")):
                self.put(torch.cuda, name, zero)
            elif name.startswith(("reset_", "manual_seed", "seed")) or name in (
                "empty_cache", "init", "ipc_collect", "set_stream",
                "set_per_process_memory_fraction", "_lazy_init", "check_error",
            ):  # fmt: skip
                self.put(torch.cuda, name, nothing)
        self.put(torch.Tensor, "record_stream", nothing)
        own = getattr(torch, "accelerator", None)
        if own is not None:
            for name in ("is_available", "device_count", "current_stream"):
                self.put(own, name, same[name])
            for name in ("set_device_index", "set_device_idx", "set_stream"):
                self.put(own, name, choose)
            for name in ("current_device_index", "current_device_idx"):
                self.put(own, name, same["current_device"])
            self.put(own, "synchronize", _synchronize)
            self.put(own, "device_index", _Nothing)
            self.put(own, "empty_cache", nothing)
            self.put(own, "current_accelerator", lambda *args, **kwargs: torch.device("cuda"))

    def move_modules(self):
        """Modules, files, loaders and regions of another dtype."""
        own, module = self, torch.nn.Module
        to = module.to

        def move(own, *args, **kwargs):
            args = [torch.device("cpu") if type(x) is int else _moved(x) for x in args]
            return to(own, *args, **{key: _moved(x) for key, x in kwargs.items()})

        self.put(module, "to", move)
        self.put(module, "cuda", lambda own, device=None: own)
        begin = torch.autocast.__init__
        casts = lambda region, device_type, *args, **kwargs: begin(
            region, "cpu" if _is_gpu(device_type) else device_type, *args, **kwargs
        )
        self.put(torch.autocast, "__init__", casts)
        enabled = torch.is_autocast_enabled
        self.put(
            torch, "is_autocast_enabled",
            lambda device="cpu": enabled("cpu" if _is_gpu(device) else device),
        )
        load = torch.load
        self.put(
            torch, "load",
            lambda *args, map_location=None, **kwargs: load(*args, map_location="cpu", **kwargs),
        )
        loader = torch.utils.data.DataLoader
        start = loader.__init__

        def loads(given, *args, **kwargs):
            kwargs.update(pin_memory=False)
            kwargs.pop("pin_memory_device", None)
            start(given, *args, **kwargs)

        own.put(loader, "__init__", loads)

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
