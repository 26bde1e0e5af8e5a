"""Programs on several ranks, as people write them with DTensor: recorded for tests.

Each is a function of the number of ranks that gives (model, optimizer, step).
"""

import contextlib

import torch
import torch.nn.functional as F
from programs import Llama, next_token, tokens
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
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


def next_token_tp(ranks):
    """The batch on each rank is two views of one tensor, made before the step."""
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
    plan = {"2": ColwiseParallel(output_layouts=Replicate())}
    return next_token(lambda model: parallelize_module(model, mesh, plan))


class Views(nn.Module):
    """Dense weights on one mesh, experts on another one over the same ranks."""

    def __init__(self, ranks):
        super().__init__()
        mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
        world = init_device_mesh("cpu", (ranks,), mesh_dim_names=("w",))
        sparse = world._unflatten(0, (ranks // 2, 2), ("tp", "ep"))  # a tp of other ranks
        self.mesh, self.sparse = mesh, sparse
        weights = [torch.randn(16, 6), torch.randn(6, 16), torch.randn(4, 16, 16), torch.randn(16)]
        meshes = [mesh, mesh["tp"], sparse, sparse["tp", "ep"]._flatten("all")]
        cuts = [(Shard(0), Shard(1)), (Shard(1),), (Shard(1), Shard(0)), (Shard(0),)]
        self.weights = nn.ParameterList(
            nn.Parameter(distribute_tensor(w, m, cut)) for w, m, cut in zip(weights, meshes, cuts)
        )

    def forward(self, x):
        up, down, experts, bias = self.weights
        h = F.gelu(distribute_tensor(x, self.mesh, [Shard(0), Replicate()]) @ up)
        h = (h.full_tensor() @ down.full_tensor()).unsqueeze(0)
        tokens = DTensor.from_local(h, self.sparse, [Replicate(), Replicate()], run_check=False)
        e = tokens.expand(4, -1, -1) @ experts
        return e.sum(0).full_tensor() + (bias * 2).full_tensor()


def views(ranks):
    model = Views(ranks)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    x = torch.randn(6, 16)

    def step():
        loss = model(x).pow(2).mean()
        loss.backward()
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


class Gathered(nn.Module):
    """Elements that an index with fewer rows picks: PyTorch cuts both by rows, which it may not."""

    def __init__(self, mesh):
        super().__init__()
        rows = torch.arange(24.0).view(8, 3)
        self.table = nn.Parameter(distribute_tensor(rows, mesh, [Shard(0)]))
        index = torch.tensor([[0, 2], [1, 1], [2, 0], [0, 1]])
        self.register_buffer("index", distribute_tensor(index, mesh, [Shard(0)]))

    def forward(self):
        return torch.gather(self.table, 1, self.index)


def gathered(ranks):
    model = Gathered(init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",)))

    def step():
        loss = model().pow(2).sum()
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


def recompute(model):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    for i, layer in enumerate(model.layers):
        model.layers[i] = checkpoint_wrapper(layer, preserve_rng_state=False)


def llama(
    ranks, plan=tensor_parallel, whole_loss=True, checkpoint=False, autocast=None, **sizes
):
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
    model = plan(Llama(**sizes), mesh, whole_loss)
    if checkpoint:
        recompute(model)
    kinds = {}
    for parameter in model.parameters():
        kinds.setdefault(type(parameter), []).append(parameter)
    optimizer = torch.optim.AdamW([{"params": each} for each in kinds.values()], lr=1e-3)
    x, y = tokens(batch=2)

    def step():
        lower = contextlib.nullcontext()
        if autocast is not None:
            lower = torch.autocast("cpu", autocast)
        with contextlib.nullcontext() if whole_loss else loss_parallel():
            with lower:
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


def llama_autocast(ranks):
    return llama(ranks, autocast=torch.bfloat16, layers=1)


PROGRAMS = {program.__name__: program for program in (
    mlp_tp, views, next_token_tp, mesh_2d, tp_of_two, llama_tp, llama_sp, llama_sp_loss,
    llama_checkpoint, llama_autocast, gathered
)}


def fsdp(ranks, plan=None, policy=None, replicas=1, checkpoint=False, autocast=None, **sizes):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = Llama(**{"layers": 1, **sizes})
    if checkpoint:
        recompute(model)
    if replicas > 1:
        names = ("replicate", "shard")
        mesh = init_device_mesh("cpu", (replicas, ranks // replicas), mesh_dim_names=names)
    elif plan is None:
        mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))
    else:
        both = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
        plan(model, both["tp"])
        mesh = both["dp"]
    options = {} if policy is None else {"mp_policy": policy}
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(torch.distributed.get_rank() if plan is None else 0)
    x, y = tokens(batch=2)

    def step():
        with contextlib.nullcontext() if autocast is None else torch.autocast("cpu", autocast):
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


def fsdp_sp_uneven(ranks):
    """Strided shards whose pieces are padded: 33 rows of a rank of tp over 2 ranks of dp."""
    return fsdp(ranks, sequence_parallel, vocabulary=66, inner=50)


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


def fsdp_hybrid(ranks):
    """Shards over one mesh dim, replicas over another."""
    return fsdp(ranks, replicas=2)


def fsdp_mixed(ranks):
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return fsdp(ranks, policy=policy)


def fsdp_checkpoint(ranks):
    return fsdp(ranks, checkpoint=True)


def fsdp_autocast(ranks):
    return fsdp(ranks, autocast=torch.bfloat16)


def fsdp_rows(ranks):
    """Parameters of one dim that ranks cannot share out evenly."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 25), nn.LayerNorm(25), nn.Linear(25, 4))
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(torch.distributed.get_rank())
    x = torch.randn(6, 16)

    def step():
        loss = model(x).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return model, optimizer, step


class Experts(nn.Module):
    """Rows are sent to the rank of their expert and come back."""

    def __init__(self, ranks, experts, width=16):
        super().__init__()
        self.ranks, self.experts = ranks, experts
        self.gate = nn.Linear(width, experts, bias=False)
        self.weight = nn.Parameter(torch.randn(experts // ranks, width, width) * 0.2)

    def forward(self, x):
        from torch.distributed._functional_collectives import all_to_all_single_autograd

        world = torch.distributed.group.WORLD
        top, chosen = self.gate(x).softmax(-1).max(-1)
        order = chosen.argsort(stable=True)
        counts = torch.bincount(chosen, minlength=self.experts)
        incoming = torch.empty_like(counts)
        torch.distributed.all_to_all_single(incoming, counts)
        sent, received = (n.view(self.ranks, -1).sum(1).tolist() for n in (counts, incoming))
        own = self.experts // self.ranks
        expert = torch.arange(own).repeat(self.ranks).repeat_interleave(incoming)
        rows = all_to_all_single_autograd(x[order], received, sent, world)
        rows = torch.bmm(rows.unsqueeze(1), self.weight[expert]).squeeze(1)
        rows = all_to_all_single_autograd(rows, sent, received, world)
        return torch.zeros_like(x).index_copy(0, order, rows) * top.unsqueeze(1)


def experts(ranks):
    torch.manual_seed(0)
    model = Experts(ranks, 2 * ranks)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(10 + torch.distributed.get_rank())
    x = torch.randn(12, 16)

    def step():
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


class Passed(torch.autograd.Function):
    """To the next rank of a ring; gradients are sent to the previous one."""

    @staticmethod
    def forward(ctx, x):
        return passed(x, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed(gradient, -1)


def passed(x, step):
    from torch.distributed import P2POp, batch_isend_irecv, get_rank, get_world_size, irecv, isend

    rank, ranks = get_rank(), get_world_size()
    x = x.contiguous()
    result = torch.empty_like(x)
    messages = [P2POp(isend, x, (rank + step) % ranks), P2POp(irecv, result, (rank - step) % ranks)]
    for work in batch_isend_irecv(messages):
        work.wait()
    return result


def ring(ranks):
    """Attention over keys that are passed round a ring."""
    torch.manual_seed(0)
    model = nn.Linear(8, 24, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(torch.distributed.get_rank())
    x = torch.randn(2, 4, 8)

    def step():
        q, k, v = model(x).chunk(3, -1)
        above, below = 0, 0
        for turn in range(ranks):
            weights = (q @ k.transpose(-1, -2) / 8**0.5).exp()
            above, below = above + weights @ v, below + weights.sum(-1, keepdim=True)
            if turn + 1 < ranks:
                k, v = Passed.apply(k), Passed.apply(v)
        loss = (above / below).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def pipeline(ranks):
    """A stage on each rank, one forward and one backward in turn."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank = torch.distributed.get_rank()
    torch.manual_seed(0)
    model = Mlp()
    stage = PipelineStage(model, rank, ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=lambda out, wanted: (out - wanted).pow(2).mean())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, wanted = torch.randn(8, 16), torch.randn(8, 16)

    def step():
        if rank == 0:
            schedule.step(x)
        elif rank + 1 < ranks:
            schedule.step()
        else:
            schedule.step(target=wanted, losses=[])
        optimizer.step()

    return model, optimizer, step


def chain(ranks):
    """Two stages by hand: blocking messages, gradients on the way back."""
    from torch.distributed import recv, send

    rank = torch.distributed.get_rank()
    torch.manual_seed(0)
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(4, 16)

    def step():
        for _ in range(2):
            x = batch
            if rank > 0:
                x = torch.empty(4, 16)
                recv(x, rank - 1)
                x.requires_grad_()
            y = model(x)
            if rank + 1 < ranks:
                send(y.detach(), rank + 1)
                gradient = torch.empty_like(y)
                recv(gradient, rank + 1)
                y.backward(gradient)
            else:
                y.pow(2).mean().backward()
            if rank > 0:
                send(x.grad, rank - 1)
        optimizer.step()

    return model, optimizer, step


def stages(ranks):
    """Two stages by hand, each cut over the ranks of its row of a mesh: ranks make other calls."""
    from torch.distributed import recv, send

    mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("pp", "tp"))
    torch.manual_seed(0)
    model = parallelize_module(Mlp(), mesh["tp"],
                               {"w1": ColwiseParallel(), "w2": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    batch, first = torch.randn(4, 16), mesh.get_local_rank("pp") == 0
    rank = torch.distributed.get_rank()
    other = rank + ranks // 2 if first else rank - ranks // 2

    def step():
        if first:
            y = model(batch)
            send(y.detach(), other)
            gradient = torch.empty_like(y)
            recv(gradient, other)
            y.backward(gradient)
        else:
            x = torch.empty(4, 16)
            recv(x, other)
            x.requires_grad_()
            model(x).pow(2).mean().backward()
            send(x.grad, other)
        optimizer.step()

    return model, optimizer, step


def lists(ranks):
    """Collectives of lists, over groups along no mesh dim; losses meet on rank 0."""
    dist = torch.distributed
    rank = dist.get_rank()
    groups = [dist.new_group(members) for members in ([0, 3], [1, 2])]
    torch.manual_seed(0)
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    own = groups[0 if rank in (0, 3) else 1]
    x = torch.empty(4, 16)

    def step():
        batches = [torch.randn(4, 16) for _ in range(ranks)] if rank == 0 else None
        dist.scatter(x, batches, src=0)
        loss = model(x).pow(2).mean()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=own)
            parameter.grad /= 2
        pieces = list(model.w1.weight.grad.detach().clone().chunk(ranks))
        swapped = [torch.empty_like(piece) for piece in pieces]
        dist.all_to_all(swapped, pieces)
        piece = torch.empty_like(pieces[0])
        dist.reduce_scatter(piece, swapped)
        with torch.no_grad():
            model.w1.weight[: len(piece)] -= 0.01 * piece
        losses = [torch.empty(()) for _ in range(ranks)] if rank == 0 else None
        dist.gather(loss.detach(), losses, dst=0)
        if rank == 0:
            torch.stack(losses).mean()
        optimizer.step()

    return model, optimizer, step


def laid_out(kind, x):
    """The same elements in another memory: dense, transposed, rows apart, columns apart."""
    rows, columns = x.shape
    if kind == "transposed":
        return x.t().contiguous().t()
    wide = torch.full((2 * rows, columns + 1) if kind == "sliced" else (rows, 2 * columns), -1.0)
    views = {"dense": x.clone(), "sliced": wide[::2, 1:], "columns": wide[:, ::2]}
    return views[kind].copy_(x)


def layouts(ranks):
    """Collectives of tensors in each memory: gloo copies elements for some, and moves memory as it
    lies for others."""
    dist = torch.distributed
    rank = dist.get_rank()
    x = torch.arange(6.0).view(2, 3) + 10 * rank
    kinds = "dense", "transposed", "sliced", "columns"
    weight = torch.linspace(-1, 1, 6 * ranks).view(2 * ranks, 3).requires_grad_()

    def step():
        own = weight[2 * rank : 2 * rank + 2]  # the same memory, and another view for autograd
        (own * weight.chunk(ranks)[rank]).sum().backward()
        for kind in kinds:
            dist.all_reduce(laid_out(kind, x))
            dist.broadcast(laid_out(kind, x), 1)
            dist.reduce(laid_out(kind, x), 0)
            whole = laid_out(kind, torch.zeros(ranks * 2, 3))
            dist.all_to_all_single(whole, torch.cat([x] * ranks))
            for other in kinds:
                gathered = [laid_out(other, torch.zeros(2, 3)) for _ in range(ranks)]
                dist.all_gather(gathered, laid_out(kind, x))
                pieces = [laid_out(kind, x + i) for i in range(ranks)]
                dist.all_to_all(gathered, pieces)
                dist.gather(laid_out(kind, x), gathered if rank == 1 else None, 1)
                whole = laid_out(other, torch.zeros(ranks * 2, 3))
                dist.all_gather_into_tensor(whole, laid_out(kind, x))
                piece = laid_out(other, torch.zeros(2, 3))
                dist.reduce_scatter_tensor(piece, laid_out(kind, torch.cat(pieces)))
                dist.scatter(piece, pieces if rank == 0 else None, 0)
                (sum(gathered) + piece).sum()
            if kind != "transposed":
                dist.reduce_scatter(torch.zeros(2, 3), pieces)

    return torch.nn.Linear(1, 1), None, step


def exchange(ranks):
    """Pieces that change the dim they are cut along, unevenly, there and back."""
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("x",))
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(distribute_tensor(torch.randn(10, 7), mesh, [Shard(0)]))

    def step():
        columns = model.w.redistribute(mesh, [Shard(1)])
        loss = (columns.softmax(0) * columns).sum()
        loss.backward()
        return loss

    return model, None, step


def context(ranks):
    """A query's part on each rank, by asynchronous collectives. The gradient of the keys' bias is
    zero: terms of ranks cancel, all but their rounding."""
    import torch.distributed._functional_collectives as functional

    torch.manual_seed(0)
    model = torch.nn.ModuleDict({name: torch.nn.Linear(8, 8) for name in "qkv"})
    x = torch.randn(2, 4 * ranks, 8).chunk(ranks, 1)[torch.distributed.get_rank()]
    group = torch.distributed.group.WORLD

    def step():
        k, v = (functional.all_gather_tensor_autograd(model[n](x), 1, group) for n in "kv")
        loss = F.scaled_dot_product_attention(model["q"](x), k, v).square().mean()
        loss.backward()
        for own in model.parameters():
            own.grad = functional.all_reduce(own.grad, "sum", group) / ranks
        return loss

    return model, None, step


def memories(ranks):
    """Lists that are reduced and scattered, of tensors that lie in different orders: gloo adds
    their memory to that of the output, to which it has copied the rank's own by elements."""
    dist = torch.distributed
    rank = dist.get_rank()
    x = torch.arange(6.0).view(2, 3) + 10 * rank
    kinds = "dense", "transposed", "sliced", "columns"

    def step():
        for first in kinds:
            for second in kinds:
                for out in "dense", "transposed":
                    pieces = [laid_out(kind, x + i) for i, kind in enumerate((first, second))]
                    piece = laid_out(out, torch.zeros(2, 3))
                    dist.reduce_scatter(piece, pieces)
                    piece.sum()

    return torch.nn.Linear(1, 1), None, step


# One file a process, on gloo.
PROCESSES = {program.__name__: program for program in (
    fsdp, fsdp_uneven, fsdp_sp, fsdp_sp_uneven, ddp, by_hand, llama_tp, llama_sp, fsdp_hybrid,
    fsdp_mixed, fsdp_checkpoint, fsdp_autocast, fsdp_rows, experts, ring, pipeline, chain, lists,
    stages, layouts, exchange, context, memories
)}
