"""A layer of experts as DeepSeek has it: one shared, others over ep, to which tokens go; the batch
is over dp and ep, in the types of spmd_types. On one process it is the program of one device.

    shardlab record --ranks 4 --processes moe.py
"""

import spmd_types as spmd
import torch
import torch.distributed as dist
import torch.nn.functional as F
from spmd_types import checker
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

ROWS, WIDTH, INNER, EXPERTS = 16, 8, 12, 4
BATCH = spmd.PartitionSpec(("dp", "ep"), None)


def drawn(seed, *sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)) / sizes[-1] ** 0.5


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Parameter(drawn(1, EXPERTS, WIDTH))
        self.shared_up = nn.Parameter(drawn(2, INNER, WIDTH))
        self.shared_down = nn.Parameter(drawn(3, WIDTH, INNER))
        whole = drawn(4, EXPERTS, INNER, WIDTH), drawn(5, EXPERTS, WIDTH, INNER)
        own = [spmd.convert(one, "ep", src=spmd.R, dst=spmd.S(0)) for one in whole]
        self.up, self.down = (nn.Parameter(one.contiguous().clone()) for one in own)

    def annotate(self):
        for own in (self.router, self.shared_up, self.shared_down):
            spmd.assert_type(own, {"dp": spmd.R, "ep": spmd.R})
        for own in (self.up, self.down):
            spmd.assert_type(own, {"dp": spmd.R, "ep": spmd.S(0)})

    def forward(self, x):
        shared = F.linear(F.silu(F.linear(x, self.shared_up)), self.shared_down)
        scores = F.linear(x, self.router).softmax(1)
        spmd.assert_type(scores, {}, BATCH)
        return shared + routed(x, scores, self.up, self.down)


@spmd.local_map(out_types=BATCH)
def routed(x, scores, up, down):
    """Each token goes to the rank of the expert that it likes most, and comes back: a row of zeros
    goes to the others."""
    own = up.shape[0]
    score, chosen = scores.max(1)
    likes = F.one_hot(chosen, EXPERTS).to(x.dtype).unflatten(1, (-1, own)).transpose(0, 1)
    rows = spmd.all_to_all(x * likes.sum(2, keepdim=True), "ep", src=spmd.V, dst=spmd.V)
    gates = spmd.all_to_all(likes * score.unsqueeze(1), "ep", src=spmd.V, dst=spmd.V)
    done = apply_expert(rows, up, down, 0) * gates[..., :1]
    for expert in range(1, own):
        done = done + apply_expert(rows, up, down, expert) * gates[..., expert : expert + 1]
    return spmd.all_to_all(done, "ep", src=spmd.V, dst=spmd.V).sum(0)


def apply_expert(x, up, down, expert):
    return F.linear(F.silu(F.linear(x, up[expert])), down[expert])


def main():
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (max(world // 2, 1), min(world, 2)), mesh_dim_names=("dp", "ep"))
    with spmd.set_current_mesh(mesh):
        model = Experts()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batch = drawn(6, ROWS, WIDTH)
        for name in ("dp", "ep"):
            batch = spmd.convert(batch, name, src=spmd.R, dst=spmd.S(0))
        with checker.typecheck("strict", local=False):
            model.annotate()
            spmd.assert_type(batch, {}, BATCH)
            y = model(batch)
            spmd.assert_type(y, {}, BATCH)
            loss = y.pow(2).sum() / ROWS
            loss.backward()
            for weight in model.parameters():
                types = spmd.get_local_type(weight)
                terms = {axis: spmd.P if kind is spmd.R else kind for axis, kind in types.items()}
                grad = spmd.assert_type(weight.grad, terms, spmd.get_partition_spec(weight))
                for axis, kind in types.items():
                    if kind is spmd.R:
                        grad = spmd.all_reduce(grad, axis, src=spmd.P, dst=spmd.R)
                weight.grad = grad
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
