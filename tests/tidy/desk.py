"""A folder that looks like the repository, in which commands are typed as users type them."""

import os
import pathlib
import shutil
import subprocess


class Desk:
    """In FOLDER, an empty one, `shardlab` is PROGRAM and ROOT's files are there, and step.json.gz,
    a step that was recorded in PyTorch; one.json.gz and tp2.json.gz are of one and of two
    ranks, values.json.gz is what two processes have written. checkpoint is one of PyTorch's DCP;
    before.safetensors and after.safetensors are a pair with a mistake."""

    def __init__(self, folder, program, root):
        self.folder = folder
        for entry in pathlib.Path(root).resolve().iterdir():
            pathlib.Path(folder, entry.name).symlink_to(entry)
        recordings = pathlib.Path(root, "tests/golden/recordings")
        for name, file in (("step", "llama__2.15.0"), ("one", "mistakes/tp_one"),
                           ("tp2", "mistakes/tp_no_sum_of_down"),
                           ("values.r0", "mistakes/values_tp_none.r0"),
                           ("values.r1", "mistakes/values_tp_none.r1")):
            recording = recordings / f"{file}.json.gz"
            pathlib.Path(folder, f"{name}.json.gz").write_bytes(recording.read_bytes())
        checkpoints = pathlib.Path(root, "tests/golden/checkpoints")
        shutil.copytree(checkpoints / "fsdp_tp_2x2", pathlib.Path(folder, "checkpoint"))
        pair = checkpoints / "pairs/0003_fused_qkv_cut_as_a_whole"
        for name, file in (("before", "a"), ("after", "b")):
            shutil.copy(pair / f"{file}.safetensors", pathlib.Path(folder, f"{name}.safetensors"))
        path = os.pathsep.join((str(pathlib.Path(program).resolve().parent), os.environ["PATH"]))
        self.environment = os.environ | {"PATH": path, "NO_COLOR": "1"}

    def type(self, line):
        return subprocess.run(
            line,
            shell=True,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
