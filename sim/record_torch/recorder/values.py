# Values: their identity, numbers, prints and elements.


def _storage_in(key):
    """The number of the memory in a key of a value."""
    return _storage_in(key[0]) if isinstance(key, tuple) else key


class _Values:
    """The part of a Recorder that knows values."""

    def storage_of(self, tensor):
        """Number of its memory: of a tensor that all ranks have, all their pieces' together."""
        pieces = _pieces(tensor)
        if len(pieces) > 1:
            parts = tuple(self.storage_of(piece) for piece in pieces)
            return self.storages.setdefault(parts, (None, len(self.storages)))[1]
        try:
            storage = pieces[0].untyped_storage()
        except (NotImplementedError, RuntimeError):
            inside = torch._C._functorch.is_functorch_wrapped_tensor(pieces[0])
            what = "a transform of torch.func" if inside else "a %s tensor" % _layout(pieces[0])
            raise _Unseen(what) from None
        found = self.storages.get(storage._cdata)
        if found is None:
            # While the weak reference is held, no other storage gets this address.
            found = (StorageWeakRef(storage), len(self.storages))
            self.storages[storage._cdata] = found
        return found[1]

    def key(self, tensor):
        """Equal for two handles of the same elements, also if they are different objects."""
        tensor = self.recorded_part(tensor)
        if type(tensor) not in PLAIN and isinstance(tensor, DTensor):
            labels = tuple(_placements(tensor)), tuple(_sizes(tensor.shape))
            return (self.key(tensor._local_tensor), *labels, self.mesh(tensor.device_mesh))
        pieces = _pieces(tensor)
        tensor, storage = pieces[0], self.storage_of(tensor)
        return (
            storage,
            tensor.storage_offset(),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.dtype,
            tensor.is_conj(),
            tensor.is_neg(),
            *((x.storage_offset(), tuple(x.shape), tuple(x.stride())) for x in pieces[1:]),
        )

    def known(self, tensor):
        """Its number as autograd sees it, or None: a view of a view that has the elements of the
        first again is another value, with another way for gradients."""
        try:
            key = self.key(tensor)
        except _Unseen:
            return None
        if self.views and tensor.grad_fn is not None:
            own = self.views.get((key, tensor.grad_fn._sequence_nr()))
            if own is not None:
                return own
        return self.numbers.get(key)

    def recorded_part(self, tensor):
        """Of a DTensor its piece, where pieces are recorded."""
        if self.level == "pieces" and isinstance(tensor, DTensor):
            return _arrived(tensor._local_tensor)
        return tensor

    def number(self, tensor):
        tensor = self.recorded_part(tensor)
        pending = _in_flight(tensor)
        if pending is not None:
            self.quietly_wait(AsyncCollectiveTensor.trigger_wait, pending)
        found = self.known(tensor) if self.taking_call else self.numbers.get(self.key(tensor))
        if found is None:
            return self.given(tensor)
        if found in self.late:
            self.late.discard(found)
            self.file.put({"k": "arrived", **self.result(tensor)})
        return found

    def describe(self, tensor):
        tensor = self.recorded_part(tensor)
        key = self.key(tensor)
        number = self.known(tensor) if self.taking_call else self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = self.count
            self.count += 1
        event = {"v": number}
        pieces = _pieces(tensor)
        if isinstance(tensor, DTensor):
            event["shape"] = _sizes(tensor.shape)
            strides = _sizes(tensor.stride())
            self.pieces.setdefault(key[0], number)
        else:
            shapes = [list(piece.shape) for piece in pieces]
            same = all(shape == shapes[0] for shape in shapes)
            event["shape" if same else "shapes"] = shapes[0] if same else shapes
            strides = _by_rank([list(piece.stride()) for piece in pieces]) if same else None
            self.roots.setdefault(key[0], number)
        event["dtype"] = DTYPES.get(tensor.dtype, str(tensor.dtype).replace("torch.", ""))
        if isinstance(tensor, DTensor):
            event["placements"] = _placements(tensor)
            mesh = self.mesh(tensor.device_mesh)
            if mesh:
                event["on"] = mesh
        else:
            event["local"] = True
        if strides and strides != _contiguous(event["shape"]) and tensor.numel() > 0:
            event["stride"] = strides
        return event

    def result(self, tensor, print_it=True):
        tensor = self.recorded_part(tensor)
        event = self.describe(tensor)
        if print_it and _in_flight(tensor) is not None:
            self.late.add(event["v"])
        elif print_it and self.has_elements(tensor):
            event.update(self.print_of(tensor))
        return event

    def print_of(self, tensor):
        if isinstance(tensor, DTensor):
            return self.print_of_whole(tensor)
        return {"fp": _by_rank([self.quietly(_fingerprint, piece) for piece in _pieces(tensor)])}

    def print_of_whole(self, tensor):
        """Fingerprint of all ranks' pieces; none if a mask would be used up."""
        if any("MaskPartial" in type(x).__name__ for x in tensor.placements):
            return {}
        if self.rank != "all":
            share = self.quietly(_share, tensor)
            return {} if share is None else {"share" if self.world > 1 else "fp": share}
        whole = self.whole_of(tensor)
        return {} if whole is None else {"fp": self.quietly(_fingerprint, whole)}

    def whole_of(self, tensor):
        """A DTensor of pieces that are all here as one tensor; None if they make none."""
        ranks = self.ranks_of[self.mesh(tensor.device_mesh)]
        try:
            whole = self.quietly(_assembled, tensor, ranks)
        except (RuntimeError, TypeError, ValueError):
            return None  # pieces that a program has labelled
        return whole if whole is not None and list(whole.shape) == _sizes(tensor.shape) else None

    def has_elements(self, tensor):
        piece = _pieces(tensor)[0]
        if self.values != "fp" or isinstance(piece, FakeTensor) or piece.is_meta:
            return False
        if _is_freed(piece):
            return False
        storage = self.storage_of(tensor)
        return storage not in self.unwritten and storage not in self.partly

    def mesh(self, mesh):
        """Its number; 0 is the one that holds all others."""
        root = getattr(mesh, "_get_root_mesh", lambda: mesh)()
        number = ()
        for one in (root, mesh):
            names = tuple(one.mesh_dim_names or ())
            ranks = self.quietly(lambda: one.mesh.flatten().tolist())
            # Parts of one mesh are equal on all ranks, and their ranks are not.
            shape = tuple(int(size) for size in one.shape)
            key = (shape, names, tuple(ranks) if one is root else number)
            if key not in self.meshes:
                self.meshes[key] = len(self.meshes)
                event = {"k": "mesh", "mesh": self.meshes[key], "shape": list(key[0])}
                event["names"] = list(names)
                event["ranks"] = ranks
                self.ranks_of.append(event["ranks"])
                self.file.put(event)
            number = self.meshes[key]
        return number

    def group(self, group):
        """Number of a process group, which is given by itself or by its name."""
        if isinstance(group, str):
            group = dist.distributed_c10d._resolve_process_group(group)
        name = group.group_name
        if name not in self.groups:
            self.groups[name] = len(self.groups)
            ranks = [int(rank) for rank in dist.get_process_group_ranks(group)]
            event = {"k": "group", "g": self.groups[name], "ranks": ranks}
            each = _groups_of_ranks(group, ranks, self.world) if self.rank == "all" else [ranks]
            if any(one != ranks for one in each):
                event["each"] = each
            event["desc"] = str(getattr(group, "group_desc", ""))
            event["name"] = str(name)
            self.file.put(event)
        return self.groups[name]

    def quietly(self, function, *args):
        """Arithmetic of our own, which is not recorded."""
        self.quiet += 1
        try:
            with torch.inference_mode(False), torch.no_grad(), _disable_current_modes():
                return function(*args)
        finally:
            self.quiet -= 1

    def given(self, tensor):
        """A tensor that no recorded op has made: an input, a constant, or a view of memory."""
        if isinstance(tensor, DTensor):
            return self.given_whole(tensor)
        owner = self.pieces.get(self.key(tensor))
        if owner is not None:
            return self.put_label("unwrap", owner, tensor)
        storage = self.storage_of(tensor)
        if storage not in self.roots and self.level != "pieces":
            self.name_owner(storage)
            if self.key(tensor) in self.numbers:
                return self.numbers[self.key(tensor)]
        root = self.roots.get(storage)
        if root is None and self.is_part(tensor):
            whole = self.quietly(_whole_storage, tensor)
            root = self.emit_given("const", None, whole)
        if root is not None:
            event = {"k": "alias", "of": root}
            event.update(self.describe(tensor))
            pieces = _pieces(tensor)
            event["offset"] = _by_rank([int(piece.storage_offset()) for piece in pieces])
            event["stride"] = _by_rank([list(piece.stride()) for piece in pieces])
            self.file.put(event)
            return event["v"]
        name = self.names.of(tensor)
        return self.emit_given("input" if name else "const", name, tensor)

    def name_owner(self, storage):
        """A piece of a parameter is used before the parameter: the parameter comes first."""
        for model in self.names.models:
            for parameter in model.parameters():
                if not isinstance(parameter, DTensor):
                    continue
                piece = parameter._local_tensor
                if self.storage_of(piece) == storage:
                    whole = self.number(parameter)
                    if self.key(piece) not in self.numbers:
                        self.put_label("unwrap", whole, piece)
                    return

    def given_whole(self, tensor):
        """A DTensor: made around a known piece, or an input. Pieces that are padded to the longest
        one (FSDP) are recorded with their memory."""
        local = tensor._local_tensor
        known = self.key(local) in self.numbers
        known = known or self.storage_of(local) in self.roots
        if not known and not isinstance(local, LocalTensor) and _is_uneven(tensor):
            if not isinstance(local, FakeTensor) and self.values != "none":
                self.emit_given("const", None, self.quietly(_whole_storage, local))
                # A piece that fills its memory is a view of it, as on the other ranks.
                self.numbers.pop(self.key(local), None)
                known = True
        if known:
            return self.put_label("wrap", self.number(local), tensor)
        # By number: gradients are told by names.
        return self.emit_given("input", self.names.of(tensor) or "v%d" % self.count, tensor)

    def put_label(self, kind, known, tensor):
        event = {"k": kind, "in": known}
        event["out"] = [self.describe(tensor)]
        name = self.names.of(tensor) if kind == "wrap" else None
        if name:
            event["name"] = name
        if tensor.requires_grad and tensor.is_leaf:
            if isinstance(tensor, torch.nn.Parameter):
                self.watch_gradient(tensor, name or "v%d" % event["out"][0]["v"])
        self.file.put(event)
        return event["out"][0]["v"]

    def emit_given(self, kind, name, tensor):
        event = {"k": kind}
        if name:
            event["name"] = name
        if self.names.given.get(tensor) is not None:
            event["batch"] = True
        event.update(self.describe(tensor))
        self.taken.add(event["v"])
        if tensor.requires_grad and tensor.is_leaf:
            event["requires_grad"] = True
            self.watch_gradient(tensor, name or "v%d" % event["v"])
        self.add_data(event, tensor)
        self.file.put(event)
        return event["v"]

    def is_part(self, tensor):
        """Its storage holds elements that are not its own."""
        pieces = _pieces(tensor)
        first, size = pieces[0], tensor.element_size()
        held = [piece.untyped_storage().nbytes() // size for piece in pieces]
        if isinstance(first, FakeTensor) or first.is_meta or self.values == "none":
            left = math.inf
        else:
            left = self.data_limit - self.file.raw_bytes
        return held[0] > first.numel() and sum(held) * size <= left

    def add_data(self, event, tensor):
        pieces = _pieces(tensor)
        if self.values == "none" or isinstance(pieces[0], FakeTensor):
            return
        if pieces[0].is_meta or _is_freed(pieces[0]):
            event["undefined"] = True
            return
        if id(tensor) in self.fills:
            event["fill"] = self.fills[id(tensor)]
            return
        size = sum(piece.numel() * piece.element_size() for piece in pieces)
        if self.file.raw_bytes + size > self.data_limit:
            self.add_to_checkpoint(event, tensor)
            return
        same = not isinstance(tensor, DTensor) and self.quietly(_all_equal, pieces)
        if len(pieces) == 1 or same:
            event["raw"] = self.quietly(self.elements, pieces[0])
        else:
            event["raw_ranks"] = [self.quietly(self.elements, piece) for piece in pieces]

    def add_to_checkpoint(self, event, tensor):
        """The whole of a value that is over the limit, or a mark where ranks have no whole."""
        whole = _pieces(tensor)[0]
        if self.rank == "all" and isinstance(tensor, DTensor):
            whole = self.whole_of(tensor)
        elif isinstance(tensor, DTensor) or not self.quietly(_all_equal, _pieces(tensor)):
            whole = None
        if whole is None or whole.dtype is torch.complex128:
            event["data_left_out"] = True
            self.left_out += 1
            return
        copy = self.quietly(lambda: _bare(whole.detach()).contiguous().clone())
        name = event.get("name", "v%d" % event["v"])
        event["checkpoint"] = self.quietly(self.checkpoint.add, name, event["dtype"], copy)

    def elements(self, tensor):
        plain = _bare(tensor.detach())
        if plain.numel() > 1 and all(step == 0 for step in tensor.stride()):
            return {"all": _finite(float(plain.flatten()[0]))}
        return self.file.add_raw(_bytes(plain.contiguous()))

    def argument(self, value):
        if isinstance(value, torch.Tensor):
            number = self.number(value)
            self.check_unseen(value)
            return {"v": number}
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, torch.SymInt) and hasattr(value.node, "_local_ints"):
            ranks = [int(own) for _, own in sorted(value.node._local_ints.items())]
            return ranks[0] if len(set(ranks)) == 1 else {"ranks": ranks}
        if isinstance(value, (int, torch.SymInt)):
            return int(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"f": _finite(value)}
        if isinstance(value, complex):
            return {"complex": [_finite(value.real), _finite(value.imag)]}
        if isinstance(value, torch.dtype):
            return {"dtype": DTYPES.get(value, str(value).replace("torch.", ""))}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        if isinstance(value, torch.layout):
            return {"layout": str(value).replace("torch.", "")}
        if isinstance(value, torch.memory_format):
            return {"memory_format": str(value).replace("torch.", "").replace("_format", "")}
        if isinstance(value, (list, tuple)):
            return [self.argument(item) for item in value]
        if isinstance(value, torch.Generator):
            return None
        if isinstance(value, torch.ScriptObject):
            return self.script_object(value)
        return {"object": type(value).__name__}

    def give_unseen(self, func, args):
        """Memory that is read, but whose writes were not seen: numbers of the library's own."""
        for plain, value in zip(_Facts.of(func).plain, args):
            if not plain:
                continue
            for tensor in _leaves(value):
                if not isinstance(tensor, torch.Tensor) or isinstance(tensor, DTensor):
                    continue
                storage = self.storage_of(tensor)
                if storage in self.unwritten and not _is_freed(_pieces(tensor)[0]):
                    self.unwritten.discard(storage)
                    self.numbers.pop(self.key(tensor), None)
                    self.emit_given("const", None, tensor)

    def script_object(self, value):
        """An argument of torch.distributed: a group or a reduction."""
        try:
            return {"pg": self.group(dist.ProcessGroup.unbox(value))}
        except RuntimeError:
            pass
        if not hasattr(dist.ReduceOp, "unbox"):
            self.refuse("a reduction, which PyTorch %s does not say" % torch.__version__)
            return {"object": type(value).__name__}
        try:
            reduction = dist.ReduceOp.unbox(value)
        except RuntimeError:
            return {"object": type(value).__name__}
        names = ("SUM", "AVG", "MAX", "MIN", "PRODUCT")
        found = [name for name in names if reduction == getattr(dist.ReduceOp, name)]
        return {"reduce": found[0].lower()} if found else {"object": str(reduction)}

    def arguments(self, event, func, args, kwargs):
        facts = _Facts.of(func)
        event["op"] = facts.text
        if self.unwritten and facts.of_aten:
            self.give_unseen(func, args)
        event["args"] = [self.argument(value) for value in args]
        if kwargs:
            event["kwargs"] = {name: self.argument(value) for name, value in kwargs.items()}
