#!/usr/bin/env python3
"""A Python that has imported PyTorch before: that takes seconds, and tests start it hundreds of
times.

    warm_python.py --serve SOCKET
    warm_python.py PYTHON SOCKET [-m] PROGRAM [WORD...]

The first imports PyTorch; each program is then a fork of it. The second has the place of python in
a command: it asks for one, and ends as it ends. The program gets its words, folder, environment and
open files; signals reach it, and it ends with its asker. It runs at the top of its process, as a
program does. Tests of imports take python itself.
"""

import json
import os
import signal
import socket
import sys

MOST_FILES = 64
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


def open_files():
    files = []
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
            files.append(int(name))
        except OSError:  # the folder that was read
            pass
    return files


def ask(python, path, words):
    """Runs the program of these words; this process has its exit code, or dies of its signal."""
    files = open_files()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(path)
        call = {"python": python, "words": words, "folder": os.getcwd(),
                "environment": dict(os.environ), "files": files}
        text = json.dumps(call).encode()
        line.send(b"%d" % len(text))
        socket.send_fds(line, [b"files"], files)
        for at in range(0, len(text), 1 << 15):
            line.send(text[at : at + (1 << 15)])
        process = int(line.recv(32))
        for number in FORWARDED:
            signal.signal(number, lambda number, frame: os.kill(process, number))
        for file in files:
            os.close(file)  # the others see the end of a pipe with the program's own end
        status = int(line.recv(32))
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def serve(path):
    """Returns in the process of each program, with what was asked. Ends with its standard input."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers
        while True:
            if 0 in select.select([0, listener], [], [])[0]:
                os._exit(0)
            line, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                return keep(line)
            line.close()


def keep(line):
    """The call in the program's process; the other waits for it, and ends it with its asker."""
    left = int(line.recv(32))
    _, given, _, _ = socket.recv_fds(line, 16, MOST_FILES)
    text = b""
    while len(text) < left:
        text += line.recv(1 << 16)
    program = os.fork()
    if program == 0:
        line.close()
        return json.loads(text), given
    for file in given:
        os.close(file)
    line.send(b"%d" % program)
    end = os.pidfd_open(program)
    if end not in select.select([line, end], [], [])[0]:
        os.kill(program, signal.SIGKILL)
    status = os.waitpid(program, 0)[1]
    try:
        line.send(b"%d" % status)
    except OSError:
        pass
    os._exit(0)


def enter(call, given):
    """Makes this process that of the call, which has the files that are given."""
    os.setsid()
    kept = [os.dup2(file, 200 + at) for at, file in enumerate(given)]
    os.closerange(3, 200)
    for file, number in zip(kept, call["files"]):
        os.dup2(file, number)
    os.closerange(200, 200 + MOST_FILES)
    os.chdir(call["folder"])
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(call["environment"])
    own = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:] = own + [place for place in sys.path[1:] if place not in before]
    sys.executable = call["python"]  # its own children are of this kind, too
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def run(words):
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = words[0]
    with open(words[0], "rb") as source:
        exec(compile(source.read(), words[0], "exec"), main.__dict__)


if __name__ == "__main__":
    if sys.argv[1] != "--serve":
        ask(*sys.argv[1:3], sys.argv[3:])
    import atexit
    import runpy
    import select
    import threading
    import types

    import torch
    import torch._dynamo
    import torch.distributed.tensor

    call, given = serve(sys.argv[2])
    enter(call, given)
    code = 0
    try:
        run(call["words"])
    except SystemExit as end:
        if not isinstance(end.code, (int, type(None))):
            raise
        code = end.code or 0
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the interpreter's own end, object by object, takes a second
