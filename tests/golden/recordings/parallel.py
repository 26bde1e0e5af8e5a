"""Programs on several ranks, as people write them with DTensor: recorded for tests.

Each is a function of the number of ranks that gives (model, optimizer, step).
"""

import contextlib

import torch
import torch.nn.functional as F
from programs import Llama, tokens
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


class Mlp(nn.Module):
    def __init__(self, width=16, inner=32):
        super().__init__()
        self.w1, self.w2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


def mlp_tp(ranks):
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
    model = parallelize_module(Mlp(), mesh, {"w1": ColwiseParallel(), "w2": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    x = torch.randn(6, 16)

    def step():
        loss = model(x).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return model, optimizer, step


def mesh_2d(ranks):
    """Parameters and batch on both dims of a mesh, without a plan."""
    mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
    model = Mlp()
    for linear, placement in ((model.w1, Shard(0)), (model.w2, Shard(1))):
        for name, whole in list(linear.named_parameters()):
            labels = [Replicate(), placement if name == "weight" else Replicate()]
            linear.register_parameter(
                name, nn.Parameter(distribute_tensor(whole.data, mesh, labels))
            )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = distribute_tensor(torch.randn(6, 16), mesh, [Shard(0), Replicate()])

    def step():
        hidden = F.dropout(F.gelu(model.w1(x)), 0.25)
        loss = model.w2(hidden).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def tp_of_two(ranks):
    """A plan over one dim of a mesh of two."""
    mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
    plan = {"w1": ColwiseParallel(), "w2": RowwiseParallel()}
    model = parallelize_module(Mlp(), mesh["tp"], plan)
    x = torch.randn(6, 16)

    def step():
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    return model, None, step


def tensor_parallel(model, mesh, whole_loss=True):
    """Attention and feed-forward by heads and by features."""
    plan = {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate()),
        "output": ColwiseParallel(
            output_layouts=Replicate() if whole_loss else Shard(-1), use_local_output=whole_loss
        ),
    }
    for i in range(len(model.layers)):
        layer = f"layers.{i}."
        for name in ("attention.wq", "attention.wk", "attention.wv"):
            plan[layer + name] = ColwiseParallel()
        for name in ("feed_forward.w1", "feed_forward.w3"):
            plan[layer + name] = ColwiseParallel()
        for name in ("attention.wo", "feed_forward.w2"):
            plan[layer + name] = RowwiseParallel()
    return parallelize_module(model, mesh, plan)


def sequence_parallel(model, mesh, whole_loss=True):
    """The same; between the pairs dim 1 of activations is cut."""
    rows = {"output_layouts": Shard(1), "use_local_output": False}
    plan = {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), **rows),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(
            input_layouts=Shard(1),
            output_layouts=Replicate() if whole_loss else Shard(-1),
            use_local_output=whole_loss,
        ),
    }
    for i in range(len(model.layers)):
        layer = f"layers.{i}."
        plan[layer + "attention_norm"] = plan[layer + "ffn_norm"] = SequenceParallel()
        plan[layer + "attention"] = PrepareModuleInput(
            input_layouts=(Shard(1), None, None), desired_input_layouts=(Replicate(), None, None)
        )
        plan[layer + "feed_forward"] = PrepareModuleInput(
            input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
        )
        for name in ("wq", "wk", "wv"):
            plan[layer + "attention." + name] = ColwiseParallel()
        for name in ("w1", "w3"):
            plan[layer + "feed_forward." + name] = ColwiseParallel(input_layouts=Shard(1))
        plan[layer + "attention.wo"] = RowwiseParallel(**rows)
        plan[layer + "feed_forward.w2"] = RowwiseParallel(**rows)
    return parallelize_module(model, mesh, plan)


def llama(ranks, plan=tensor_parallel, whole_loss=True, checkpoint=False, **sizes):
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
    model = plan(Llama(**sizes), mesh, whole_loss)
    if checkpoint:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        for i, layer in enumerate(model.layers):
            model.layers[i] = checkpoint_wrapper(layer, preserve_rng_state=False)
    kinds = {}
    for parameter in model.parameters():
        kinds.setdefault(type(parameter), []).append(parameter)
    optimizer = torch.optim.AdamW([{"params": each} for each in kinds.values()], lr=1e-3)
    x, y = tokens(batch=2)

    def step():
        with contextlib.nullcontext() if whole_loss else loss_parallel():
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
        if len(kinds) == 1:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return model, optimizer, step


def llama_tp(ranks):
    return llama(ranks, layers=1)


def llama_sp(ranks):
    return llama(ranks, sequence_parallel, layers=1)


def llama_sp_loss(ranks):
    return llama(ranks, sequence_parallel, whole_loss=False, layers=1)


def llama_checkpoint(ranks):
    return llama(ranks, checkpoint=True, layers=1)


PROGRAMS = {program.__name__: program for program in (
    mlp_tp, mesh_2d, tp_of_two, llama_tp, llama_sp, llama_sp_loss, llama_checkpoint
)}


def fsdp(ranks, plan=None, **sizes):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = Llama(**{"layers": 1, **sizes})
    if plan is None:
        mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))
    else:
        both = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
        plan(model, both["tp"])
        mesh = both["dp"]
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(torch.distributed.get_rank() if plan is None else 0)
    x, y = tokens(batch=2)

    def step():
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return model, optimizer, step


def fsdp_uneven(ranks):
    return fsdp(ranks, vocabulary=65, width=48, inner=50)


def fsdp_sp(ranks):
    return fsdp(ranks, sequence_parallel)


def ddp(ranks):
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(torch.distributed.get_rank())
    x = torch.randn(6, 16)

    def step():
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def by_hand(ranks):
    """Gradients are averaged by calls of torch.distributed."""
    torch.manual_seed(0)
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(torch.distributed.get_rank())
    x = torch.randn(6, 16)

    def step():
        loss = model(x).pow(2).mean()
        loss.backward()
        for parameter in model.parameters():
            torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= ranks
        optimizer.step()
        return loss

    return model, optimizer, step


# One file a process, on gloo.
PROCESSES = {program.__name__: program for program in (
    fsdp, fsdp_uneven, fsdp_sp, ddp, by_hand, llama_tp, llama_sp
)}
