# Values of a job, by the names of its modules.


class _Hook:
    """A hook on what the program may copy or save: a copy does nothing."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)

    def __reduce__(self):
        return getattr, (contextlib.nullcontext(), "__exit__")  # takes anything, returns None


class ValueDump:
    """Values of a job's modules; made by dump_values()."""

    def __init__(self, path, model, modules, values):
        if values not in ("fp", "stats", "whole"):
            raise ValueError("dump_values: values=%r is not 'fp', 'stats' or 'whole'" % (values,))
        if not isinstance(model, torch.nn.Module):
            raise TypeError("dump_values: model is a %s, not a module" % type(model).__name__)
        self.path, self.model, self.values = path, model, values
        self.patterns = [modules] if isinstance(modules, str) else modules
        self.turns = {}  # key of a value -> how often it was met
        self.handles = []

    def __enter__(self):
        world, rank, backend = _world()
        path = _path_of_rank(self.path, rank) if world > 1 and rank != "all" else self.path
        self.file = _File(path)
        head = {"k": "program", "form": "dump", "schema": SCHEMA, "torch": torch.__version__}
        self.file.put({**head, "rank": rank, "world": world, "backend": backend})
        for name, module in self.model.named_modules():
            name = plain_path(name)
            if self.wants(name):
                hook = lambda own, args, output, name=name: self.module_ends(name, output)
                self.handles.append(module.register_forward_hook(_Hook(hook)))
        if self.handles == []:
            self.file.close()
            raise ValueError("dump_values: no module is named %s" % " or ".join(self.patterns))
        for name, parameter in self.parameters():
            self.put("input " + name, name, parameter)
            if parameter.requires_grad:
                name += ".grad"
                hook = lambda own, name=name: self.put("gradient " + name, name, own.grad)
                self.handles.append(parameter.register_post_accumulate_grad_hook(_Hook(hook)))
        return self

    def __exit__(self, kind, error, trace):
        for handle in self.handles:
            handle.remove()
        for name, parameter in self.parameters() if kind is None else ():
            self.put("end " + name, name, parameter)
            if parameter.grad is not None:
                self.put("end " + name + ".grad", name + ".grad", parameter.grad)
        end = {"k": "end", "events": self.file.events + 1, "raw": self.file.raw_bytes}
        self.file.put(end)
        self.file.close()
        return False

    def wants(self, name):
        return self.patterns is None or any(
            fnmatch.fnmatchcase(name, pattern) for pattern in self.patterns
        )

    def parameters(self):
        """Of the modules that are wanted, and of all parts of these."""
        for path, parameter in self.model.named_parameters():
            name = plain_path(path)
            parts = name.split(".")
            if any(self.wants(".".join(parts[:i])) for i in range(len(parts))):
                yield name, parameter

    def module_ends(self, name, output):
        if _in_backward():
            return  # computed once more, for a checkpoint
        turn = self.turns[name] = self.turns.get(name, -1) + 1
        tensors = [x for x in _leaves(output) if isinstance(x, torch.Tensor)]
        for i, tensor in enumerate(tensors):
            self.put("module %s|%d[%d]" % (name, turn, i), name, tensor)

    def put(self, key, name, tensor):
        """What this process holds of a tensor: a DTensor's piece, without a collective."""
        if tensor is None:
            return
        if "|" not in key:
            turn = self.turns[key] = self.turns.get(key, -1) + 1
            key = "%s|%d" % (key, turn)
        local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
        with torch.no_grad(), _disable_current_modes():
            if isinstance(local, AsyncCollectiveTensor):
                local = local.wait()
            parts = [self.part(piece.detach()) for piece in _pieces(local)]
        self.file.put({"k": "value", "key": key, "name": name, "parts": parts})

    def part(self, piece):
        part = {"shape": list(piece.shape), "dtype": DTYPES.get(piece.dtype, str(piece.dtype))}
        if isinstance(piece, FakeTensor) or piece.is_meta or _is_freed(piece):
            return part
        if piece.is_complex():
            return part
        piece = piece.cpu()
        part["fp"] = _fingerprint(piece) + _fingerprint(piece.to(torch.float64).abs())
        if self.values == "stats" and piece.numel():
            row = piece.to(torch.float64)
            part["stats"] = {
                "min": _finite(float(row.min())),
                "max": _finite(float(row.max())),
                "mean": _finite(float(row.mean())),
                "rms": _finite(float(row.square().mean().sqrt())),
            }
        if self.values == "whole":
            part["raw"] = self.file.add_raw(_bytes(piece.contiguous()))
        return part


def dump_values(path, model, modules=None, values="fp"):
    """Writes values of a real job, for `shardlab blame RECORDING DUMP`, inside of `with`: results
    of modules, gradients, and parameters before and after. A process writes those that it holds,
    into a file of its own (v.json.gz: v.r0.json.gz, ...), and calls no collective.

    path     of the file, ending in .json.gz
    model    the module whose parts have the names that a recording of the program has
    modules  names of modules, or patterns: "layers.*.attention"; None: all
    values   "fp": four sums of each; "stats": also min, max, mean and rms; "whole": all elements
    """
    return ValueDump(path, model, modules, values)
