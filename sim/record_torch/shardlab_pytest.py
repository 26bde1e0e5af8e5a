"""shardlab_pytest - tests of nn.Modules, on a mesh of simulated ranks as well.

    def test_block(shardlab_check):
        model, x = Block(), torch.randn(8, 16)
        shardlab_check(model, lambda: model(x).square().mean().backward())

    @pytest.mark.shardlab              # or without a change inside: from the first forward on
    def test_another(): ...

`pytest` runs them as they are. `pytest --mesh dp=2,tp=4 --plan megatron` records the step as well,
and has `shardlab run` take it to the mesh: each value and gradient must be PyTorch's on one rank,
and that of one device on all of them. A test that fails names the first value that is wrong, its
module and line. The calls of a step that come after its last backward() are not taken there.
"""

import functools
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
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

    def recorder(self):
        if importlib.util.find_spec("torch") is None:
            pytest.fail("--mesh: PyTorch is not installed for this Python", pytrace=False)
        import shardlab_record

        return shardlab_record

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
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                  encoding="utf-8", env={**os.environ, "NO_COLOR": "1"})
        except OSError as error:
            pytest.fail("--mesh: %s: %s; pip install the wheel, or set SHARDLAB_PROGRAM to the "
                        "path of shardlab" % (command[0], error.strerror), pytrace=False)
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
        with self.recorder().record(path, model, optimizer):
            result = step()
        self.judge(path, options)
        return result


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
        recording = on_mesh.recorder().from_first_forward(path)
        try:
            test(*args, **kwargs)
        finally:
            recording.end()
        if not os.path.exists(path):
            pytest.fail("--mesh: the test is marked shardlab, and calls no module", pytrace=False)
        on_mesh.judge(path, marker.kwargs)

    request.node.obj = recorded
