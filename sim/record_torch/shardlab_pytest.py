"""shardlab_pytest - tests of nn.Modules, on a mesh of simulated ranks as well.

    def test_block(shardlab_check):
        model, x = Block(), torch.randn(8, 16)
        shardlab_check(model, lambda: model(x).square().mean().backward())

    @pytest.mark.shardlab              # or without a change inside: from the first forward on
    def test_another(): ...

    def test_ranks(shardlab_ranks):    # on one process, then on ranks: the same values
        shardlab_ranks(step_of_a_parallel_model, tp=2)

`pytest` runs the first two as they are. `pytest --mesh dp=2,tp=4 --plan megatron` records the step
as well, and has `shardlab run` take it to the mesh: each value and gradient must be PyTorch's on
one rank, and that of one device on all of them. A test that fails names the first value that is
wrong, its module and line. The calls of a step that come after its last backward() are not taken
there.
"""

import functools
import importlib.util
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import pytest

OPTIONS = ("plan", "place", "place_file", "dtype")


def pytest_addoption(parser):
    group = parser.getgroup("shardlab", "modules on a mesh of simulated ranks")
    group.addoption("--mesh", metavar="DIM=SIZE,...",
                    help="the mesh for tests with shardlab_check or marked shardlab: dp=2,tp=4")
    group.addoption("--plan", help="megatron, sequence, fsdp, hsdp, fsdp+tp or replicate (default)")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "shardlab(plan=..., place=[...]): with --mesh, the test's first module call and "
        "all after it run on that mesh of simulated ranks, too")
    config.shardlab_steps = 0


def pytest_terminal_summary(terminalreporter, config):
    """A suite that passes and took nothing to the mesh says so."""
    mesh = config.getoption("mesh")
    if mesh:
        line = "shardlab: %d steps ran on mesh %s" % (config.shardlab_steps, mesh)
        if config.shardlab_steps == 0:
            line += "; a test that is to run there has @pytest.mark.shardlab, or shardlab_check"
        terminalreporter.write_line(line)


def program():
    """The path of the program: $SHARDLAB_PROGRAM, the one that is installed with this file, or the
    one in PATH."""
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here / "bin", pathlib.Path(sysconfig.get_path("scripts"))):
        if (folder / "shardlab").exists():
            return os.environ.get("SHARDLAB_PROGRAM") or str(folder / "shardlab")
    return os.environ.get("SHARDLAB_PROGRAM") or shutil.which("shardlab") or "shardlab"


def recorder():
    if importlib.util.find_spec("torch") is None:
        pytest.fail("shardlab: PyTorch is not installed for this Python", pytrace=False)
    import shardlab_record

    return shardlab_record


def run(command):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                              encoding="utf-8", env={**os.environ, "NO_COLOR": "1"})
    except OSError as error:
        pytest.fail("shardlab: %s: %s; pip install the wheel, or set SHARDLAB_PROGRAM to the "
                    "path of shardlab" % (command[0], error.strerror), pytrace=False)


class OnMesh:
    """One test: records steps, and has the program judge them."""

    def __init__(self, request):
        config = request.config
        self.config = config
        self.mesh = config.getoption("mesh")
        self.folder = request.getfixturevalue("tmp_path") if self.mesh else None
        self.name = re.sub(r"\W+", "_", request.node.name)
        self.plan = config.getoption("plan")
        self.count = 0

    def path(self):
        self.count += 1
        number = "" if self.count == 1 else "_%d" % self.count
        return str(self.folder / (self.name + number + ".json.gz"))

    def judge(self, path, options):
        """Fails the test where the program does. `options`: those of the test itself come first."""
        unknown = set(options) - set(OPTIONS)
        if unknown:
            raise TypeError("shardlab: no option %s; there are %s" % (
                ", ".join(sorted(unknown)), ", ".join(OPTIONS)))
        command = [program(), "run", "--summary", path, "--mesh", self.mesh]
        for name, value in {"plan": self.plan, **options}.items():
            for one in value if isinstance(value, (list, tuple)) else [value] if value else []:
                command += ["--" + name.replace("_", "-"), str(one)]
        done = run(command)
        self.config.shardlab_steps += 1
        if done.returncode != 0:
            pytest.fail("%s%s\nagain: %s" % (done.stderr, done.stdout, " ".join(command)),
                        pytrace=False)

    def check(self, model, step, optimizer=None, **options):
        """Runs step() and returns its result; with --mesh it is recorded and judged. Options are
        those of `shardlab run`: plan="fsdp", place=["*.weight=[_@tp, _]"], place_file, dtype."""
        if not self.mesh:
            return step()
        path = self.path()
        with recorder().record(path, model, optimizer):
            result = step()
        self.judge(path, options)
        return result


class OnRanks:
    """One test: a function on one process and on ranks, whose values are compared."""

    RANK = "SHARDLAB_RECORD_RANK"  # in a process of one rank: "path number-of-the-call"

    def __init__(self, request):
        self.request, self.count = request, 0

    def check(self, fn, world=None, processes=False, **dims):
        """fn() runs on one process, then on `world` ranks, all in this process or, with
        processes=True, each in its own, where this test begins anew. With dims, as tp=2, it is
        fn(mesh): None, then a DeviceMesh of them."""
        self.count += 1
        if world is None:
            world = math.prod(dims.values()) if dims else 2
        if dims and math.prod(dims.values()) != world:
            raise TypeError("shardlab: dims %s on %d ranks" % (dims, world))
        folder = self.request.getfixturevalue("tmp_path")
        path, _, number = os.environ.get(self.RANK, "").rpartition(" ")
        if path:
            if int(number) == self.count:
                self.record(path, fn, dims)
                pytest.skip("recorded")
            return
        files = [str(folder / ("%d.%d.json.gz" % (self.count, ranks))) for ranks in (1, world)]
        self.record(files[0], fn, dims, False)
        if processes:
            self.start(files[1], world)
        else:
            with recorder().simulate(world):
                self.record(files[1], fn, dims)
        command = [program(), "blame", *files]
        done = run(command)
        if done.returncode != 0:
            pytest.fail("%s%s\nagain: %s" % (done.stderr, done.stdout, " ".join(command)),
                        pytrace=False)

    def record(self, path, fn, dims, on_ranks=True):
        import torch

        torch.manual_seed(0)
        mesh = None
        if dims and on_ranks:
            from torch.distributed.device_mesh import init_device_mesh

            mesh = init_device_mesh("cpu", tuple(dims.values()), mesh_dim_names=tuple(dims))
        elif on_ranks and not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo")
        recording = recorder().from_first_forward(path, 1)
        try:
            fn(mesh) if dims else fn()
        except recorder()._Done:
            pass  # by its optimizer, while its model is there
        finally:
            recording.end()

    def start(self, path, world):
        own = self.request.config.pluginmanager.get_name(sys.modules[__name__])
        command = [sys.executable, "-m", "pytest", "-q", "-p", own, "-p", "no:cacheprovider",
                   self.request.node.nodeid]
        os.environ[self.RANK] = "%s %d" % (path, self.count)
        try:
            code = recorder().run_ranks(command, world, cwd=self.request.config.rootpath,
                                        stdout=subprocess.DEVNULL)
        finally:
            del os.environ[self.RANK]
        parts = [path.replace(".json", ".r%d.json" % rank) for rank in range(world)]
        merged = run([program(), "merge", *parts, "--out", path])
        if code != 0 or merged.returncode != 0:
            pytest.fail("on %d processes the test fails: %s" % (world, merged.stderr),
                        pytrace=False)


@pytest.fixture
def shardlab_ranks(request):
    """shardlab_ranks(fn, tp=2): fn on one process and on ranks, whose values must agree."""
    return OnRanks(request).check


@pytest.fixture
def shardlab_check(request):
    """shardlab_check(model, step): with --mesh, step() runs on simulated ranks, too."""
    return OnMesh(request).check


@pytest.fixture(autouse=True)
def _shardlab_marked(request):
    """Tests with the marker, from their first forward to their end."""
    marker = request.node.get_closest_marker("shardlab")
    if marker is None or not request.config.getoption("mesh"):
        return
    on_mesh, test = OnMesh(request), request.node.obj

    @functools.wraps(test)
    def recorded(*args, **kwargs):
        path = on_mesh.path()
        recording = recorder().from_first_forward(path)
        try:
            test(*args, **kwargs)
        finally:
            recording.end()
        if not os.path.exists(path):
            pytest.fail("--mesh: the test is marked shardlab, and calls no module", pytrace=False)
        on_mesh.judge(path, marker.kwargs)

    request.node.obj = recorded
