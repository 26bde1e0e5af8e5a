#!/usr/bin/env python3
"""Scripts under `shardlab record`: where a recording begins and ends, scripts for GPUs, modules,
and scripts that fail. Skipped (77) where PyTorch is not installed.

    record_script_test.py PROGRAM ROOT [PART/PARTS]
"""

import gzip
import json
import pathlib
import sys
import unittest

import program

program.need("torch", "numpy")

MODEL = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
"""

# A module without parameters runs in the loader's processes, and before.
LOADER = MODEL + """
class Normalize(torch.nn.Module):
    def forward(self, x):
        return (x - 0.5) / 2

class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.change = Normalize()
    def __len__(self):
        return 16
    def __getitem__(self, at):
        return self.change(torch.full((8,), float(at)))

loader = torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=WORKERS)
for batch in loader:
    for p in model.parameters():
        p.grad = None
    model(batch).square().mean().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    print("step", flush=True)
"""

FUNCTIONS = """
import torch
torch.manual_seed(0)
w = torch.randn(8, 4, requires_grad=True)
print(sum(x.numel() for x in [w]), w.view(-1).detach().shape)
for _ in range(5):
    loss = torch.tanh(torch.ones(3, 8) @ w).square().mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad.zero_()
    print("step", flush=True)
"""

GPU = """
import torch, time
assert torch.cuda.is_available() and torch.cuda.device_count() == 1
torch.cuda.set_device(0)
torch.cuda.manual_seed_all(0)
device = torch.device("cuda:0")
print(torch.cuda.get_device_name(), torch.cuda.get_device_properties(device).total_memory > 0)
model = torch.nn.Linear(8, 4).cuda().to(device)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
stream, before, after = torch.cuda.Stream(), torch.cuda.Event(True), torch.cuda.Event(True)
data = torch.utils.data.TensorDataset(torch.randn(16, 8))
for (x,) in torch.utils.data.DataLoader(data, 8, pin_memory=True):
    x = x.pin_memory().to("cuda", non_blocking=True).cuda(0)
    before.record()
    with torch.cuda.stream(stream), torch.autocast("cuda", dtype=torch.bfloat16):
        loss = (model(x) * torch.ones(4, device="cuda")).square().mean()
    torch.cuda.current_stream().wait_stream(stream)
    x.record_stream(torch.cuda.current_stream())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    after.record()
    torch.cuda.synchronize()
    print(before.elapsed_time(after), torch.cuda.max_memory_allocated())
"""

GPU_RANKS = """
import os, torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
assert torch.cuda.device_count() == 2 and torch.cuda.current_device() == rank
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Linear(8, 4).to(rank), device_ids=[rank], output_device=rank)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model(torch.randn(4, 8, device=rank)).square().mean().backward()
total = torch.ones(1).cuda(rank)
mesh = torch.distributed.device_mesh.init_device_mesh(device_type="cuda", mesh_shape=(2,))
dist.all_reduce(total, group=mesh.get_group())
optimizer.step()
"""

# As authors write it: all of it is PyTorch's public interface for GPUs.
GPU_USES = """
import copy, io, threading, torch
from torch.utils.checkpoint import checkpoint
torch.set_default_device("cuda")
torch.cuda.manual_seed_all(0)
draw = torch.Generator(device="cuda").manual_seed(1)
x = torch.rand(6, 8, generator=draw).type("torch.cuda.FloatTensor")
assert x.is_cuda and torch.cuda.FloatTensor(2, 3).shape == (2, 3)
layer = torch.nn.Linear(8, 4)
model = torch.compile(torch.nn.DataParallel(layer).cuda())
with torch.no_grad():
    model(x)
file = io.BytesIO()
torch.save(layer.state_dict(), file)
layer.load_state_dict(torch.load(io.BytesIO(file.getvalue()), torch.device("cuda")))
torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
moved = []
thread = threading.Thread(target=lambda: moved.append(x.cuda(non_blocking=True)))
thread.start()
thread.join()
torch.cuda.current_stream().record_event().wait()
ema = copy.deepcopy(layer)
optimizer = torch.optim.Adam(layer.parameters(), capturable=True)
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.float16):
    y = checkpoint(lambda x: model(x) * torch.ones(4, device="cuda"), moved[0], use_reentrant=False)
scaler.scale(y.float().square().mean()).backward()
scaler.step(optimizer)
scaler.update()
with torch.no_grad():
    for a, b in zip(ema.parameters(), layer.parameters()):
        a.copy_(0.9 * a + 0.1 * b)
print("made")
"""

# Statistics of all ranks, which have rows in different numbers, are those of the whole batch.
GPU_NORM = """
import copy, os, torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device("cuda:%d" % rank)
assert torch.cuda.current_device() == rank

def main(gpu, ranks):
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    whole, weights = torch.randn(6, 3, 2, 2), torch.randn(6, 3, 2, 2)
    one = torch.nn.BatchNorm2d(3)
    many = torch.nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(one)).cuda(gpu)
    own = slice(0, 2) if gpu == 0 else slice(2, 6)
    x, whole = whole[own].clone().requires_grad_(), whole.requires_grad_()
    y, z = many(x), one(whole)
    (y * weights[own]).sum().backward()
    (z * weights).sum().backward()
    dist.all_reduce(many.weight.grad)
    for a, b in ((y, z[own]), (x.grad, whole.grad[own]), (many.weight.grad, one.weight.grad),
                 (many.running_mean, one.running_mean), (many.running_var, one.running_var)):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    print("right", flush=True)
    torch.optim.SGD(many.parameters(), 0.1).step()

torch.multiprocessing.spawn(main, args=(2,), nprocs=torch.cuda.device_count())
"""

# The mesh makes the process group, and PyTorch has no rule for the attention of CPUs.
GPU_MESH = """
import os, torch
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
mesh = init_device_mesh(device_type="cuda", mesh_shape=(2,))
torch.manual_seed(0)
q, k, v = (distribute_tensor(torch.randn(2, 4, 6, 8), mesh, [Shard(1)]) for _ in range(3))
w = torch.nn.Parameter(distribute_tensor(torch.randn(8, 8), mesh, [Shard(0)]))
y = torch.nn.functional.scaled_dot_product_attention(q @ w, k, v, is_causal=True)
y.square().mean().backward()
torch.optim.SGD([w], 0.1).step()
"""


RECORDINGS = pathlib.Path(sys.argv[2]).resolve() / "tests/golden/recordings"


class Scripts(program.Program):
    def record(self, script, *words, module=False):
        (self.folder / "train.py").write_text(script, encoding="utf-8")
        named = ("-m", "train") if module else ("train.py",)
        return self.shardlab("record", "--python", program.warm_python(), *words, *named)

    def events(self):
        with gzip.open(self.folder / "step.json.gz") as lines:
            for line in lines:
                event = json.loads(line)
                yield event
                if event["k"] == "end":
                    return

    def is_right(self):
        self.assertIn(" 0 differ", self.fine("replay", "step.json.gz"))

    def test_it_begins_at_a_module_that_is_trained_and_ends_after_a_step(self):
        for workers in "02":
            with self.subTest(workers=workers):
                code, output, errors = self.record(LOADER.replace("WORKERS", workers))
                self.assertEqual((code, output), (0, "step\n"), errors)
                modules = [event["class"] for event in self.events() if event["k"] == "module"]
                self.assertEqual(modules[:4], ["Linear", "ReLU", "Linear", "Sequential"])
                self.is_right()

    def test_it_begins_at_a_function_whose_result_requires_a_gradient(self):
        code, output, errors = self.record(FUNCTIONS, module=True)
        self.assertEqual(code, 0, errors)
        self.assertEqual(output.count("step"), 1)
        calls = [event["op"] for event in self.events() if event["k"] == "call"]
        self.assertIn("aten.matmul.default", calls)
        self.is_right()
        script = FUNCTIONS.replace("3, 8) @ w", "3, 4) @ w.T").replace("w.view(-1)", "w")
        code, _, errors = self.record(script, module=True)
        self.assertEqual(code, 0, errors)
        first = next(event["op"] for event in self.events() if event["k"] == "call")
        self.assertEqual(first, "aten.numpy_T.default")
        self.is_right()

    def test_a_closure_of_an_optimizer_is_one_step(self):
        code, _, errors = self.record(MODEL + """
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(2, 8)).square().mean()
    loss.backward()
    return loss
for _ in range(2):
    optimizer.step(closure)
""")
        self.assertEqual(code, 0, errors)
        self.assertGreater(sum(event["k"] == "backward" for event in self.events()), 1)
        self.is_right()

    def test_a_script_for_gpus_runs_on_a_cpu(self):
        code, output, errors = self.record(GPU, "--on-cpu")
        self.assertEqual((code, output), (0, "CPU True\n1.0 0\n"), errors)
        self.is_right()
        code, _, errors = self.record(GPU_RANKS, "--on-cpu", "--ranks", "2", "--processes")
        self.assertEqual(code, 0, errors)
        self.is_right()
        for way in ((), ("--processes",)):
            code, _, errors = self.record(GPU_MESH, "--on-cpu", "--ranks", "2", *way)
            self.assertEqual(code, 0, errors)
            self.is_right()
        code, _, errors = self.record(GPU)
        self.assertEqual(code, 1)
        self.assertIn("AssertionError", errors)
        code, _, errors = self.record("import torch\ntorch.ones(2).cuda()\n")
        self.assertEqual(code, 1)
        self.assertIn("shardlab record --on-cpu train.py", errors)

    def test_what_scripts_for_gpus_use_is_there(self):
        code, output, errors = self.record(GPU_USES, "--on-cpu")
        self.assertEqual((code, output), (0, "made\n"), errors)
        self.is_right()
        self.assertNotIn("not judged", self.fine("replay", "step.json.gz"))
        code, output, errors = self.record(GPU_NORM, "--on-cpu", "--ranks", "2", "--processes")
        self.assertEqual((code, output.count("right\n")), (0, 2), errors)

    def test_ranks_that_step_other_parameters_keep_calls_of_their_own(self):
        """They make calls of one form, on parameters that all of them have."""
        script = str(RECORDINGS / "mistakes/unsent/unsent.py")
        command = ("blame", "--python", program.warm_python(), "--ranks", "2", "--processes")
        code, output, errors = self.shardlab(*command, script)
        self.assertEqual(code, 0, output + errors)
        code, output, errors = self.shardlab(*command, script, "not_sent")
        self.assertEqual(code, 1, output + errors)
        self.assertIn("rank 0 has A's; rank 1 has it as it was before the step", output)

    def test_what_follows_a_pooling_with_channels_last_is_judged(self):
        """Its kernel gives its result other strides, which no op shows."""
        code, _, errors = self.record(MODEL.replace("torch.nn.Linear(8, 16)", """
            torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
            torch.nn.Linear(8, 16)""") + """
x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
model.to(memory_format=torch.channels_last)(x).square().mean().backward()
torch.optim.SGD(model.parameters(), 0.1).step()
""")
        self.assertEqual(code, 0, errors)
        self.is_right()
        self.assertNotIn("not judged", self.fine("replay", "step.json.gz"))
        self.fine("run", "step.json.gz", "--mesh", "dp=2", "--plan", "fsdp")

    def test_ranks_that_end_without_a_step_do_not_hang(self):
        code, _, errors = self.record("raise SystemExit\n", "--ranks", "2", "--processes")
        self.assertEqual(code, 1)
        self.assertIn("no module ran with gradients", errors)

    def test_elements_over_the_limit_are_in_a_checkpoint(self):
        code, _, errors = self.record(
            MODEL + "model(torch.ones(2, 8)).sum().backward()",
            "--data-limit", "100")
        self.assertEqual(code, 0, errors)
        self.assertIn("bytes of elements, over --data-limit, are in step.safetensors", errors)
        stored = (self.folder / "step.safetensors").read_bytes()
        length = int.from_bytes(stored[:8], "little")
        entries = json.loads(stored[8 : 8 + length])
        self.assertEqual(entries["0.weight"]["shape"], [16, 8])
        given = {event["name"]: event for event in self.events() if event["k"] == "input"}
        self.assertEqual(given["0.weight"]["checkpoint"][:2], ["step.safetensors", "0.weight"])
        self.assertFalse(any("data_left_out" in event for event in given.values()))

    def test_one_process_and_ranks_are_recorded_and_compared(self):
        folder = RECORDINGS / "mistakes"
        command = ("blame", "--python", program.warm_python(), "--ranks", "2", "--processes")
        code, output, errors = self.shardlab(*command, folder / "masked/vocab.py")
        self.assertEqual(code, 0, errors)
        self.assertIn("A: step.1.json.gz, B: step.2.json.gz\nok: ", output)
        code, output, errors = self.shardlab(*command, folder / "masked/vocab.py", "missing")
        self.assertEqual(code, 1, errors)
        self.assertIn("with this edit nothing differs", output)
        self.assertEqual(self.shardlab(*command, "none.py")[0], 2)

    def test_a_script_that_fails_is_told_of_in_one_message(self):
        missing = self.shardlab("record", "--python", program.warm_python(), "no.py")
        self.assertEqual(missing[0], 2)
        self.assertIn("error: no.py: no such script\n  fix  ", missing[2])
        code, _, errors = self.record("import torch\nraise KeyError('data')\n")
        self.assertEqual(code, 1)
        self.assertIn("error: the script failed: KeyError\n  fix  ", errors)
        self.assertNotIn("shardlab_record.py", errors)
        code, _, errors = self.record("import torch, time\ntime.sleep(60)\n", "--patience", "1")
        self.assertEqual(code, 1)
        self.assertIn("error: the script has not made its steps in 1 s\n"
                      "  at          train.py:2\n  fix  ", errors)


load_tests = program.in_parts


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
