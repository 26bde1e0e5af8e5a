#!/usr/bin/env python3
"""A program cannot see that it is recorded: each runs by itself and recorded, and all that it can
see is compared. Skipped (77) where PyTorch or NumPy is not installed.

    unseen_test.py PROGRAM ROOT
"""

import contextlib
import copy
import gc
import hashlib
import io
import pathlib
import pickle
import sys
import unittest
import weakref

import program

program.need("torch", "numpy")

import torch  # noqa: E402
import torch.distributed._functional_collectives as collectives  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402
from torch.distributed.tensor.debug import CommDebugMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

ROOT = pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(ROOT / "sim/record_torch"))

import shardlab_record  # noqa: E402

PROGRAMS, ON_RANKS, REFUSED = {}, {}, {}


def one(function):
    PROGRAMS[function.__name__] = function


def on_ranks(function):
    ON_RANKS[function.__name__] = function


def refused(what):
    def mark(function):
        REFUSED[function.__name__] = what
        return function

    return mark


def model_and_optimizer():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def step(model, optimizer=None):
    model(torch.randn(4, 8)).square().mean().backward()
    if optimizer is not None:
        optimizer.step()


def bits(values):
    return [hashlib.sha256(x.detach().numpy().tobytes()).hexdigest() for x in values]


def stored(value):
    """What torch.save writes, read again: bytes of the archive name memory by number."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@one
def saves_its_model_and_optimizer():
    model, optimizer = model_and_optimizer()
    step(model, optimizer)
    again = stored(model)
    state = stored(optimizer.state_dict())
    optimizer.load_state_dict(state)
    whole = pickle.loads(pickle.dumps(optimizer))
    step(model, optimizer)
    return bits([*again.parameters(), *model.parameters()]), type(whole).__name__


@one
def averages_a_copy_of_its_model():
    model, optimizer = model_and_optimizer()
    step(model, optimizer)
    average = copy.deepcopy(model)
    step(model, optimizer)
    with torch.no_grad():
        for mine, own in zip(average.parameters(), model.parameters()):
            mine.mul_(0.9).add_(own, alpha=0.1)
    library = torch.optim.swa_utils.AveragedModel(model)
    library.update_parameters(model)
    average.load_state_dict(stored(average.state_dict()))
    return bits([*average.parameters(), *library.parameters()])


@one
def looks_for_hooks():
    model, optimizer = model_and_optimizer()
    step(model, optimizer)
    found = [sorted(vars(x)) for x in model.parameters()]
    for x in model.parameters():
        found.append([x._backward_hooks, x._post_accumulate_grad_hooks, x._use_count()])
        found.append(sys.getrefcount(x))
        found.append(len(weakref.getweakrefs(x)))
    for module in model.modules():
        own = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks
        found.append([len(x) for x in own])
    return found


@one
def lets_things_go():
    model, optimizer = model_and_optimizer()
    step(model, optimizer)
    kept = [weakref.ref(x) for x in (model, optimizer, *model.parameters())]
    batch = torch.randn(4, 8)
    kept.append(weakref.ref(batch))
    model(batch)
    del model, optimizer, batch
    gc.collect()
    return [x() is None for x in kept]


@one
def swaps_parameters():
    model, _ = model_and_optimizer()
    model(torch.randn(4, 8))
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.double()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    a, b = torch.ones(2), torch.zeros(3)
    a + 1
    torch.utils.swap_tensors(a, b)
    return a.tolist(), model[0].weight.dtype


@one
@refused("a sparse tensor")
def has_sparse_gradients():
    table = torch.nn.Embedding(32, 8, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), 1e-3)
    table(torch.arange(16)).square().sum().backward()
    optimizer.step()
    adjacency = torch.eye(4).to_sparse()
    return table.weight.grad.layout, bits([table.weight, adjacency @ torch.ones(4, 2)])


@one
def infers_and_reads():
    model, optimizer = model_and_optimizer()
    with torch.inference_mode():
        result = model(torch.ones(2, 8))
    step(model, optimizer)
    array = result.numpy()
    return result.is_inference(), array.tolist(), result.tolist(), result.sum().item()


@one
def has_hooks_of_its_own():
    model, optimizer = model_and_optimizer()
    seen = []
    weight = model[0].weight
    weight.register_hook(lambda gradient: seen.append("hook") or gradient * 2)
    weight.register_post_accumulate_grad_hook(
        lambda own: seen.append("after") or own.grad.mul_(0.5))
    model.register_forward_hook(lambda *given: seen.append("forward"))
    step(model, optimizer)
    step(model, optimizer)
    return seen, bits([*model.parameters(), weight.grad])


@one
def counts_functions():
    seen = []

    class Names(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", "?"))
            return func(*args, **(kwargs or {}))

    model, optimizer = model_and_optimizer()
    with Names():
        step(model, optimizer)
    return seen


@one
def counts_ops():
    seen = []

    class Ops(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    model, optimizer = model_and_optimizer()
    with Ops():
        step(model, optimizer)
    return seen, bits(model.parameters())


@one
def fails_and_goes_on():
    model, optimizer = model_and_optimizer()
    told = []
    for width in 7, 8:
        try:
            model(torch.ones(2, width)).sum().backward()
        except RuntimeError as error:
            told.append(str(error))
    optimizer.step()
    return told, bits(model.parameters())


@one
def has_another_default():
    with torch.device("meta"):
        shapes = torch.nn.Linear(4, 4)(torch.ones(2, 4)).device.type
    torch.set_default_dtype(torch.float64)
    try:
        model, optimizer = model_and_optimizer()
        step(model, optimizer)
    finally:
        torch.set_default_dtype(torch.float32)
    return shapes, bits(model.parameters()), torch.get_rng_state().sum().item()


def mesh():
    return init_device_mesh("cpu", (4,))


@on_ranks
def counts_collectives():
    x = distribute_tensor(torch.randn(8, 4, requires_grad=True), mesh(), [Shard(0)])
    y = x.redistribute(placements=[Replicate()])
    with CommDebugMode() as counts:
        y.backward(torch.ones_like(y))
        (x * 2).sum().full_tensor()
    return {str(key): value for key, value in counts.get_comm_counts().items()}


def counted_collectives():
    x = torch.ones(3)
    with CommDebugMode() as counts:
        torch.distributed.all_reduce(x)
        y = collectives.all_gather_tensor(x, 0, torch.distributed.group.WORLD) + 1
    return {str(key): value for key, value in counts.get_comm_counts().items()}, y.sum().item()


@on_ranks
def counts_collectives_of_a_tensor_that_no_rank_made():
    x = torch.tensor([True])  # the same on all ranks, and plain
    with CommDebugMode() as counts:
        collectives.all_gather_tensor(x, 0, (mesh(), 0))
    return counts.get_total_counts()


@on_ranks
def waits_for_a_collective():
    result = collectives.all_reduce(torch.ones(4), "sum", (mesh(), 0))
    kind = type(result).__name__
    return kind, type(result.wait()).__name__


@on_ranks
def infers_on_ranks():
    x = distribute_tensor(torch.arange(32.0).view(8, 4), mesh(), [Shard(0)])
    with torch.inference_mode():
        return (x * 2).sum().full_tensor().tolist()


@on_ranks
def draws_from_a_generator():
    generator = torch.Generator().manual_seed(3)
    first = torch.randn(2, generator=generator)
    generator.manual_seed(4)
    second = torch.randn(2, generator=generator)
    state = generator.get_state()
    pieces = [x for y in (first, second) for x in shardlab_record._pieces(y)]
    return bits(pieces), hashlib.sha256(bytes(state.tolist())).hexdigest()


@on_ranks
@refused("a call of DTensors under the mode Passes")
def has_a_mode_of_its_own():
    seen = []

    class Passes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = distribute_tensor(torch.randn(8, 4), mesh(), [Shard(0)])
    with Passes():
        x.sum(0)
    return seen


class Unseen(program.Program):
    def outcome(self, function, recorder):
        torch.manual_seed(0)
        with recorder:
            try:
                return function()
            except Exception as error:  # noqa: BLE001  it is compared
                return "%s: %s" % (type(error).__name__, error)

    def both(self, name, function):
        self.outcome(function, contextlib.nullcontext())  # PyTorch fills its caches
        plain = self.outcome(function, contextlib.nullcontext())
        told = io.StringIO()
        path = str(self.folder / "step.json.gz")
        with contextlib.redirect_stderr(told):
            recorded = self.outcome(function, shardlab_record.record(path))
        self.assertEqual(plain, recorded)
        code, output, errors = self.shardlab("replay", "step.json.gz")
        if name in REFUSED:
            self.assertIn("could not see " + REFUSED[name], errors)
            self.assertRegex(errors, r" at \S*unseen_test.py:\d+")
        else:
            self.assertEqual((told.getvalue(), errors), ("", ""))
            self.assertIn(" 0 differ", output)

    def test_a_program_cannot_see_that_it_is_recorded(self):
        for name, function in PROGRAMS.items():
            with self.subTest(name):
                self.both(name, function)

    def test_a_program_of_ranks_cannot_see_it(self):
        for name, function in ON_RANKS.items():
            with self.subTest(name), shardlab_record.simulate(4):
                self.both(name, function)

    def test_a_process_of_a_group_cannot_see_it(self):
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            self.both("counted_collectives", counted_collectives)
        finally:
            torch.distributed.destroy_process_group()

    def test_a_model_that_is_given_is_saved_and_copied(self):
        model, optimizer = model_and_optimizer()
        with shardlab_record.record(self.folder / "step.json.gz", model, optimizer):
            step(model, optimizer)
            again, average = stored(model), copy.deepcopy(model)
            copy.deepcopy(optimizer)
            step(average)
        self.assertEqual(bits(again.parameters()), bits(model.parameters()))
        self.assertEqual(bits(average.parameters()), bits(model.parameters()))
        self.assertIn(" 0 differ", self.fine("replay", "step.json.gz"))

    def test_values_are_written_of_a_model_that_is_saved_and_copied(self):
        model, optimizer = model_and_optimizer()
        with shardlab_record.dump_values(self.folder / "v.json.gz", model):
            step(model, optimizer)
            for other in stored(model), copy.deepcopy(model):
                step(other)
                self.assertEqual(bits(other.parameters()), bits(model.parameters()))

    def test_simulated_ranks_draw_what_processes_would(self):
        alone = torch.randn(2, generator=torch.Generator().manual_seed(3))
        with shardlab_record.simulate(3):
            drawn = torch.randn(2, generator=torch.Generator().manual_seed(3))
            for piece in shardlab_record._pieces(drawn):
                self.assertTrue(torch.equal(alone, piece))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
