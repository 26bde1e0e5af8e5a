"""Each call of spmd_types that says or moves something, on two ranks, under its strict checker.

    shardlab record --ranks 2 --processes calls.py
"""

import spmd_types as spmd
import torch
import torch.distributed as dist
from spmd_types import I, Infer, MeshAxis, P, PartitionSpec, R, S, SpmdType, checker, rules
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
tp = mesh.get_group("tp")
g = torch.Generator().manual_seed(0)


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * x * w

    @staticmethod
    def spmd_typecheck(*, x, w):
        return rules.einsum("mn,n->mn", x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 2 * x * w * g, (x * x * g).sum(0)


@spmd.register_autograd_function
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def spmd_typecheck(outputs, *, x):
        rules.ignore(x)
        spmd.assert_type_like(outputs, x)

    @staticmethod
    def backward(ctx, g):
        return 2 * g


@spmd.register_local_autograd_function
class Local(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return 3 * g


@spmd.local_map(in_types=({"tp": S(0)}, {"tp": R}), out_types={"tp": S(0)})
def mapped(x, w):
    return x * w


@spmd.local_map(out_types=({"tp": S(0)}, ({}, PartitionSpec("tp", None))))
def two(x):
    return x + 1, x * 2


@spmd.no_typecheck(in_types=Infer, out_types={"tp": R})
def gathered(x):
    parts = [torch.empty_like(x) for _ in range(world)]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


with spmd.set_current_mesh(mesh), checker.typecheck("strict", local=False):
    whole = torch.randn(4, 6, generator=g)
    spmd.assert_type(whole, {"tp": R})
    w = torch.nn.Parameter(torch.randn(6, generator=g))
    spmd.assert_type(w, SpmdType({tp: R}))
    x = spmd.convert(whole, MeshAxis.of(tp), src=R, dst=S(0)).clone().requires_grad_()
    spmd.assert_type(x, {"tp": S(0)})
    y = Squared.apply(x, w)
    y = Own.apply(y)
    y = mapped(y, w)
    a, b = two(y)
    y = a + b
    with spmd.local():
        y * 1
    d = y.detach()
    r = gathered(d)
    spmd.assert_local_type(r, {"tp": R})
    u = spmd.unshard(y, "tp", src=S(0), dst=I)
    spmd.assert_local_type_like(u, u)
    t = y.detach().sum(0)
    spmd.all_reduce(t, "tp", src=P, dst=R, inplace=True)
    spmd.reinterpret_no_grad(t, "tp", dst=I)
    other = init_device_mesh("cpu", (world,), mesh_dim_names=("other",))
    spmd.reinterpret_mesh(t, other)
    spmd.assert_type(t, spmd.merge_types({"tp": I}))
    loss = u.pow(2).sum()
    loss.backward()
    spmd.assert_type(w.grad, {"tp": P})
    full = spmd.all_reduce(w.grad, "tp", dst=R)
    with torch.no_grad(), spmd.no_typecheck():
        w -= 0.01 * full
dist.destroy_process_group()
