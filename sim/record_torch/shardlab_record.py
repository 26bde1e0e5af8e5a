"""shardlab_record - writes one training step of an ordinary PyTorch program into a file.

    import shardlab_record
    with shardlab_record.record("step.json.gz", model):
        train_step()

or, for a script as it is:  python shardlab_record.py train.py

All ranks of a program on DTensors can be in this one process, with the data of each:

    with shardlab_record.simulate(4):
        main()  # calls record() somewhere

The file is read by `shardlab replay` (every call, compared with ours) and `shardlab run` (the same
program on any mesh). It is gzip of JSON lines, then the raw elements of inputs. Two levels are
recorded at once: `call` is the level of autograd (linear, cross_entropy_loss), forward only; `op`
and `local_op` are the level of the dispatcher below it, backward and optimizer too.

The program cannot see that it is recorded: nothing is drawn, moved or written, nothing hangs on its
tensors and modules or keeps them, and no error of the recorder reaches it. Parts that a recorder
cannot see (compiled regions, torch.func, sparse tensors) are written down by name and place, and
`shardlab` refuses the file for them. It needs PyTorch alone; one thread records at a time.
"""

import _thread
import argparse
import collections
import contextlib
import ctypes
import fnmatch
import functools
import gc
import gzip
import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import math
import os
import re
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref

HERE = os.path.abspath(__file__)


def _interrupted(number, frame):
    sys.stderr.write("error: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":  # PyTorch takes seconds
    signal.signal(signal.SIGINT, _interrupted)

# Made by join.py from the parts in recorder/, which are to be read and changed.


# The command, and the processes of its ranks: all that PyTorch is not needed for.


LINE = "SHARDLAB_LINE"  # of a rank to its job: the number of a socket
TO_ONE = ("send", "recv", "isend", "irecv", "send_object_list", "recv_object_list")


class _Job:
    """Processes of one command, as torchrun starts them. With lines each hears that it is to end,
    also by the end of this process, and says how it has ended."""

    MOMENT = 1.0  # seconds in which the others may find out by themselves that one has failed
    STEP = 6.0  # until they are ended, and until they are killed

    def __init__(self, command, world, lines=False, **more):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            met = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
        self.running, self.lines = [], []
        for rank in range(world):
            env = {**os.environ, **met, **_of_rank(rank, world)}
            if lines:
                ours, theirs = socket.socketpair()
                self.lines.append(ours)
                env[LINE] = str(theirs.fileno())
                # Ctrl-C is the job's: it tells the ranks.
                more.update(pass_fds=[theirs.fileno()], start_new_session=True)
            self.running.append(subprocess.Popen(command, env=env, **more))
            if lines:
                theirs.close()

    def wait(self):
        """The code of the first that fails; the others are ended."""
        before = signal.signal(signal.SIGTERM, self.interrupted)
        try:
            return self.watch()
        except KeyboardInterrupt:
            for one in self.running:
                one.kill()
            raise
        finally:
            signal.signal(signal.SIGTERM, before)

    @staticmethod
    def interrupted(number, frame):
        raise KeyboardInterrupt(number)

    def watch(self):
        code, ends = 0, [math.inf] * 3
        acts = [self.hang_up, subprocess.Popen.terminate, subprocess.Popen.kill]
        while None in [one.poll() for one in self.running]:
            time.sleep(0.05)
            code = code or next((one.returncode for one in self.running if one.returncode), 0)
            if code and ends[0] == math.inf:
                begin = time.monotonic() + (self.MOMENT if self.lines else 0)
                ends = [begin, begin + (self.STEP if self.lines else 0), begin + 2 * self.STEP]
            while acts and time.monotonic() > ends[-len(acts)]:
                act = acts.pop(0)
                for one in self.running:
                    if one.poll() is None:
                        act(one)
        return code or next((one.returncode for one in self.running if one.returncode), 0)

    def hang_up(self, process):
        if self.lines:
            self.lines[self.running.index(process)].shutdown(socket.SHUT_WR)

    def told(self):
        """What each rank has said of its end, or None."""
        said = []
        for line in self.lines:
            text = b""
            with contextlib.suppress(OSError):
                while block := line.recv(1 << 16, socket.MSG_DONTWAIT):
                    text += block
            said.append(json.loads(text) if text else None)
        return said


def _of_rank(rank, world):
    rank, world = str(rank), str(world)
    return {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}


def run_ranks(command, world, **more):
    """The command once for each rank, as torchrun starts it; the code of the first that fails."""
    return _Job(command, world, **more).wait()


def _report(given, told, codes, code=1):
    """Says why ranks have not made their steps. Where one has failed by itself, the others only
    wait for it."""
    code = code or 1
    failed = [one for one in told if one is not None and one["state"] == "failed"]
    if failed:
        sys.stderr.write(min(failed, key=lambda one: one["when"])["text"])
        return code
    for rank, (one, own) in enumerate(zip(told, codes)):
        if one is None and own:
            how = "was ended by signal %d" % -own if own < 0 else "has ended with code %d" % own
            fix = "see that it runs by itself: %s %s" % (given_python(), _again(given))
            return _error("rank %d %s" % (rank, how), fix, code)
    if all(one is None or one["state"] == "nothing" for one in told):
        return _error(
            "no module ran with gradients, so nothing was recorded",
            "with shardlab_record.record('step.json.gz', model): around a step",
        )
    stops = [one for one in told if one is not None and "at" in one]
    hangs = len(told) > 1 and all(one["state"] == "waits" for one in stops)
    late = "the script has not made its steps in %g s" % given.patience
    fix = "wait longer, or let it make fewer steps: shardlab record --patience %g %s" % (
        10 * given.patience,
        _again(given),
    )
    if hangs:
        late = "the script hangs: " + _reason(stops, late.replace("the script", "it"))
        fix = "give each of these calls its counterpart, on all ranks in one order"
    sys.stderr.write("error: %s\n%s  fix         %s\n" % (late, _stops(told), fix))
    return code


def _reason(stops, late):
    """The backend's own words, unless it only says that another rank has left."""
    words = [one["reason"].strip().split("\n")[0] for one in stops]
    own = [one for one in words if re.search("time", one.split("]")[-1], re.IGNORECASE)]
    if own:
        return re.sub(r"^\[[^]]*\] *", "", own[0])[:200]
    return "a rank has ended that others wait for" if all(words) else late


def _stops(told):
    """A line for each rank; one for all that do the same."""
    met = {}
    for rank, one in enumerate(told):
        met.setdefault(_stop_text(rank, one, told), []).append(rank)
    lines = []
    for text, ranks in met.items():
        if len(told) == 1:
            return "  at          %s\n" % text.removeprefix("is at ")
        if len(ranks) > 1:
            text = re.sub(r"^(is|has|waits)", lambda verb: PLURAL[verb[1]], text)
        lines.append("  %-11s %s\n" % (_rank_text(ranks), text))
    return "".join(lines[:16]) + ("  and so on\n" if lines[16:] else "")


PLURAL = {"is": "are", "has": "have", "waits": "wait"}


def _rank_text(ranks):
    if len(ranks) > 1 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return "ranks %d-%d" % (ranks[0], ranks[-1])
    return "rank%s %s" % ("s" if len(ranks) > 1 else "", ", ".join(map(str, ranks)))


def _stop_text(rank, one, told):
    if one is None or "at" not in one:
        return "has ended"
    if one["state"] == "runs":
        return "is at " + (one["at"] or "no line of the script yet")
    others = [x for x in one["ranks"] if x != rank]
    if one["call"] not in TO_ONE:  # those that have not come to it
        come = [i for i, x in enumerate(told) if x and _same_call(x, one)]
        others = [x for x in others if x not in come] or others
    ends = {"send": "to", "recv": "from"}
    verb = next((ends[end] for end in ends if end in one["call"] and one["call"] in TO_ONE), "with")
    whom = " %s %s" % (verb, _rank_text(others)) if others else ""
    return "waits for %s%s%s" % (one["call"], whom, " (%s)" % one["at"] if one["at"] else "")


def _same_call(a, b):
    return a.get("call") == b["call"] and a.get("ranks") == b["ranks"]


def _processes(given, words):
    """This program once more for each rank; then their files are made one."""
    files = [_path_of_rank(given.out, rank) for rank in range(given.ranks)]
    for path in files:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)  # of an earlier job
    job = _Job([sys.executable, HERE] + words, given.ranks, True)
    code, told = job.wait(), job.told()
    stuck = code and not any(one is not None and one["state"] == "failed" for one in told)
    recorded = [path for path in files if os.path.exists(path)]
    program, merged = os.environ.get("SHARDLAB_PROGRAM"), None
    if recorded and program is not None and (stuck or not code):
        merge = [program, "merge", *files, "--out", given.out]
        merged = subprocess.run(merge, capture_output=True, encoding="utf-8", check=False)
        parted = merged.returncode and "--level pieces" in merged.stderr
        if parted and given.level == "both":
            # Uneven pieces are padded on some ranks, for example.
            sys.stderr.write("ranks part inside of a DTensor: once more with --level pieces\n")
            given.level = "pieces"
            return _processes(given, ["--level", "pieces", *words])
    if code or not recorded:
        code = _report(given, told, [one.returncode for one in job.running], code)
    if merged is None:
        return code
    if merged.returncode:
        sys.stderr.write(merged.stderr)
        return code or merged.returncode
    for path in recorded:
        os.remove(path)
    proof = "shardlab prove %s, " % given.out if stuck else ""
    follow = "; next: %sshardlab replay %s" % (proof, given.out) if given.follow else ""
    sys.stdout.write("%s%s\n" % (merged.stdout.rstrip(), follow))
    return code


def _blame(given, words):
    """The script on one process and on all ranks; then the program compares both."""
    own = given.module or [given.script, *given.arguments]
    script = (["-m"] if given.module else []) + list(own)
    options = [word for word in words[: len(words) - len(script)] if word != "--blame"]
    files = [_path_of_rank(given.out, count, "") for count in (1, given.ranks)]
    one = [sys.executable, HERE, *options, "--ranks", "1", "--out", files[0], *script]
    code = run_ranks(one, 1)
    if not code and given.processes and given.ranks > 1:
        given.out, given.follow = files[1], False
        code = _processes(given, [*options, "--out", files[1], *script])
    elif not code:
        code = run_ranks([sys.executable, HERE, *options, "--out", files[1], *script], 1)
    return code or subprocess.call([os.environ["SHARDLAB_PROGRAM"], "blame", *files])


def _error(text, fix, code=1):
    sys.stderr.write("error: %s\n  fix         %s\n" % (text, fix))
    return code


def _refuse(text, fix):
    sys.exit(_error(text, fix, 2))


def _no_torch():
    _refuse(
        "PyTorch is not installed for this python (%s)" % sys.executable,
        "pip install torch, or name another one: shardlab record --python P",
    )


def _interruptible(run):
    """Its code; a job that is interrupted has ended its ranks, and says so in a line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    except KeyboardInterrupt as error:
        _interrupted(*(error.args or (signal.SIGINT,)), None)


def _path_of_rank(path, rank, kind="r"):
    """step.json.gz of rank 1: step.r1.json.gz"""
    stem, dot, ending = path.rpartition(".json")
    return "%s.%s%d%s%s" % (stem if dot else path, kind, rank, dot, ending if dot else "")


def _again(given):
    """The script as a command's last words."""
    return " ".join((["-m"] if given.module else []) + [given.script])


def given_python():
    return os.path.basename(sys.executable)


def _given(words):
    """The command of these words; ends the program where it cannot be done."""
    parser = argparse.ArgumentParser(
        prog="shardlab record",
        description="Runs a PyTorch script and records its first training step.",
    )
    parser.add_argument("--out", default="step.json.gz", help="the file (default: step.json.gz)")
    parser.add_argument("--skip", type=int, default=0, help="optimizer steps before")
    parser.add_argument("--steps", type=int, default=1, help="optimizer steps to record")
    parser.add_argument("--values", choices=("fp", "none"), default="fp", help="none: shapes alone")
    parser.add_argument("--level", choices=("both", "op", "pieces"), default="both",
                        help="op: no re-mesh; pieces: of DTensors those of each rank")
    parser.add_argument("--ranks", type=int, default=1, help="all of them in this process")
    parser.add_argument("--processes", action="store_true", help="a process for each rank, on gloo")
    parser.add_argument("--blame", action="store_true",
                        help="on one process, too; then both are compared")
    parser.add_argument("--data-limit", type=int, default=64 << 20, metavar="BYTES",
                        help="elements in the file; more are put beside it (default: 64 MiB)")
    parser.add_argument("--patience", type=float, default=3600, metavar="SECONDS",
                        help="until the steps are made (default: 3600; 0: any time)")
    parser.add_argument("--on-cpu", action="store_true",
                        help="a script for GPUs runs on the CPU, and nccl is gloo")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE",
                        help="a module as python -m runs it, and its own arguments")
    parser.add_argument("script", nargs="?",
                        help="the script; what follows are its own arguments")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    if given.module:
        given.script, given.arguments = given.module[0], given.module[1:]
    if given.script is None:
        _refuse("there is no script to record", "shardlab record train.py")
    if not given.module and not os.path.isfile(given.script):
        fix = "name a file, or a module: shardlab record -m package.train"
        _refuse("%s: no such script" % given.script, fix)
    if given.ranks < 1:
        _refuse("--ranks: %d is no number of ranks" % given.ranks, "--ranks 2")
    folder = os.path.dirname(os.path.abspath(given.out))
    if not os.access(folder, os.W_OK):
        _refuse("%s cannot be written" % given.out, "--out with another folder")
    given.follow = True
    return given


def _launched(given, words):
    """The code of a command whose script runs in other processes; None if it runs in this one."""
    if given.blame:
        launch = _blame
    elif given.processes and given.ranks > 1 and "RANK" not in os.environ:
        launch = _processes
    else:
        return None
    if importlib.util.find_spec("torch") is None:
        _no_torch()
    return _interruptible(lambda: launch(given, words))


if __name__ == "__main__":  # before the seconds that PyTorch takes
    _command = _given(sys.argv[1:])
    _code = _launched(_command, sys.argv[1:])
    if _code is not None:
        sys.exit(_code)


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


# Calls and ops, the two levels of a recording.


class _Calls:
    """The part of a Recorder that sees calls, ops, moves and collectives."""

    def passes(self, func):
        """True for an op that is no part of the program."""
        return self.quiet > 0 or _Facts.of(func).passes

    def call(self, func, args, kwargs):
        later = self.inside is not None or _in_backward() or self.phase != "fwd"
        if later or self.passes(func) or _Facts.of(func).exchanges:
            return func(*args, **kwargs)
        event = None
        with self.own:
            if not self.transformed():
                self.taking_call = True
                event = self.begun_call(func, args, kwargs)
        self.taking_call = False
        if event is None:
            return func(*args, **kwargs)
        self.inside, first, known = event["c"], torch.autograd._get_sequence_nr(), self.count
        try:
            result = func(*args, **kwargs)
        finally:
            self.inside = None
        with self.own:
            last = torch.autograd._get_sequence_nr()
            where = {name: event[name] for name in ("p", "by", "m") if name in event}
            self.own_sequence(first, {})
            self.own_sequence(last, {"of": event["c"], **where})
            if last > first:
                event["seq"] = [first, last]
                self.distinguish_views(func, args, kwargs, result, (first, known))
            self.see_restrided(event, result, known)
            self.taking_call = True
            self.name_dtype(event, func, result)
            self.promote(event, func, args, kwargs, result)
            event["out"] = [self.outcome(x, False) for x in _leaves(result)]
            self.file.put(event)
        self.taking_call = False
        return result

    def begun_call(self, func, args, kwargs):
        event = {"k": "call", "c": self.calls, **self.places.here()}
        if self.modules:
            event["m"] = self.modules[-1][0]
        self.calls += 1
        self.arguments(event, func, args, kwargs)
        self.mark_detached(event, args, kwargs)
        if not torch.is_grad_enabled() and not self.reentrant:
            event["no_grad"] = True
        if torch.is_autocast_enabled("cpu"):
            event["autocast"] = DTYPES[torch.get_autocast_dtype("cpu")]
        return event

    def see_restrided(self, call, result, known):
        """Results of the call's own ops, from number `known` on, to which a kernel has given other
        strides, by no op that is seen: an adaptive pooling does it with channels last."""
        for own in _leaves(result):
            if type(own) is not torch.Tensor or self.known(own) is not None:
                continue
            root = self.roots.get(self.storage_of(own))
            if root is not None and root >= known:
                args = [list(own.shape), list(own.stride()), own.storage_offset()]
                event = {"k": "local_op", "pass": "fwd"}
                event.update((key, call[key]) for key in ("m", "p", "c") if key in call)
                event.update(op="aten.as_strided.default", args=[{"v": root}, *args])
                event["out"] = [self.result(own)]
                self.file.put(event)

    def distinguish_views(self, func, args, kwargs, result, before):
        """A result that has the elements of an older value, by another way: w.t().t()."""
        first, known = before
        for tensor in _leaves(result):
            if not isinstance(tensor, torch.Tensor) or tensor.grad_fn is None:
                continue
            node, key = tensor.grad_fn._sequence_nr(), self.key(tensor)
            older = self.numbers.get(key, known) < known
            if older and node >= first and not _written(func, args, kwargs):
                self.views[key, node] = self.count
                self.count += 1

    def mark_detached(self, event, args, kwargs):
        """x and x.detach() are one value; gradients depend on which of them a call takes."""
        tensors = [x for x in _leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        detached = []
        for tensor in tensors:
            number = self.known(tensor)
            if tensor.requires_grad:
                if self.is_new_leaf(tensor, number):
                    event.setdefault("leaves", []).append(number)
                    self.watch_gradient(tensor, "v%d" % number)
                self.taped.add(number)
            elif number in self.taped:
                detached.append(number)
        if detached and torch.is_grad_enabled():
            event["detached"] = sorted(set(detached))
        if self.again or "detached" in event:
            self.mark(event["args"], args, event.get("detached", ()))
            for name, value in event.get("kwargs", {}).items():
                self.mark(value, kwargs[name], event.get("detached", ()))

    def is_new_leaf(self, tensor, number):
        """A result that the program has made a leaf: x = (a + b).requires_grad_()."""
        own = number is not None and number not in self.taped and self.leaves.get(tensor) is None
        return own and tensor.is_leaf and type(tensor) is torch.Tensor

    def op(self, func, args, kwargs):
        if self.passes(func):
            return func(*args, **kwargs)
        whole = self.backend != "none" and _is_distributed((args, kwargs))
        if _Facts.of(func).exchanges and not whole:
            return self.collective(func, args, kwargs)
        event = None
        with self.own:
            if _Facts.of(func).name not in MEMORY:
                event = self.begun_op(func, args, kwargs, whole)
        self.inner = {}
        try:
            if whole and self.sees_inside(func):
                with _Inside(self, True):
                    result = func(*args, **kwargs)
            else:
                result = func(*args, **kwargs)
        except Exception as error:
            with self.own:
                self.put_error(event, error)
            raise
        with self.own:
            if event is not None:
                event.update(self.inner)
                self.put_op(event, func, args, kwargs, result)
        return result

    def begun_op(self, func, args, kwargs, whole):
        event = {"k": "op" if whole else "local_op"}
        self.stamp(event)
        if whole and _Facts.of(func).name in LOSSES:
            if func in DTensor._op_dispatcher._custom_op_handlers:
                event["loss_parallel"] = True
        self.arguments(event, func, args, kwargs)
        if self.inside is None and not _in_backward():
            now = torch.autograd._get_sequence_nr()
            self.own_sequence(now, {name: event[name] for name in ("m", "p") if name in event})
        return event

    @staticmethod
    def name_dtype(event, func, result):
        """That of a new tensor, where the program has set another default."""
        if torch.get_default_dtype() is torch.float32 or not _Facts.of(func).takes_dtype:
            return
        given = event.get("kwargs", {})
        inexact = isinstance(result, torch.Tensor) and (
            result.is_floating_point() or result.is_complex()
        )
        if inexact and given.get("dtype") is None:
            event["kwargs"] = {**given, "dtype": {"dtype": DTYPES[result.dtype]}}

    def promote(self, event, func, args, kwargs, result):
        """Integers that become numbers of another default than f32: by casts in front."""
        default, facts = torch.get_default_dtype(), _Facts.of(func)
        tensors = [x for x in _leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        made = any(isinstance(x, torch.Tensor) and x.dtype is default for x in _leaves(result))
        inexact = any(x.is_floating_point() or x.is_complex() for x in tensors)
        if default is torch.float32 or not made or inexact or facts.takes_dtype:
            return
        if facts.name == "aten::where":
            return  # a condition stays one
        kept = ("k", "pass", "m", "p", "by", "c", "of", "node", "no_grad")
        casts = {}
        for tensor in tensors:
            given = self.describe(tensor)
            if given["v"] in casts:
                continue
            cast = {name: event[name] for name in kept if name in event}
            if event["k"] == "call":
                cast["c"], self.calls = self.calls, self.calls + 1
            dtype = DTYPES[default]
            cast["op"], cast["args"] = "aten._to_copy.default", [{"v": given["v"]}]
            cast["kwargs"] = {"dtype": {"dtype": dtype}}
            casts[given["v"]], self.count = self.count, self.count + 1
            cast["out"] = [{**given, "v": casts[given["v"]], "dtype": dtype}]
            self.file.put(cast)
        for name in ("args", "kwargs"):
            if name in event:
                event[name] = _renumbered(event[name], casts)

    def put_error(self, event, error):
        if event is not None:
            text = (str(error).strip().split("\n") or [""])[0][:200]
            event["error"] = {"class": type(error).__name__, "message": text}
            self.file.put(event)

    def sees_inside(self, func):
        """Whether the moves and collectives of a call of DTensors can be seen: not under a mode of
        the program's own, which must get the call first."""
        for mode in _get_current_dispatch_mode_stack():
            if not type(mode).__module__.startswith(("torch.", __name__)):
                with self.own:
                    self.refuse("a call of DTensors under the mode %s" % type(mode).__name__)
                return False
        return True

    def put_op(self, event, func, args, kwargs, result):
        self.name_dtype(event, func, result)
        self.promote(event, func, args, kwargs, result)
        random = _draws(func, args, kwargs)
        undefined = _Facts.of(func).undefined
        written = _written(func, args, kwargs)
        if undefined:
            for tensor in _leaves(result):
                if isinstance(tensor, torch.Tensor):
                    self.unwritten.add(self.storage_of(tensor))
            event["undefined"] = True
        left = self.still_left(func, written) if self.left else ()
        self.note_writes(written)
        self.leave(left)
        if _Facts.of(func).name == "fsdp::all_gather_copy_in":
            written = []  # this rank's part of its results has been written
        if random:
            event["random"] = True
        tied = _Facts.of(func).text in CHOICES and self.quietly(_tied, func, args, kwargs)
        if tied:
            event["ties"] = True
        chosen = (1,) if tied else VECTORS.get(_Facts.of(func).text, ())
        unseen = (*chosen, 1) if _Facts.of(func).name == "aten::_ctc_loss" else chosen
        event["out"] = [
            self.outcome(x, not random and at not in unseen)
            for at, x in enumerate(_leaves(result))
        ]
        shown = {x["v"] for x in event["out"] if x and "v" in x}
        mut = [x for x in written if self.number(x) not in shown]
        if mut:
            event["mut"] = [self.result(x, not random) for x in mut]
        if random or not self.is_replayed(func):
            drawn = [x for x in _leaves(result) if isinstance(x, torch.Tensor)] + mut
            for own, tensor in zip(
                [x for x in event["out"] if x and "v" in x] + event.get("mut", []), drawn
            ):
                self.add_data(own, tensor)
        for at in chosen:
            self.add_data(event["out"][at], result[at])
        self.file.put(event)
        leaf = self.accumulates()
        if leaf is not None:
            numbers = {x["v"] for x in event["out"] + event.get("mut", []) if x and "v" in x}
            self.pending = leaf, numbers

    def is_replayed(self, func):
        """False for an op that `shardlab` has no row for: its results are in the file."""
        if self.rows is None:
            program = os.environ.get("SHARDLAB_PROGRAM")
            asked = [program, "ops", "--color", "never"]
            done = program and subprocess.run(asked, capture_output=True, text=True, check=False)
            lines = done.stdout.splitlines() if done and done.returncode == 0 else []
            self.rows = {_base_name(line.split(" ")[0]) for line in lines}
        known = not self.rows or not _Facts.of(func).of_aten
        return known or _base_name(_Facts.of(func).name) in self.rows

    def move(self, kind, tensor, fields, run):
        """An event of its own for an action that is no op."""
        event = None
        with self.own:
            event = {"k": kind}
            self.stamp(event)
            self.epoch += 1
            event["in"] = self.number(tensor)
            event.update(fields)
        before, self.inner = self.inner, {}
        self.quiet += 1
        try:
            with _Inside(self, False):
                result = run()
        finally:
            self.quiet -= 1
            inner, self.inner = self.inner, before
        with self.own:
            moved = result[0] if isinstance(result, tuple) else result
            if moved is not None and "in" in event:
                event.update(inner)
                event["out"] = [self.result(moved)]
                self.file.put(event)
        return result

    def add_collective(self, func, args):
        """To the event of the call that runs."""
        name = func._schema.name.split("::")[1].replace("allreduce_", "all_reduce")
        if name in ("wait_tensor", "barrier", "_wrap_tensor_autograd"):
            return
        one = {"c": name}
        for argument, value in zip(func._schema.arguments, args):
            if isinstance(value, str) and "group" in argument.name:
                one["g"] = self.group(value)
            elif isinstance(value, str) and "reduce" in argument.name:
                one["reduce"] = value
            elif isinstance(value, torch.ScriptObject) and "reduce" in argument.name:
                one["reduce"] = self.script_object(value).get("reduce")
        self.inner.setdefault("comm", []).append(one)

    def collective(self, func, args, kwargs):
        """On plain tensors, over a group."""
        name = func._schema.name
        simulated = self.rank == "all" or _is_simulated(args)
        run = func if simulated else lambda *a, **k: _alone_below_modes(func, a, k)
        self.epoch += 1
        if name == "_c10d_functional::_wrap_tensor_autograd":
            return run(*args, **kwargs)
        event = None
        with self.own:
            if name == "c10d::barrier":
                self.put_wait(name="barrier", args=[{"pg": self.group(_group_of(args))}])
            elif name in EXCHANGES:
                event = self.begun_collective(func, args)
            else:
                self.refuse("the message or collective %s" % func)
        result = run(*args, **kwargs)
        if event is not None:
            with self.own:
                work, any_sender = _work_in(result), name == ANY_SENDER
                if not any_sender:
                    self.put_collective(event, name, args, result)
                if work is not None:
                    last = self.exchanged - 1
                    number, given = (event, args) if any_sender else (last, None)
                    self.works[id(work)] = work, number, given, _call_in(_frames_here())
        return result

    def begun_collective(self, func, args):
        event = {"k": "coll"}
        self.stamp(event)
        event["op"] = str(func)
        if func._schema.name.endswith("wait_tensor"):
            self.late.discard(self.known(args[0]))  # its data has not come: it is not checked yet
        elif self.unwritten and func._schema.name in SENT:
            self.give_unseen(func, args)
        event["args"] = [
            {"pg": self.group(value)}
            if isinstance(value, str) and "group" in argument.name
            else self.argument(value)
            for argument, value in zip(func._schema.arguments, args)
        ]
        if _joins_batch():
            event["joins"] = True
        if func._schema.name in MESSAGES:
            labels = self.labels.get(id(_leaves(args[:1])[0]))
            if labels:
                event["label"] = labels.popleft()[0]
        return event

    def put_collective(self, event, name, args, result):
        if EXCHANGES[name] is None:
            ends = name.endswith("wait_tensor") or _is_simulated(args)
            event["out"] = [self.result(result, ends)]
            self.late.update(x["v"] for x in event["out"] if not ends)
        else:
            # A written value may not have arrived: it is checked at its first use.
            place = EXCHANGES[name]
            written = [] if place == () else _leaves(args[place])
            self.note_writes(written)
            event["out"], event["mut"] = [], [self.result(x, False) for x in written]
            if name == "c10d::reduce_" and dist.ProcessGroup.unbox(args[1]).rank() != args[3]:
                self.leave([self.storage_of(x) for x in written])
            else:
                self.late.update(x["v"] for x in event["mut"])
        self.exchanged += 1
        self.file.put(event)

    def put_wait(self, **fields):
        """A step of the rank that is no call: a proof that nothing hangs needs all of them."""
        self.file.put({"k": "wait", **self.places.here(), **fields})

    def note_thread(self):
        """Of a call or a wait: whether it is in no order with those of the recording's thread. One
        thread of autograd is, since the program waits for its end."""
        own = threading.get_ident()
        if _in_backward():
            self.engines.add(own)
        if len(self.engines) > 1 if _in_backward() else own != self.thread:
            self.elsewhere.append(self.places.line_here())

    def wait_for_work(self, wait, work, *args, **kwargs):
        if threading.get_ident() != self.thread:
            self.note_thread()
            return wait(work, *args, **kwargs)
        nothing = (None,) * 4
        _, event, given, call = self.works.pop(id(work), nothing)
        number = None if isinstance(event, dict) else event
        try:
            result = self.quietly_wait(wait, work, *args, **kwargs)
        except Exception:
            with self.own:
                place = {"k": "wait", **self.places.here()}
                self.failed.append((number, place, self.file.events))
            raise
        with self.own:
            if isinstance(event, dict):  # now the sender is known
                event["op"], event["any"] = "c10d.recv_.default", True
                event["args"].insert(2, int(work._source_rank()))
                self.put_collective(event, ANY_SENDER, given, None)
                number = self.exchanged - 1
            if number is not None:
                self.put_wait(of=number)
        return result

    def poll(self, asked, work):
        if not self.quiet and threading.get_ident() == self.thread:
            with self.own:
                place = self.places.here().get("p")
                if place not in self.polled:
                    self.polled.add(place)
                    self.put_wait(name="is_completed()")
        return asked(work)

    def quietly_wait(self, wait, *args, **kwargs):
        """Gloo copies and scales in here, by ops."""
        self.quiet += 1
        self.epoch += 1
        try:
            return _alone(wait, args, kwargs)
        finally:
            self.quiet -= 1

    def resize(self, storage, size):
        """Memory that is freed and reused, with contents that were never written."""
        if not self.quiet:
            with self.own:
                _, number = self.storages.get(storage._cdata, (None, None))
                if number in self.roots:
                    event = {"k": "storage", "v": self.roots[number], "bytes": int(size)}
                    self.file.put(event)
                    if int(size) > 0:
                        self.unwritten.add(number)
        return torch._C.StorageBase.resize_(storage, size)

    def outcome(self, value, print_it):
        if isinstance(value, torch.Tensor):
            return self.result(value, print_it)
        return None if value is None else {"scalar": self.argument(value)}


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


# One recording: its begin, its state and its end.


# Every name that the program has for a function of autograd leads here.
_ENGINE = {
    "backward": (lambda *args, **kwargs: _shardlab_backward(*args, **kwargs)).__code__,
    "grad": (lambda *args, **kwargs: _shardlab_grad(*args, **kwargs)).__code__,
}


def _redirected(name, own, code):
    """A function of autograd as it was, whose calls run `own`."""
    function = getattr(torch.autograd, name)
    before = type(function)(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    before.__kwdefaults__ = function.__kwdefaults__
    function.__globals__["_shardlab_" + name] = own
    function.__code__ = code
    return before


# An autograd.Function asks the last of these. A program may keep its `apply` before a recording
# begins: relu = Relu.apply.
_functions = []
_plain_apply = torch.autograd.Function.__dict__["apply"]


def _apply_of(cls):
    """Autograd's own."""
    return _plain_apply.__get__(None, cls)


def _apply(cls, *args, **kwargs):
    if _functions:
        return _functions[-1](cls, *args, **kwargs)
    return _apply_of(cls)(*args, **kwargs)


_apply.__name__ = "apply"  # by which spmd_types knows it
torch.autograd.Function.apply = classmethod(_apply)


class _Own:
    """Around work of the recorder's own. Its errors reach the file, and not the program; functions
    that the program has put around those of tensors do not see it."""

    def __init__(self, recorder):
        self.recorder, self.entered = recorder, []

    def __enter__(self):
        hidden = torch._C.DisableTorchFunction()
        hidden.__enter__()
        self.entered.append((hidden, time.perf_counter()))

    def __exit__(self, kind, error, trace):
        hidden, began = self.entered.pop()
        hidden.__exit__(None, None, None)
        if not self.entered:
            self.recorder.own_seconds += time.perf_counter() - began
        if kind is None or not issubclass(kind, Exception):
            return False
        if kind is _Unseen:
            self.recorder.refuse(str(error))
            return True
        while trace.tb_next is not None:
            trace = trace.tb_next
        text = (str(error).strip().split("\n") or [""])[0][:120]
        what = "the rest after an error of its own (%s: %s; line %d)"
        self.recorder.refuse(what % (kind.__name__, text, trace.tb_lineno))
        self.recorder.quiet += 1  # to the end
        return True


def _writes_to(numbers, event):
    """Whether an op or its call writes to one of these values: in place, or as its only effect."""
    in_place = event.get("op", "").split(".")[:2][-1].endswith("_")
    written = event.get("mut", []) + (event.get("out", []) if in_place else [])
    return any(one and one.get("v") in numbers for one in written)


class Recorder(_Program, _Values, _Calls, _Types):
    """One recording; made by record()."""

    def __init__(self, path, model, optimizer, level, values, data_limit):
        self.path = path
        self.level = level
        self.values = values
        self.data_limit = data_limit
        self.own = _Own(self)
        self.fills = {}  # id of a parameter -> the formula of its elements
        self.storages = {}  # address -> (weak reference, number)
        self.names = _Names(self.storage_of)
        self.holders = {}  # id of a module -> (weak references to it, to the module that holds it)
        if isinstance(model, torch.nn.Module):
            model = [model]
        self.takes_batches = {id(one) for one in model or []}  # modules that name batches
        for one in map(self.outermost, model or []):
            if not self.names.has(one):
                self.names.add(one)
        self.names.optimizers = [weakref.ref(optimizer)] if optimizer is not None else []
        parameters = (each for one in self.names.models for each in one.parameters())
        if any(isinstance(_pieces(each)[0], FakeTensor) for each in parameters):
            self.values = "none"
        self.numbers = {}  # key of a tensor -> number of its value
        self.roots = {}  # number of a storage -> the value that covers it
        self.unwritten = set()  # storages with memory that was never written
        self.left = set()  # those in which a reduce, on ranks that are not its root, left anything
        self.partly = {}  # storages that were written in parts -> bytes that are left
        self.count = 0
        self.taped = set()  # numbers of values that required a gradient in a call
        self.calls = 0
        self.inside = None  # the call whose ops are running
        self.taking_call = False  # and no op, which does not see the way of gradients
        self.quiet = 0
        self.phase = "fwd"
        self.stepping = _Stepping()
        self.modules = []  # (path, first call, inputs) of the modules that are running
        self.paths = {}  # id of a module -> (weak reference, path)
        self.owners = {}  # sequence number of autograd -> (call, module, place)
        self.functions = {}  # sequence number of autograd -> number of an autograd.Function
        self.again = set()  # numbers of values that such a function has returned as they were
        self.reentrant = 0  # checkpoints whose calls have gradients though autograd records none
        self.rule = None  # the function whose backward is running
        self.last_sequence = 0
        self.refused = {}
        self.own_seconds = 0.0
        self.leaves = _Beside(self.storage_of)  # names of leaves whose gradients are written
        self.asking = False  # the engine runs
        self.pending = None  # the leaf whose gradient is being made, numbers that it may have
        self.leaf_of = {}  # number of a storage -> (name, shape) of the leaf in it
        self.written = {}  # name of a leaf written since its gradient was made -> its memory
        self.accumulated = set()  # ids of the leaves that have theirs from this backward
        self.told = {}  # id of a leaf -> the number of its gradient, writes to that
        # id of a leaf that has a gradient -> it, its memory, writes to it. An input is kept until
        # the step: a new one may get the id of a dead one. Parameters live by themselves.
        self.states = {}
        self.behind = None  # the last step: the checks of its end, exchanges and refusals by then
        self.stepped = None  # called where the program has written to such a leaf by itself
        self.views = {}  # (key of a tensor, autograd's number) -> number of a value
        self.pieces = {}  # key of a plain tensor -> number of the DTensor whose piece it is
        self.meshes = {}  # (sizes, names, ranks) -> number
        self.ranks_of = []  # of each mesh
        self.groups = {}  # name of a group -> number
        self.inner = {}  # moves and collectives of the running call
        self.late = set()  # numbers of values that a collective may still be writing
        # id of a handle -> itself, the number of its collective, its arguments, the program's call
        self.works = {}
        self.failed = []  # waits that failed: the same number, a wait's event, events before it
        self.exchanged = 0  # collectives so far
        self.thread = threading.get_ident()
        self.polled = set()  # places of polls
        self.engines = set()  # threads of autograd that have posted calls
        self.elsewhere = []  # lines of other threads that post collectives, or wait for them
        self.labels = {}  # id of a tensor of messages -> what they are, and the tensor
        self.writes = {}  # number of a storage -> how often an op has written to it
        self.versions = _Beside(self.storage_of)  # version, (memory, writes, ..)
        self.taken = set()  # numbers of values from before
        self.left_out = 0  # values over the limit of which there is no whole
        self.rows = None  # base names of the ops that shardlab has
        self.epoch = 0  # counts unseen writes to tensors, as by a collective
        self.shared = {}  # number of a storage -> (view, print, writes): numpy writes to it

    def __enter__(self):
        global _active
        if _active is not None:
            raise RuntimeError("shardlab_record: one recording at a time")
        _Typed.watch()
        self.world, self.rank, self.backend = _world()
        if self.world > 1 and self.rank != "all":
            self.path = _path_of_rank(self.path, self.rank)
        self.file = _File(self.path)
        self.checkpoint = _Checkpoint(str(self.path))
        self.places = _Places(self.file)
        self.began = time.perf_counter()
        self.file.put(
            {
                "k": "program",
                "form": "recording",
                "schema": SCHEMA,
                "program": os.path.basename(self.path).split(".")[0],
                "torch": torch.__version__,
                "recorder": RECORDER,
                "rank": self.rank,
                "world": self.world,
                "backend": self.backend,
                "levels": ["call", "op"] if self.level == "both" else ["op"],
                "values": self.values,
            }
        )
        self.last_sequence = torch.autograd._get_sequence_nr()
        for model in self.names.models:
            self.learn(model)
        self.hook()
        self.moves = _Moves(self)
        self.contexts = [_Below(self)]
        if self.level == "both":
            self.contexts += [enable_python_dispatcher(), _Above(self)]
        if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
            # What is compiled shows no ops, and with fullgraph=True does not run below a mode.
            self.contexts.append(torch.compiler.set_stance("force_eager"))
        for context in self.contexts:
            context.__enter__()
        self.above = _OnTop(self.contexts[0])
        _active = self
        return self

    def __exit__(self, kind, error, trace):
        global _active
        _active = None
        with self.own:
            self.settle(True)
        self.above.end()
        for context in reversed(self.contexts):
            context.__exit__(None, None, None)
        self.moves.end()
        for handle in self.handles:
            handle.remove()
        for function, own in zip((torch.autograd.backward, torch.autograd.grad), self.engine):
            function.__code__ = own.__code__
        _functions.remove(self.function)
        torch.autograd.function.BackwardCFunction.apply = self.apply_rule
        del torch.Tensor.tolist, torch.Tensor.numpy  # those of the class below are left
        if kind is SystemExit and error.code in (None, 0):
            kind = None  # the end of a script
        self.finish(kind, error)
        return False

    def finish(self, kind=None, error=None):
        """Writes the file, with the end of a program that failed."""
        if kind is None:
            with self.own:
                if self.behind is None:
                    self.check_end()
                else:
                    self.end_behind_step()
                for line in dict.fromkeys(self.elsewhere):
                    self.file.put({"k": "wait", "name": "thread", "p": self.places.number(*line)})
        if self.file.held is not None:  # what is behind the step could not be read
            self.file.release(lambda at, event: True)
        with self.own:
            self.put_failed_waits(kind is not None)
        wall = time.perf_counter() - self.began
        end = {
            "k": "end",
            "events": self.file.events + 1,
            "n_values": self.count,
            "raw": self.file.raw_bytes,
            "refused": self.refused,
            "own_s": round(self.own_seconds, 3),
            "wall_s": round(wall, 3),
        }
        if kind is not None:
            name = "out of patience" if kind is _Impatient else kind.__name__
            end["error"] = "%s: %s" % (name, str(error).strip().split("\n")[0][:200])
        try:
            self.file.put(end)
            self.file.close()
            self.checkpoint.close()
        except (OSError, ValueError) as failed:
            sys.stderr.write("shardlab_record: %s is not whole: %s\n" % (self.path, failed))
            return
        self.tell()

    def put_failed_waits(self, ended):
        """One behind which the program did nothing more is never over; else it went on for the
        time that had passed."""
        for number, event, before in self.failed:
            last = ended and before == self.file.events
            if last and number is None:
                continue  # a barrier has its event
            self.file.put({**event, **({"of": number} if last else {"name": "a wait that failed"})})

    def stops_here(self, frames):
        """Of a thread that waits without an end: another one has come to this recorder."""
        number = next((x.f_locals["number"] for x, _ in frames if _is_recorded_wait(x)), None)
        for at in _users(frames)[-1:] if number is not None else ():
            code, line = frames[at][0].f_code, frames[at][1]
            place = self.places.number(code.co_filename, line, code.co_name)
            self.failed.append((number, {"k": "wait", "p": place}, self.file.events))

    def tell(self):
        for what, (times, place) in self.refused.items():
            sys.stderr.write(
                "shardlab_record: %s, %d times, first at %s: shardlab will refuse the file\n"
                % (what, times, place or "an unknown place")
            )
        if self.checkpoint.bytes:
            sys.stderr.write(
                "shardlab_record: %d bytes of elements, over --data-limit, are in %s: keep it "
                "beside the file\n" % (self.checkpoint.bytes, self.checkpoint.path)
            )
        if self.left_out:
            sys.stderr.write(
                "shardlab_record: the elements of %d values, over --data-limit, are in no file: "
                "raise it\n" % self.left_out
            )

    def say(self, more):
        sys.stderr.write(
            "%s: %d events, %d bytes%s\n"
            % (self.path, self.file.events, os.path.getsize(self.path), more)
        )

    def hook(self):
        module = torch.nn.modules.module
        self.handles = [
            module.register_module_forward_pre_hook(self.module_begins),
            module.register_module_forward_hook(self.module_ends, always_call=True),
        ]
        from torch.optim import optimizer

        self.handles += [
            optimizer.register_optimizer_step_pre_hook(self.optimizer_begins),
            optimizer.register_optimizer_step_post_hook(self.optimizer_ends),
        ]
        self.engine = tuple(
            _redirected(name, getattr(self, name), code) for name, code in _ENGINE.items()
        )
        _functions.append(self.function)
        self.apply_rule = torch.autograd.function.BackwardCFunction.apply
        rule = lambda own, *args: self.run_rule(own, args)
        torch.autograd.function.BackwardCFunction.apply = rule
        recorder, tolist, numpy = self, torch.Tensor.tolist, torch.Tensor.numpy
        torch.Tensor.tolist = lambda own: recorder.read(own, tolist)
        torch.Tensor.numpy = lambda own, **kwargs: recorder.share(own, numpy, kwargs)

    def ends(self):
        """(name, tensor) of parameters, and of those that only an optimizer has; of others that
        were written, by hand or before they were gone, their memory."""
        named = [one for model in self.names.models for one in self.names.tensors_of(model)]
        seen = {id(parameter) for _, parameter in named}
        for optimizer in filter(None, (kept() for kept in self.names.optimizers)):
            for own in (own for group in optimizer.param_groups for own in group["params"]):
                if id(own) not in seen and self.leaves.get(own) is not None:
                    named.append((self.leaves.get(own), own))
                    seen.add(id(own))
        known = {name for name, _ in named}
        return named + [one for one in self.written.items() if one[0] not in known]

    def check_end(self, ends=("", ".grad")):
        """Parameters and their gradients after the step."""
        for name, parameter in self.ends():
            for tensor, end in ((parameter, ""), (parameter.grad, ".grad")):
                known = tensor is not None and self.key(tensor) in self.numbers
                if known and end in ends:
                    self.check(name + end, tensor)
        for name, buffer in self.written_buffers():
            self.check(name, buffer)

    def written_buffers(self):
        """(name, tensor) of buffers that a process of a job has written to, or made anew."""
        if self.backend in ("none", "local"):
            return
        for model in self.names.models:
            for name, own in self.names.tensors_of(model, model.named_buffers()):
                number = self.numbers.get(self.key(own))
                writes = self.writes.get(self.storage_of(self.recorded_part(own)), 0)
                if number is not None and (writes or number not in self.taken):
                    yield name, own

    def step_is_over(self):
        """The program goes on up to its next forward: where it writes to parameters until then, as
        a broadcast from the rank that has made the step does, this belongs to the step; in a job
        of processes, so does what it writes to tensors from before, as to averages of weights."""
        with self.own:
            self.settle(True)
            self.file.hold()
            self.check_end()
            self.written.update((name, own.detach()) for name, own in self.ends())
            self.behind = len(self.file.held), self.exchanged, dict(self.refused)

    def parameters(self):
        """Numbers of parameters, those of no module, too, and of all views of their memory."""
        own = {
            self.storage_of(self.recorded_part(one))
            for model in self.names.models
            for one in model.parameters()
        }
        own |= self.leaf_of.keys()
        return {number for key, number in self.numbers.items() if _storage_in(key) in own}

    def end_behind_step(self):
        """Keeps what is behind the step up to the last write to what has been before."""
        checks, exchanged, refused = self.behind
        own, last, kept = self.parameters(), -1, -1
        if self.backend not in ("none", "local"):
            own |= {event["v"] for event, _ in self.file.held[checks:] if event["k"] == "const"}
        for at, (event, _) in enumerate(self.file.held[checks:], checks):
            exchanged += event["k"] == "coll"
            waits = event["k"] == "wait" and event.get("of", math.inf) < kept
            if waits or _writes_to(own, event):
                last, kept = at, exchanged
        if last < 0:
            self.refused = refused
            self.file.release(lambda at, event: at < checks)
            return
        parameter = lambda event: event["k"] == "check" and not event["name"].endswith(".grad")
        self.file.release(lambda at, event: at <= last and not (at < checks and parameter(event)))
        self.check_end(("",))

    def check(self, name, tensor):
        event = {"k": "check", "name": name}
        event.update(self.result(tensor))
        self.file.put(event)


def formula(count, seed, bias, scale):
    """Elements that a reader can work out by itself, so that a file need not hold them."""
    i = torch.arange(count, dtype=torch.int64)
    h = (i + 1) * 7919 + (seed + 1) * 104729 + ((i * i) % 251) * 31
    return bias + scale * (h % 509 - 254).to(torch.float64) / 256


def fill_parameters(model):
    """Gives every parameter the elements of a formula: small files for tests. It changes the
    model, so it is called before the step and never by a recording."""
    fills = {}
    with torch.no_grad():
        for seed, parameter in enumerate(model.parameters()):
            row = parameter.dim() < 2
            mean = float(_pieces(parameter)[0].double().mean())
            bias = 1.0 if row and mean > 0.5 else 0.0
            scale = 0.1 if row else round(1.7 / math.sqrt(parameter.shape[-1]), 3)
            elements = formula(parameter.numel(), seed, bias, scale).view(parameter.shape)
            if isinstance(parameter, DTensor):
                elements = dtensor_api.distribute_tensor(
                    elements, parameter.device_mesh, parameter.placements, src_data_rank=None
                )
            parameter.copy_(elements)
            fills[id(parameter)] = {"seed": seed, "bias": bias, "scale": scale}
    return fills


def record(path, model=None, optimizer=None, *, level="both", values="fp", data_limit=64 << 20):
    """Records what happens inside of `with`.

    path        of the file, ending in .json.gz
    model       a module, or a list of them: names of parameters, buffers and modules
    optimizer   names of its states
    level       "both", or "op": a quarter cheaper, and no re-mesh; "pieces": the same, of DTensors
                what each process has of them, for ranks that make different calls
    values      "fp": fingerprints of all results; "none": shapes alone
    data_limit  bytes of elements in the file; what comes later is put into a checkpoint beside it
    """
    return Recorder(path, model, optimizer, level, values, data_limit)


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


# The ranks of a job: who waits for whom, and the end of a script that does not end by itself.


class _Impatient(BaseException):
    """The script has not made its steps in time, or its job is over."""


# Messages of a backend whose call was not completed: there, or on another rank, is no counterpart.
STUCK = re.compile(r"timed? ?out|connection (was )?(closed|reset)|broken pipe", re.IGNORECASE)
CALLS = tuple(
    os.path.join(TORCH, "distributed", name)
    for name in ("distributed_c10d.py", "_functional_collectives.py")
)
# What all ranks in one process cannot run.
APART = tuple(os.path.join(TORCH, "distributed", name) for name in ("fsdp", "pipelining"))
APART += CALLS + (os.path.join(TORCH, "nn", "parallel"),)


def _frames_of(error):
    """Frames, with lines, that an error has left; the last is where it was raised."""
    return list(traceback.walk_tb(error.__traceback__))


def _stop_behind(error):
    """The wait, or the end of patience, from which an error has come; else None."""
    met = []
    while error is not None and not any(error is one for one in met):
        met.append(error)
        error = error.__cause__ or error.__context__
    stuck = (x for x in met if isinstance(x, RuntimeError) and STUCK.search(str(x)))
    late = (x for x in met if isinstance(x, _Impatient))
    return next(stuck, None) or next(late, None)


def _frames_here():
    return list(traceback.walk_stack(sys._getframe(1)))[::-1]


def _needs_processes(error):
    """Whether it was a library's part that failed, and not the user's own line or an op."""
    inner = []
    for frame, _ in reversed(_frames_of(error)):
        if _Places.kind(frame.f_code.co_filename) is True:
            break
        inner.append(frame.f_code.co_filename)
    return any(name.startswith(APART) for name in inner) or "Local" in str(error)


def _place_of(frames):
    """FILE:LINE of the user's innermost frame, or an empty text. Some frames have no line."""
    own = os.path.dirname(os.__file__) + os.sep  # Python's own modules
    for frame, line in reversed(frames):
        name = frame.f_code.co_filename
        if line is not None and _Places.kind(name) is True and not name.startswith(own):
            return "%s:%d" % (_short(name, os.getcwd() + os.sep), line)
    return ""


def _call_in(frames):
    """The call of torch.distributed that the user's line leads to, and the ranks that it meets."""
    for frame, _ in frames[max([0, *_users(frames)]) :]:
        name = frame.f_code.co_name
        if _is_recorded_wait(frame) and frame.f_locals["call"] is not None:
            return frame.f_locals["call"]
        if frame.f_code.co_filename in CALLS and not name.startswith("_"):
            return {"call": name, "ranks": _ranks_of(name, frame.f_locals)}
    return None


def _is_recorded_wait(frame):
    return frame.f_code.co_filename == HERE and frame.f_code.co_name == "wait_for_work"


def _users(frames):
    return [i for i, (one, _) in enumerate(frames) if _Places.kind(one.f_code.co_filename) is True]


def _ranks_of(name, given):
    """Of a frame's arguments: the other side of a message, or all ranks of the group."""
    try:
        group = given.get("group")
        if not isinstance(group, dist.ProcessGroup):
            group = dist.group.WORLD
        if name not in TO_ONE:
            return sorted(dist.get_process_group_ranks(group))
        end = "src" if "recv" in name else "dst"
        if given.get("group_" + end) is not None:
            return [dist.get_global_rank(group, given["group_" + end])]
        return [] if given.get(end) is None else [given[end]]
    except Exception:  # of another release, or before there are groups
        return []


def _stop_of(frames, reason=""):
    """Where a rank has stopped, and for whom it waits there."""
    call = _call_in(frames)
    told = {"state": "waits" if call else "runs", "at": _place_of(frames), "reason": reason}
    return {**told, **(call or {})}


def _trace_of(error):
    """The error with the user's own lines, without those of libraries and of the recorder."""
    whole = traceback.TracebackException.from_exception(error)
    todo, met = [whole], []
    while todo:
        one = todo.pop()
        if one is not None and not any(one is other for other in met):
            met.append(one)
            own = [line for line in one.stack if _Places.kind(line.filename) is True]
            one.stack = traceback.StackSummary.from_list(own)
            todo += [one.__cause__, one.__context__]
    return "".join(whole.format())


class _Watchdog:
    """Ends a script that makes no step in time, or whose job is over, from a thread that the
    program cannot list. A signal gives the script's own thread its chance, which a wait inside of
    a backend does not take: then the file is finished here, and the process ends. `turn` is taken
    by the one of both that goes on; the script's thread stands still at its next line of Python if
    that is the other one."""

    GRACE = 2.0  # seconds

    def __init__(self, steps, given):
        self.steps, self.given = steps, given
        self.turn, self.over = _thread.allocate_lock(), _thread.allocate_lock()
        self.taken = self.raised = False
        self.line = given.line

    def __enter__(self):
        own = threading.current_thread() is threading.main_thread()
        self.watches = own and (self.given.patience > 0 or self.line is not None)
        if self.watches:
            self.main = threading.get_ident()
            self.before = signal.signal(signal.SIGALRM, self.signalled)
            self.over.acquire()
            _thread.start_new_thread(self.watch, ())

    def __exit__(self, kind, error, trace):
        if self.watches:
            if not self.turn.acquire(blocking=False):
                self.stand()
            self.over.release()
            signal.signal(signal.SIGALRM, self.before)

    def signalled(self, number, frame):
        if self.taken:
            self.stand()
        # Not inside of the recorder's own work, where the next signal comes soon, nor where an
        # error is on its way already.
        recorder = self.steps.recorder
        busy = recorder is not None and recorder.own.entered
        if not self.raised and not busy and sys.exc_info()[0] is None:
            self.raised = True
            raise _Impatient("it was not over")

    @staticmethod
    def stand():
        while True:
            time.sleep(60)

    def watch(self):
        patience = self.given.patience if self.given.patience > 0 else math.inf
        end = time.monotonic() + patience
        while time.monotonic() < end and not _is_over(self.line):
            if self.over.acquire(timeout=0.1):
                return
        end = time.monotonic() + self.GRACE
        while time.monotonic() < end:
            self.wake()
            if self.over.acquire(timeout=0.1):
                return
        if self.turn.acquire(blocking=False):
            self.taken = True
            self.wake()
            self.finish()

    def wake(self):
        if signal.getsignal(signal.SIGALRM) == self.signalled:
            signal.pthread_kill(self.main, signal.SIGALRM)

    def finish(self):
        recorder = self.steps.recorder
        try:
            frames = list(traceback.walk_stack(sys._current_frames().get(self.main)))[::-1]
            if self.steps.is_over():
                recorder.finish()
                _leave(0)
            told = _stop_of(frames)
            if recorder is not None:
                recorder.stops_here(frames)
                recorder.finish(_Impatient, "it waits at " + told["at"])
            _tell(self.given, told)
        finally:
            _leave(1)


def _line_to_job():
    number = os.environ.pop(LINE, None)
    if number is None:
        return None
    os.set_inheritable(int(number), False)
    return socket.socket(fileno=int(number))


def _is_over(line):
    """Whether the job has hung up."""
    return line is not None and bool(select.select([line], [], [], 0)[0])


def _tell(given, told):
    """To the job, or to the user if there is none."""
    told["when"] = time.time()
    if given.line is None:
        return _report(given, [told], [1])
    with contextlib.suppress(OSError):  # the job has ended
        given.line.sendall(json.dumps({**told, "text": told.get("text", "")[-9000:]}).encode())
    if "at" in told:  # a broken backend may not end
        _leave(1)
    return int(told["state"] != "nothing")


def _leave(code):
    """Ends the process as it is."""
    with contextlib.suppress(Exception):
        for stream in sys.stdout, sys.stderr:
            stream.flush()
        if "multiprocessing" in sys.modules:
            for child in sys.modules["multiprocessing"].active_children():
                child.terminate()
    os._exit(code)


# A whole script, on one process or on several.


class _OfAnyRank(type(torch._C.Generator)):
    """A program may ask whether something is a torch.Generator, and means the library's."""

    def __instancecheck__(cls, value):
        return isinstance(value, torch._C.Generator)


class _Generator(torch._C.Generator, metaclass=_OfAnyRank):
    """torch.Generator while all ranks are in this process: its seed may be a number of the rank."""

    def manual_seed(self, seed):
        seeds = getattr(getattr(seed, "node", None), "_local_ints", None)
        if seeds is None:
            return super().manual_seed(seed)
        super().manual_seed(seeds[0])
        copies = {rank: torch._C.Generator(device=self.device) for rank in seeds if rank}
        for rank, copy in copies.items():
            copy.manual_seed(seeds[rank])
        simulate.generators[self._cdata] = [self, self.get_state(), copies]
        return self


class simulate:
    """All ranks of a program in this process: `with shardlab_record.simulate(4): main()`. Each has
    data of its own; the program's questions to torch.distributed are answered for every rank."""

    generators = {}  # address -> one, its state behind rank 0, those of the other ranks

    def __init__(self, ranks):
        self.ranks = ranks

    def __enter__(self):
        if LocalTensorMode is None:
            raise RuntimeError(
                "PyTorch %s has no LocalTensorMode, which holds all ranks in one process: "
                "use a newer release" % torch.__version__
            )
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=0, world_size=self.ranks, store=FakeStore())
        self.started = dist.init_process_group
        dist.init_process_group = lambda *args, **kwargs: None
        self.ended = dist.destroy_process_group
        dist.destroy_process_group = lambda *args, **kwargs: None
        self.mode = LocalTensorMode(self.ranks)
        self.mode.__enter__()
        self.of_rank, self.generator = local_tensor._map_to_rank_local_val, torch.Generator
        self.generators.clear()
        local_tensor._map_to_rank_local_val, torch.Generator = self.value_of_rank, _Generator
        return self

    def value_of_rank(self, value, rank):
        """As the library has it; but a process has a torch.Generator of its own."""
        if not isinstance(value, torch._C.Generator):
            return self.of_rank(value, rank)
        first = rank == 0  # it takes the program's, and the others copies of what that was
        if first:
            now = value.get_state()
            _, left, copies = self.generators.get(value._cdata, (None, None, {}))
            if left is None or not torch.equal(left, now):
                copies = {}  # it is new, or the program has seeded it
            self.generators[value._cdata] = [value, None, copies]
            self.began = now
            return value
        record = self.generators[value._cdata]
        record[1] = value.get_state()
        if rank not in record[2]:
            record[2][rank] = torch._C.Generator(device=value.device)
            record[2][rank].set_state(self.began)
        return record[2][rank]

    def __exit__(self, kind, error, trace):
        local_tensor._map_to_rank_local_val, torch.Generator = self.of_rank, self.generator
        self.mode.__exit__(kind, error, trace)
        dist.init_process_group, dist.destroy_process_group = self.started, self.ended
        dist.destroy_process_group()
        return False




class _Done(SystemExit):
    """The requested steps are recorded."""


# Functions that change a model before it is trained (they run new modules, and cut parameters), and
# that make ranks of a pipeline meet.
PREPARING = frozenset(
    "register_parametrization fully_shard parallelize_module distribute_module distribute_tensor "
    "replicate _initialize_stage _initialize_stages _initialize_pp_stages".split()
)


def _is_preparing():
    """While a model is being made, and in a loader of data."""
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name in PREPARING or LOADER in code.co_filename:
            return True
        if code.co_name == "__init__" and isinstance(
            frame.f_locals.get(code.co_varnames[0] if code.co_varnames else ""), torch.nn.Module
        ):
            return True
        frame = frame.f_back
    return False


def _is_attribute(func):
    """x.T is none: autograd sees it."""
    if getattr(getattr(func, "__self__", None), "__name__", "") in ("T", "mT", "H", "mH"):
        return False
    return getattr(func, "__name__", "__get__") in ("__get__", "__set__")


class _Watch(torch.overrides.TorchFunctionMode):
    """Begins a recording at the first function of a script whose result requires a gradient, where
    no module has begun it."""

    def __init__(self, steps):
        super().__init__()
        self.steps, self.dull = steps, set()  # functions whose results require none

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        steps = self.steps
        known = steps.recorder is not None and steps.recorder.states  # gradients have been made
        if known and torch.is_grad_enabled() and not _is_attribute(func):
            with torch._C.DisableTorchFunction():
                leaves = [x for x in _leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
                again = any(x.requires_grad and steps.recorder.is_changed(x) for x in leaves)
            if again:
                return self.run_behind_step(func, args, kwargs)
        if not steps.handles or not steps.is_due() or not self.may_begin(func, args, kwargs):
            return func(*args, **kwargs)
        steps.begin(None)
        result = func(*args, **kwargs)
        tensors = [x for x in _leaves(result) if isinstance(x, torch.Tensor)]
        if all(x.grad_fn is None for x in tensors) and steps.recorder is not None:
            self.dull.add(func)
            steps.take_back()
        return result

    def run_behind_step(self, func, args, kwargs):
        """A function of a leaf that was written to since its gradient was made: the next step's, if
        its result requires a gradient."""
        recorder = self.steps.recorder
        recorder.quiet += 1
        try:
            result = func(*args, **kwargs)
        finally:
            recorder.quiet -= 1
        tensors = [x for x in _leaves(result) if isinstance(x, torch.Tensor)]
        if any(x.grad_fn is not None for x in tensors):
            recorder.stepped()
        return result

    def may_begin(self, func, args, kwargs):
        if func in self.dull or _is_attribute(func):
            return False
        if not torch.is_grad_enabled():
            return False
        with torch._C.DisableTorchFunction():
            tensors = [x for x in _leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            return any(x.requires_grad for x in tensors) and not _is_preparing()


class _Steps:
    """Records a script from its first forward of a module that is trained, its first function whose
    result requires a gradient, or its first message on, until `steps` steps are made: of optimizers
    of torch, or of its own. A stage of a pipeline receives before its first forward. With `beyond`
    the program runs on to the next forward, since it may write to parameters behind the step."""

    MESSAGES = ("send", "recv", "isend", "irecv", "batch_isend_irecv")

    def __init__(self, path, skip, steps, options, beyond=False):
        self.path, self.skip, self.steps, self.options = path, skip, steps, options
        self.beyond = beyond
        self.made = 0
        self.recorder = self.made_file = None
        from torch.optim import optimizer

        self.handles = [
            torch.nn.modules.module.register_module_forward_pre_hook(self.forward_begins),
            optimizer.register_optimizer_step_pre_hook(self.step_begins),
            optimizer.register_optimizer_step_post_hook(self.step_ends),
        ]
        self.stepping = _Stepping()
        _functions.append(self.function_begins)
        self.messages = []  # (where it is, its name, what it was)
        for name in self.MESSAGES if dist.is_available() else ():
            function = getattr(dist, name)
            begins = self.beginning(function)
            for owner in (dist, dist.distributed_c10d):
                self.messages.append((owner, name, function))
                setattr(owner, name, begins)

    def beginning(self, function):
        @functools.wraps(function)
        def begins(*args, **kwargs):
            if self.is_due() and not _is_preparing():
                self.begin(None)
            return function(*args, **kwargs)

        return begins

    def is_due(self):
        due = self.recorder is None and self.handles and self.made >= self.skip
        return due and _active is None and torch.utils.data.get_worker_info() is None

    def begin(self, model):
        self.recorder = record(self.path, model, **self.options)
        self.recorder.__enter__()
        self.recorder.stepped = self.own_step_ends

    def function_begins(self, cls, *args, **kwargs):
        """An autograd.Function: checkpoint(use_reentrant=True) runs modules without gradients."""
        tensors = [x for x in _leaves(args) if isinstance(x, torch.Tensor)]
        trained = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
        library = cls.__module__.startswith("torch.distributed.")
        if trained and not library and self.is_due() and not _is_preparing():
            self.begin(None)
            return self.recorder.function(cls, *args, **kwargs)
        return _apply_of(cls)(*args, **kwargs)

    def take_back(self):
        """The function that began the recording was none of a step."""
        self.recorder.__exit__(_Done, None, None)
        os.remove(self.recorder.path)
        self.recorder = None

    def forward_begins(self, module, args):
        if self.is_over():
            self.done()
        if self.recorder is not None:
            if not self.recorder.names.models:
                self.recorder.takes_batches.add(id(module))
            return
        trained = self.is_due() and torch.is_grad_enabled()
        trained = trained and any(own.requires_grad for own in module.parameters())
        if trained and not _is_preparing():
            self.begin(module)
            # The hooks of the recording come too late for the module that has started it.
            self.recorder.module_begins(module, args)

    def step_begins(self, optimizer, args, kwargs):
        self.stepping.begins(optimizer)

    def step_ends(self, optimizer, args, kwargs):
        if not self.stepping.ends(optimizer):
            return
        self.made += 1
        if self.recorder is None or self.is_over():
            return
        if self.made < self.skip + self.steps:
            self.recorder.states.clear()
        elif self.beyond:
            self.recorder.step_is_over()
        else:
            self.done()

    def own_step_ends(self):
        """The next forward begins: a leaf was written to since backward."""
        self.recorder.states.clear()
        self.made += 1
        if self.made >= self.skip + self.steps:
            self.done()

    def is_over(self):
        return self.recorder is not None and self.recorder.behind is not None

    def done(self):
        self.end()
        raise _Done(0)

    def end(self, kind=None, error=None, trace=None):
        if self.recorder is not None:
            self.recorder.__exit__(kind, error, trace)
            self.made_file, self.recorder = self.recorder, None
        if self.handles:
            _functions.remove(self.function_begins)
        for handle in self.handles:
            handle.remove()
        for owner, name, function in self.messages:
            setattr(owner, name, function)
        self.handles, self.messages = [], []


def from_first_forward(path, steps=math.inf, **options):
    """Records from the first call of a module with gradients on, until its end() is called, or the
    steps of an optimizer are made, which raise _Done."""
    return _Steps(path, 0, steps, options)


def _ranks(count):
    if count == 1:
        return contextlib.nullcontext()
    os.environ.update({"MASTER_ADDR": "localhost", "MASTER_PORT": "0", **os.environ})
    os.environ.update(_of_rank(0, count))
    return simulate(count)


def _run(given):
    """Runs the script; the recorder, if anything was recorded."""
    options = {"values": given.values, "level": given.level, "data_limit": given.data_limit}
    steps = _Steps(given.out, given.skip, given.steps, options, True)
    try:
        gpu = _OnCpu() if given.on_cpu else contextlib.nullcontext()
        _Typed.steps = steps
        together = given.ranks > 1 and not given.processes
        with gpu, _AtImport(together), _Watch(steps), _Watchdog(steps, given):
            if given.module:
                runpy.run_module(given.script, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(given.script, run_name="__main__")
    except (Exception, SystemExit, _Impatient) as error:
        # Behind the step a rank may have ended that another one waits for.
        if not isinstance(error, _Done) and not steps.is_over():
            raise
    finally:
        steps.end(*sys.exc_info())
    return steps.made_file


def main(given):
    if given.processes and given.ranks == 1:
        one = {"MASTER_ADDR": "localhost", "MASTER_PORT": "0", **_of_rank(0, 1)}
        os.environ.update({**one, **os.environ})
    given.line, alone = _line_to_job(), "RANK" not in os.environ
    sys.argv = [given.script] + given.arguments
    sys.path[0] = os.getcwd()
    if not given.module:
        sys.path[0] = os.path.dirname(os.path.abspath(given.script))
    together = given.ranks > 1 and not given.processes
    try:
        with _ranks(given.ranks if together else 1):
            recorder = _run(given)
    except _Impatient as error:
        return _tell(given, _stop_of(_frames_of(error)))
    except _Apart:
        return _error(
            "spmd_types does not hold all ranks in one process",
            "give each rank a process: shardlab record --ranks %d --processes %s"
            % (given.ranks, _again(given)),
        )
    except Exception as error:
        if isinstance(error, ImportError) and given.module and error.name == given.script:
            fix = "run it in the folder of its package"
            return _error("%s: no such module" % given.script, fix, 2)
        stop = _stop_behind(error)
        if stop is not None:
            return _tell(given, _stop_of(_frames_of(stop), str(stop)))
        fix = "see that it runs by itself: %s %s" % (given_python(), _again(given))
        if together and _needs_processes(error):
            fix = "give each rank a process: shardlab record --ranks %d --processes %s" % (
                given.ranks,
                _again(given),
            )
        if not given.on_cpu and re.search("CUDA|NVIDIA", str(error)):
            fix = "run it without GPUs: shardlab record --on-cpu %s" % _again(given)
        text = "error: the script failed: %s\n  fix         %s\n" % (type(error).__name__, fix)
        return _tell(given, {"state": "failed", "text": _trace_of(error) + text})
    if recorder is None:
        return _tell(given, {"state": "nothing"})
    if alone and not recorder.refused:
        follow = "replay %s" if together else "run %s --mesh tp=2 --plan megatron"
        recorder.say("; next: shardlab " + follow % given.out)
    return 0


if __name__ == "__main__":
    # Its hooks and the script's `import shardlab_record` are one module.
    sys.modules["shardlab_record"] = sys.modules["__main__"]
    sys.exit(_interruptible(lambda: main(_command)))
