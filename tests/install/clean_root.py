"""A root folder with nothing but the base system of this Debian or Ubuntu, and apt.

It is made by mmdebstrap or debootstrap, kept as an archive in ~/.cache/shardlab (or below
XDG_CACHE_HOME), and unpacked afresh for each user. Being a container without one: chroot, with
mounts and processes of its own.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from commands import output

SKIPPED = 77  # as Meson reads exit codes
DEVICES = {"null": 3, "zero": 5, "random": 8, "urandom": 9}
NOBODY = 65534


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def release(name):
    for line in pathlib.Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        if line.startswith(name + "="):
            return line.partition("=")[2].strip('"')
    return ""


def archive():
    """The base system, made where it is not there yet."""
    if os.getuid() != 0:
        skip("a clean root needs root")
    for tool in ("dpkg", "unshare", "chroot", "setpriv"):
        if not shutil.which(tool):
            skip(f"there is no {tool}")
    maker = shutil.which("mmdebstrap") or shutil.which("debootstrap")
    if maker is None:
        skip("there is no mmdebstrap or debootstrap (apt-get install mmdebstrap)")
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    suite = release("VERSION_CODENAME")
    kept = pathlib.Path(caches, "shardlab", f"{suite}.tar")
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder, "root")
        variant = "apt" if maker.endswith("mmdebstrap") else "minbase"
        done = subprocess.run(
            [maker, f"--variant={variant}", suite, made], capture_output=True, encoding="utf-8"
        )
        if done.returncode != 0:
            skip(f"{maker} cannot make {suite}: {done.stderr.strip().splitlines()[-1]}")
        part = kept.with_suffix(f".{os.getpid()}")
        pack = ["tar", "-C", made, "--exclude=./dev/*", "--exclude=./proc/*", "-cf", part, "."]
        subprocess.run(pack, check=True)
        part.rename(kept)
    return kept


class CleanRoot:
    """A root below a folder that is there and empty."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        subprocess.run(["tar", "-C", folder, "-xf", archive()], check=True)
        for name, minor in DEVICES.items():
            os.mknod(self.folder / "dev" / name, 0o020666, os.makedev(1, minor))
            os.chmod(self.folder / "dev" / name, 0o666)
        (self.folder / "dev/fd").symlink_to("/proc/self/fd")
        shutil.copy("/etc/resolv.conf", self.folder / "etc")
        self.folder.chmod(0o755)

    def run(self, command, user=0, code=0):
        """Output of a shell command there."""
        inside = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.folder}/proc"]
        inside += ["chroot", self.folder, "setpriv", f"--reuid={user}", f"--regid={user}"]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/var", "LC_ALL": "C.UTF-8"}
        return output(*inside, "--clear-groups", "sh", "-c", command, code=code, env=environment)

    def update_packages(self):
        try:
            self.run("apt-get update")
        except AssertionError as error:
            skip(f"no lists of packages: {str(error).splitlines()[-1]}")
