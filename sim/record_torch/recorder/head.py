# The parts of PyTorch, and names of its ops by what the recorder does with them.


try:
    import torch
except ImportError:
    _no_torch()

from torch._dispatch.python import enable_python_dispatcher, no_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)
from torch.utils._pytree import tree_leaves, tree_map, tree_unflatten

try:
    import torch.distributed as dist
    from torch.distributed import _functional_collectives as functional_collectives
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor import _api as dtensor_api
    from torch.distributed.tensor import _dispatch as dtensor_dispatch
    from torch.distributed.tensor import _redistribute as dtensor_redistribute
    from torch.distributed.tensor._dtensor_spec import DTensorSpec
    from torch.distributed.tensor._sharding_prop import ShardingPropagator
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    from torch.distributed.tensor.placement_types import Partial, Replicate, Shard
except ImportError:  # a build of PyTorch without torch.distributed

    class DTensor:
        pass

    class AsyncCollectiveTensor:
        pass


try:
    from torch.distributed import _local_tensor as local_tensor
    from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
except ImportError:  # older releases
    LocalTensorMode = None

    class LocalTensor:
        pass


SCHEMA = 2
RECORDER = "0.2.0"

DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
for _torch_name, _name in (
    ("float8_e4m3fn", "f8e4m3fn"),
    ("float8_e5m2", "f8e5m2"),
    ("uint16", "u16"),
    ("uint32", "u32"),
    ("uint64", "u64"),
):
    if hasattr(torch, _torch_name):
        DTYPES[getattr(torch, _torch_name)] = _name

# Ops whose indices are PyTorch's choice where elements are equal, and the place of `dim`.
CHOICES = {
    "aten.topk.default": 2,
    "aten.kthvalue.default": 2,
    "aten.median.dim": 1,
    "aten.nanmedian.dim": 1,
    "aten.mode.default": 1,
    "aten.sort.default": 1,
    "aten.sort.stable": 2,
    "aten.max.dim": 1,
    "aten.min.dim": 1,
    "aten.cummax.default": 1,
    "aten.cummin.default": 1,
}
# Results of decompositions whose signs, and order or pivots among equal values, are the library's
# choice.
VECTORS = {
    "aten._linalg_eigh.default": (1,),
    "aten.linalg_eig.default": (0, 1),  # no order of them is the right one
    "aten._linalg_svd.default": (0, 2),
    "aten._linalg_solve_ex.default": (1, 2),
}

# Questions about a tensor, which do nothing to it.
QUESTIONS = {
    "aten::" + name
    for name in (
        "dim size stride numel storage_offset is_contiguous is_strides_like_format "
        "is_non_overlapping_and_dense _has_compatible_shallow_copy_type is_pinned "
        "sym_size sym_stride sym_numel sym_storage_offset sym_is_contiguous promote_types can_cast"
    ).split()
}
SILENT_NAMESPACES = ("profiler", "prim", "prims")
# Ops that give a tensor other memory: what is there is met at its first use.
MEMORY = {"aten::set_", "aten::set_data", "aten::as_strided_"}
COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d", "_dtensor")
# Collectives on plain tensors, and messages, that are recorded, and the arguments that they write
# to: None if they return a tensor.
EXCHANGES = {
    "c10d::allreduce_": 0,
    "c10d::reduce_": 0,
    "c10d::_allgather_base_": 0,
    "c10d::_reduce_scatter_base_": 0,
    "c10d::broadcast_": 0,
    "c10d::alltoall_base_": 0,
    "c10d::allgather_": 0,
    "c10d::reduce_scatter_": 0,
    "c10d::alltoall_": 0,
    "c10d::gather_": 0,
    "c10d::scatter_": 0,
    "c10d::send": (),
    "c10d::recv_": 0,
    "c10d::recv_any_source_": 0,
    "_c10d_functional::all_reduce": None,
    "_c10d_functional::all_reduce_": 0,
    "_c10d_functional::all_gather_into_tensor": None,
    "_c10d_functional::reduce_scatter_tensor": None,
    "_c10d_functional::all_to_all_single": None,
    "_c10d_functional::broadcast": None,
    "_c10d_functional::wait_tensor": None,
}
ANY_SENDER = "c10d::recv_any_source_"
MESSAGES = ("c10d::send", "c10d::recv_", ANY_SENDER)
# Those whose operand C++ may have filled: DDP's order of buckets.
SENT = ("c10d::broadcast_", "c10d::allreduce_", "c10d::send")
OBJECTS = (
    "send_object_list",
    "recv_object_list",
    "broadcast_object_list",
    "scatter_object_list",
    "all_gather_object",
    "gather_object",
)
# Ops that loss_parallel() serves with collectives of its own.
LOSSES = {
    "aten::" + name
    for name in (
        "_log_softmax",
        "_log_softmax_backward_data",
        "nll_loss_forward",
        "nll_loss_backward",
    )
}

# Files of the library between the user's line and an op, by their kind.
LIBRARIES = (
    ("distributed/fsdp/", "fsdp"),
    ("nn/parallel/distributed", "ddp"),
    ("distributed/tensor/parallel/", "parallelize"),
    ("distributed/pipelining/", "pipeline"),
    ("torch/optim/", "optim"),
    ("utils/checkpoint", "checkpoint"),
    ("nn/utils/clip_grad", "clip_grad"),
    ("distributed/tensor/", "dtensor"),
)
PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))) + os.sep
TORCH = os.path.join(PACKAGES, "torch") + os.sep
LOADER = os.path.join(TORCH, "utils", "data") + os.sep
PLAIN = (torch.Tensor, torch.nn.Parameter)
# Types of arguments that hold no others.
SINGLE = (torch.Tensor, int, float, str, torch.dtype, torch.device, torch.layout)
SINGLE += (torch.memory_format, complex)
WRAPPERS = ("_checkpoint_wrapped_module", "_orig_mod")

_BACKWARD = inspect.signature(torch.autograd.backward)
_GRAD = inspect.signature(torch.autograd.grad)
_active = None
_line = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
