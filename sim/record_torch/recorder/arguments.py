# Questions about tensors and calls, and their facts.


def _finite(number):
    """A number as JSON has it; others by name."""
    if math.isfinite(number):
        return number
    return "nan" if number != number else "inf" if number > 0 else "-inf"


def _contiguous(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(int(size), 1)
    return strides[::-1]


def _placement(placement):
    """R, S(0), SS(0,2), P(sum), MP(sum,8x4,0), NP(2)"""
    name = type(placement).__name__
    if name == "_StridedShard":
        return "SS(%d,%d)" % (placement.dim, placement.split_factor)
    if name.endswith("MaskPartial"):
        shape = "x".join(str(int(size)) for size in placement.offset_shape or ())
        return "MP(%s,%s,%d)" % (placement.reduce_op, shape or "?", placement.offset_dim)
    if name == "_NormPartial":
        return "NP(%s)" % ("%g" % placement.norm_type)
    if isinstance(placement, Shard):
        return "S(%d)" % placement.dim
    if isinstance(placement, Replicate):
        return "R"
    return "P(%s)" % placement.reduce_op if isinstance(placement, Partial) else str(placement)


def _placements(spec):
    return [_placement(placement) for placement in spec.placements]


def _sizes(sizes):
    """Numbers; of those that differ by rank, the first rank's."""
    own = [getattr(getattr(size, "node", None), "_local_ints", None) for size in sizes]
    return [int(ranks[min(ranks)]) if ranks else int(size) for ranks, size in zip(own, sizes)]


def _arrived(tensor):
    """The final tensor of one that waits for a collective at its first use."""
    return tensor.elem if isinstance(tensor, AsyncCollectiveTensor) else tensor


def _leaves(values):
    """As tree_leaves, at a tenth of its cost for arguments of calls."""
    if isinstance(values, (list, tuple)):
        return [leaf for value in values for leaf in _leaves(value)]
    if isinstance(values, dict):
        return [leaf for value in values.values() for leaf in _leaves(value)]
    return [values] if values is None or isinstance(values, SINGLE) else tree_leaves(values)


def _to_keep(given):
    """An iterator can be read once."""
    return tuple(given) if hasattr(given, "__next__") else given


def _renumbered(value, numbers):
    """Arguments as they are written, with other numbers of values."""
    if isinstance(value, dict):
        if set(value) == {"v"}:
            return {"v": numbers.get(value["v"], value["v"])}
        return {name: _renumbered(one, numbers) for name, one in value.items()}
    return [_renumbered(one, numbers) for one in value] if isinstance(value, list) else value


def _pieces(tensor):
    """Its piece on each rank in this process."""
    if type(tensor) in PLAIN:
        return [tensor]
    if isinstance(tensor, DTensor):
        tensor = tensor._local_tensor
    tensor = _arrived(tensor)
    if isinstance(tensor, LocalTensor):
        return [piece for _, piece in sorted(tensor._local_tensors.items())]
    return [tensor]


class _Beside:
    """Facts about tensors of the program: they keep no tensor alive, and hang on none. A tensor is
    known by its id and its memory: a weak reference would forbid torch.utils.swap_tensors."""

    def __init__(self, storage_of):
        self.known, self.storage_of = {}, storage_of

    def get(self, tensor):
        memory, fact = self.known.get(id(tensor), (None, None))
        try:
            return fact if memory is not None and memory == self.storage_of(tensor) else None
        except _Unseen:
            return None

    def set(self, tensor, fact):
        self.known[id(tensor)] = self.storage_of(tensor), fact


class _Unseen(Exception):
    """Something that a recorder cannot see, by name."""


def _alone(func, args, kwargs):
    """A collective: process groups pass the state of this thread to their workers, which must not
    call Python, since this thread waits for them and holds Python's lock."""
    with no_python_dispatcher(), _disable_current_modes():
        return func(*args, **kwargs)


class _Lowest(TorchDispatchMode):
    """Below the modes of the program: what they pass on runs as without any."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _alone(func, args, kwargs or {})


def _alone_below_modes(func, args, kwargs):
    """A collective that modes of the program see, as those that count them."""
    ours = (_Below, _Above, _Inside)
    modes = [
        mode
        for mode in _get_current_dispatch_mode_stack()
        if not isinstance(mode, ours) and getattr(mode, "_mode_key", None) is None
    ]
    if not modes:
        return _alone(func, args, kwargs)
    with no_python_dispatcher(), _disable_current_modes():
        for mode in (_Lowest(), *modes):
            _push_mode(mode)
        try:
            return func(*args, **kwargs)
        finally:
            for _ in range(len(modes) + 1):
                _pop_mode()


def _work_in(result):
    """The handle of a collective of c10d, the same object that the program gets; else None."""
    unbox = getattr(torch._C._distributed_c10d.Work, "unbox", None)
    for one in result if isinstance(result, (tuple, list)) else (result,):
        if unbox is not None and isinstance(one, torch.ScriptObject):
            return unbox(one)
    return None


def _group_of(args):
    return next(dist.ProcessGroup.unbox(x) for x in args if isinstance(x, torch.ScriptObject))


def _joins_batch():
    """Whether a message of the same batch_isend_irecv was posted before."""
    frame, code = sys._getframe(1), getattr(dist.batch_isend_irecv, "__wrapped__", None)
    code = (code or dist.batch_isend_irecv).__code__
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None and frame.f_locals["p2p_op"] is not frame.f_locals["p2p_op_list"][0]


def _by_rank(facts):
    """One fact, if all ranks have the same."""
    return facts[0] if all(fact == facts[0] for fact in facts) else {"ranks": facts}


def _groups_of_ranks(group, ranks, world):
    """Of each simulated rank those of its group: the library keeps rank 0's."""
    from torch.distributed._local_tensor._c10d import _prepare_collective_groups

    if len(ranks) == world:
        return [ranks]
    first, offsets = _prepare_collective_groups(group)
    groups = [[offset + rank for rank in first] for offset in offsets]
    return [next((one for one in groups if rank in one), [rank]) for rank in range(world)]


def _layout(tensor):
    return str(tensor.layout).replace("torch.", "").replace("sparse_coo", "sparse")


def _is_simulated(values):
    return any(isinstance(value, LocalTensor) for value in _leaves(values))


def _in_flight(tensor):
    local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
    pending = isinstance(local, AsyncCollectiveTensor) and not local.completed
    return local if pending and not isinstance(local.elem, LocalTensor) else None


def _is_distributed(values):
    return any(isinstance(value, DTensor) for value in _leaves(values))


def _in_backward():
    return torch._C._current_graph_task_id() != -1


class _Facts:
    """What an op's schema says; to ask PyTorch each time takes longer."""

    known = {}

    def __init__(self, func):
        schema = func._schema
        self.text = str(func)
        self.name = schema.name
        self.passes = self.name in QUESTIONS or func.namespace in SILENT_NAMESPACES
        self.exchanges = func.namespace in COLLECTIVES
        self.of_aten = func.namespace == "aten"
        self.undefined = "empty" in self.name
        self.takes_dtype = any(x.name == "dtype" and x.kwarg_only for x in schema.arguments)
        self.seeded = torch.Tag.nondeterministic_seeded in func.tags
        marked = [x.alias_info is not None for x in schema.arguments]
        self.plain = [not one for one in marked]
        self.written = [
            (index, argument.name)
            for index, argument in enumerate(schema.arguments)
            if marked[index] and argument.alias_info.is_write
        ]

    @classmethod
    def of(cls, func):
        found = cls.known.get(func)
        if found is None:
            found = cls.known[func] = cls(func)
        return found


class _Weights:
    """A row 1 2 3 4 5 6 7 1 2 ..., in f64, kept for the longest tensor so far, and a row of as many
    1."""

    def __init__(self):
        self.rows = torch.empty(2, 0, dtype=torch.float64, device="cpu")

    def first(self, count):
        """A row of 1, and one of weights."""
        if self.rows.shape[1] < count:
            row = (torch.arange(max(count, 1024), device="cpu") % 7 + 1).to(torch.float64)
            self.rows = torch.stack((torch.ones_like(row), row))
        return self.rows[:, :count]


_weights = _Weights()


def _fingerprint(tensor):
    """[sum x_i, sum x_i * (i mod 7 + 1)] over the row-major elements, nine digits; of f64 all."""
    exact = tensor.dtype in (torch.float64, torch.complex128)
    tensor = _bare(tensor)
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    row = tensor.reshape(-1).to(torch.float64)
    sums = (_weights.first(row.numel()) @ row).tolist()
    return [s if exact and math.isfinite(s) else _rounded(s) for s in sums]


def _bytes(tensor):
    """Those of a contiguous tensor; PyTorch need not have NumPy beside it."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def _bare(tensor):
    """The tensor without the marks of a conjugate and a negative, which are not seen in a mode; and
    with memory, which a gradient that autograd knows to be zero has not."""
    if tensor._is_zerotensor():
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    if tensor.is_conj():
        pair = torch.view_as_real(tensor.conj()).clone()
        pair[..., 1].neg_()
        tensor = torch.view_as_complex(pair)
    return torch._neg_view(tensor).neg() if tensor.is_neg() else tensor


def _rounded(number):
    return float("%.9g" % number) if math.isfinite(number) else _finite(number)


def _world():
    """(number of ranks, this one's number or "all", the backend between them)"""
    if isinstance(DTensor, type) and DTensor.__module__ == __name__:
        return 1, 0, "none"
    if not (dist.is_available() and dist.is_initialized()):
        return 1, 0, "none"
    world, backend = int(dist.get_world_size()), dist.get_backend()
    if _simulated():
        return world, "all", "local"
    return world, dist.get_rank(), backend


def _simulated():
    """All ranks are in this process."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    modes = _get_current_dispatch_mode_stack()
    return any(type(mode).__name__ == "LocalTensorMode" for mode in modes)


def _share(tensor):
    """This rank's part of the whole's fingerprint; the parts of all ranks add up. None if they do
    not, as for a maximum."""
    mesh, piece = tensor.device_mesh, _pieces(tensor)[0].detach()
    if _order_of_cuts(tensor.placements, tuple(mesh.shape)) is None:
        return None
    for placement, place in zip(tensor.placements, mesh.get_coordinate()):
        if isinstance(placement, Replicate):
            if place > 0:
                return [0.0, 0.0]
        elif not _placement(placement).startswith(("S", "P(sum)")):
            return None
    _, offsets = compute_local_shape_and_global_offset(tensor.shape, mesh, tensor.placements)
    index = torch.zeros(piece.shape, dtype=torch.int64, device="cpu")
    for dim, step in enumerate(_contiguous(tensor.shape)):
        row = [1] * piece.dim()
        row[dim] = piece.shape[dim]
        places = torch.arange(piece.shape[dim], device="cpu") + offsets[dim]
        index = index + (places * step).view(row)
    elements = torch.view_as_real(piece) if piece.is_complex() else piece
    elements = elements.to(torch.float64)
    if piece.is_complex():
        index = torch.stack((2 * index, 2 * index + 1), -1)
    sums = float(elements.sum()), float((elements * (index % 7 + 1)).sum())
    return [_finite(one) for one in sums]


def _is_uneven(tensor):
    sizes = list(tensor.shape)
    for placement, ranks in zip(tensor.placements, tensor.device_mesh.shape):
        dim = _cuts(placement)
        if dim is not None:
            if sizes[dim] % ranks:
                return True
            sizes[dim] //= ranks
    return False


def _order_of_cuts(placements, sizes):
    """Mesh dims, outermost cut first: a strided shard is cut after those that follow it. None if
    its pieces are no rows beside each other."""
    order = []
    for at, placement in reversed(list(enumerate(placements))):
        inner = [x for x in order if _cuts(placements[x]) == _cuts(placement)]
        if type(placement).__name__ == "_StridedShard":
            if placement.split_factor != math.prod(sizes[x] for x in inner):
                return None
            order.insert(order.index(inner[-1]) + 1 if inner else 0, at)
        else:
            order.insert(0, at)
    return order


def _assembled(tensor, ranks):
    """The whole of a DTensor whose pieces are all here, without a collective; None if they make
    none. `ranks` are those of its mesh."""
    local, sizes = _arrived(tensor._local_tensor), tuple(tensor.device_mesh.shape)
    placements = tensor.placements
    order = _order_of_cuts(placements, sizes)
    if order is None:
        return None

    def part(place):
        if len(place) == len(order):
            flat = sum(place[at] * math.prod(sizes[at + 1 :]) for at in order)
            same = not isinstance(local, LocalTensor)  # made before the ranks were simulated
            return _bare((local if same else local._local_tensors[ranks[flat]]).detach())
        at = order[len(place)]
        placement = placements[at]
        if isinstance(placement, Replicate):
            return part({**place, at: 0})
        parts = [part({**place, at: x}) for x in range(sizes[at])]
        if _cuts(placement) is not None:
            return torch.cat(parts, placement.dim)
        return _reduced(placement, parts)

    return part({})


def _cuts(placement):
    """The dim of the tensor that the placement cuts, or None."""
    cut = isinstance(placement, Shard) or type(placement).__name__ == "_StridedShard"
    return placement.dim if cut else None


def _reduced(placement, parts):
    kind = placement.reduce_op
    if type(placement).__name__ == "_NormPartial":
        power = placement.norm_type
        if math.isfinite(power) and power != 0:
            return functools.reduce(torch.add, [x**power for x in parts]) ** (1 / power)
        kind = "max" if power > 0 else "min"
    ops = {"max": torch.maximum, "min": torch.minimum, "product": torch.mul}
    whole = functools.reduce(ops.get(kind, torch.add), parts)
    return whole / len(parts) if kind == "avg" else whole


def _is_freed(piece):
    """FSDP frees the memory of gathered parameters, and keeps the tensors."""
    if piece.numel() == 0 or isinstance(piece, FakeTensor) or piece.is_meta:
        return False
    return piece.untyped_storage().nbytes() < (piece.storage_offset() + 1) * piece.element_size()


def _all_equal(pieces):
    first = pieces[0]
    return all(piece.shape == first.shape and torch.equal(piece, first) for piece in pieces)


def _whole_storage(tensor):
    if isinstance(tensor, LocalTensor):
        wholes = {rank: _whole_storage(piece) for rank, piece in tensor._local_tensors.items()}
        return LocalTensor(wholes)
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    if isinstance(tensor, FakeTensor) or tensor.is_meta:
        return tensor.detach().as_strided((size,), (1,), 0)
    return _view_of(tensor, 0, (size,), (1,))


def _view_of(tensor, offset, shape, stride):
    """Other elements of its memory."""
    bare = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return bare.set_(tensor.untyped_storage(), offset, shape, stride)


def _base_name(name):
    """aten::_foreach_mul_.Tensor: mul"""
    base = name.split("::")[-1].split(".")[0].removeprefix("_foreach_")
    return base.rstrip("_") or base


def _draws(func, args, kwargs):
    """Whether this call draws numbers: dropout in evaluation and of probability 0 does not."""
    if not _Facts.of(func).seeded:
        return False
    for index, argument in enumerate(func._schema.arguments):
        default = argument.default_value if argument.has_default_value() else None
        value = args[index] if index < len(args) else kwargs.get(argument.name, default)
        if argument.name in ("p", "dropout_p", "dropout") and value in (0, 0.0):
            return False
        if argument.name in ("train", "training") and value is False:
            return False
    return True


def _tied(func, args, kwargs):
    """Whether a row of the operand has equal elements."""
    at = CHOICES[_Facts.of(func).text]
    dim = args[at] if len(args) > at else kwargs.get("dim", -1)
    for piece in _pieces(args[0]):
        if isinstance(piece, FakeTensor) or piece.is_meta or piece.dim() == 0:
            continue
        row = piece.detach().sort(dim=dim).values
        count = max(row.shape[dim] - 1, 0)
        if bool((row.narrow(dim, 0, count) == row.narrow(dim, -count, count)).any()):
            return True
    return False


def _written(func, args, kwargs):
    """Tensors that the op writes to, by its schema."""
    found = []
    for index, name in _Facts.of(func).written:
        value = args[index] if index < len(args) else kwargs.get(name)
        found += [x for x in _leaves(value) if isinstance(x, torch.Tensor)]
    return found
