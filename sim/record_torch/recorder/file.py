# The file, the lines of the program that it names, and the names of its tensors.


class _File:
    """The lines, compressed as they come, and the raw elements, which follow them at the end."""

    def __init__(self, path):
        self.path = path
        self.events = 0
        self.raw_bytes = 0
        self.raw = tempfile.TemporaryFile()
        # Of a process that is ended while it writes there is no file.
        self.out = tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(path)))
        # The highest levels take several times as long for a few bytes less.
        self.lines = gzip.GzipFile("", "wb", compresslevel=5, fileobj=self.out, mtime=0)
        self.waiting = []
        self.held = None  # events with their lines, of which it is not known whether they belong

    def put(self, event):
        if self.held is None:
            self.put_line(_line(event))
        else:
            self.held.append((event, _line(event)))

    def hold(self):
        self.held = []

    def release(self, belongs):
        """Writes those of the held events that belong to the recording."""
        held, self.held = self.held, None
        for at, (event, line) in enumerate(held):
            if belongs(at, event):
                self.put_line(line)

    def put_line(self, line):
        self.waiting.append(line)
        self.events += 1
        if len(self.waiting) >= 256:
            self.compress()

    def compress(self):
        self.lines.write("".join(line + "\n" for line in self.waiting).encode())
        self.waiting = []

    def add_raw(self, data):
        at = self.raw_bytes
        self.raw.write(data)
        self.raw_bytes += len(data)
        return [at, len(data)]

    def close(self):
        self.compress()
        self.lines.close()
        with _replaced(self.path) as whole:
            for part in self.out, self.raw:
                part.seek(0)
                shutil.copyfileobj(part, whole, 1 << 20)
                part.close()


@contextlib.contextmanager
def _replaced(path):
    """A file that is there as a whole, or not at all."""
    part = os.fspath(path) + ".part"
    with open(part, "wb") as out:
        yield out
    os.replace(part, path)


def _short(name, folder):
    """A file of the program, as it is named in the folder of its start."""
    return name[len(folder) :] if name.startswith(folder) else os.path.basename(name)


class _Checkpoint:
    """Elements that are too many for the file: a checkpoint of safetensors beside it."""

    DTYPES = {"bf16": "BF16", "bool": "BOOL", "f8e4m3fn": "F8_E4M3", "f8e5m2": "F8_E5M2"}

    def __init__(self, recording):
        stem = recording.removesuffix(".gz").removesuffix(".json")
        self.path = stem + ".safetensors"
        self.entries, self.bytes, self.data = {}, 0, None

    def add(self, name, dtype, tensor):
        """What an event has in place of elements: a contiguous tensor goes into the checkpoint."""
        if self.data is None:
            self.data = tempfile.TemporaryFile()
        name = name if name not in self.entries else "%s.%d" % (name, len(self.entries))
        data = _bytes(tensor)
        own = self.DTYPES.get(dtype, dtype.upper())
        end = self.bytes + len(data)
        entry = {"dtype": own, "shape": list(tensor.shape), "data_offsets": [self.bytes, end]}
        self.entries[name], self.bytes = entry, end
        self.data.write(data)
        return [os.path.basename(self.path), name, hashlib.sha256(data).hexdigest()]

    def close(self):
        if self.data is None:
            return
        head = _line(self.entries).encode()
        head += b" " * (-len(head) % 8)
        with _replaced(self.path) as out:
            out.write(len(head).to_bytes(8, "little") + head)
            self.data.seek(0)
            while block := self.data.read(1 << 20):
                out.write(block)
        self.data.close()


class _Places:
    """Lines of the user's program, numbered as they are met."""

    def __init__(self, file):
        self.file = file
        self.numbers = {}
        self.kinds = {}  # of functions: True is the user's, a text a library, "" any other
        self.folder = os.getcwd() + os.sep

    def here(self):
        """{"p": number, "by": the library between that line and the op}, as far as known."""
        found = {}
        frame = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            kind = self.kinds.get(code)
            if kind is None:
                kind = self.kinds[code] = self.kind(code.co_filename)
            if kind is True:
                found["p"] = self.number(code.co_filename, frame.f_lineno, code.co_name)
                break
            if kind:
                found.setdefault("by", kind)
            frame = frame.f_back
        return found

    def is_in_hook(self):
        """Whether a line of the user's runs inside of backward, and recomputes nothing."""
        frame, users = sys._getframe(2), False
        while frame is not None and frame.f_code.co_name != "_engine_run_backward":
            name = frame.f_code.co_filename
            users = users or self.kind(name) is True
            if name.endswith(os.path.join("utils", "checkpoint.py")):
                return False
            frame = frame.f_back
        return users and frame is not None

    def line_here(self):
        """The user's line, for a thread that must not write."""
        frame = sys._getframe(2)
        while frame.f_back is not None and self.kind(frame.f_code.co_filename) is not True:
            frame = frame.f_back
        return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name

    @staticmethod
    def kind(name):
        if name.startswith(TORCH):
            return next((library for part, library in LIBRARIES if part in name), "")
        others = name.startswith(PACKAGES) or name == HERE or name.startswith("<")
        others = others or "importlib" in name or os.path.basename(name) == "runpy.py"
        others = others or "%sspmd_types%s" % (os.sep, os.sep) in name
        return "" if others else True

    def number(self, name, line, function):
        key = (name, line)
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.file.put(
                {
                    "k": "place",
                    "p": self.numbers[key],
                    "file": _short(name, self.folder),
                    "line": line,
                    "function": function,
                }
            )
        return self.numbers[key]

    def text(self, number):
        for (name, line), own in self.numbers.items():
            if own == number:
                return "%s:%d" % (os.path.basename(name), line)
        return ""


class _Names:
    """Names of tensors that the program keeps: parameters, buffers, gradients, states, batches."""

    def __init__(self, storage_of):
        self.kept = []  # weak references to models
        self.prefixes = {}  # id of a model -> the begin of its names, where two have the same
        self.listed, self.modules = 0, []
        self.optimizers = []  # weak references
        self.given = _Beside(storage_of)  # names of batches

    @property
    def models(self):
        """Those that the program still has."""
        return [model for model in (kept() for kept in self.kept) if model is not None]

    def has(self, model):
        return any(kept() is model for kept in self.kept)

    def add(self, model):
        """A copy of a model (a frozen reference, an average) gets names of its own."""
        taken = {name: own for other in self.models for name, own in self.tensors_of(other)}
        self.prefixes[id(model)] = ""
        own = self.tensors_of(model)
        number = 2
        while any(taken.get(name, tensor) is not tensor for name, tensor in own):
            self.prefixes[id(model)] = "%s_%d." % (type(model).__name__, number)
            own = self.tensors_of(model)
            number += 1
        self.kept.append(weakref.ref(model))

    def tensors_of(self, model, named=None):
        """(name, tensor) of its parameters, or of what is named in it."""
        begin, named = self.prefixes[id(model)], named or model.named_parameters()
        return [(begin + plain_path(name), own) for name, own in named]

    def of(self, tensor):
        found = self.given.get(tensor)
        if found is not None:
            return found
        for path, kept in self.parts():
            module = kept()
            for tensors in (module._parameters, module._buffers) if module is not None else ():
                for name, own in tensors.items():
                    if own is tensor or self.is_piece(tensor, own):
                        return plain_path(path + name)
                    if own is not None and own.grad is tensor:
                        return plain_path(path + name) + ".grad"
        return self.of_state(tensor)

    @staticmethod
    def is_piece(tensor, whole):
        return isinstance(whole, DTensor) and whole._local_tensor is tensor

    def parts(self):
        """(path with a dot at its end, weak reference to a module), listed once for each model."""
        while self.listed < len(self.kept):
            model = self.kept[self.listed]()
            self.listed += 1
            if model is None:
                continue
            begin = self.prefixes[id(model)]
            for path, module in model.named_modules():
                self.modules.append((begin + (path + "." if path else ""), weakref.ref(module)))
        return self.modules

    def of_state(self, tensor):
        for kept in self.optimizers:
            optimizer = kept()
            for parameter, state in optimizer.state.items() if optimizer is not None else ():
                for name, own in state.items():
                    if own is tensor:
                        return "%s.%s" % (self.of(parameter) or "?", name)
        return None


def plain_path(path):
    """A module's path without the parts that wrappers add."""
    return ".".join(part for part in path.split(".") if part not in WRAPPERS)
