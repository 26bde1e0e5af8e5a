"""shardlab_record - writes one training step of an ordinary PyTorch program into a file.

    import shardlab_record
    with shardlab_record.record("step.json.gz", model):
        train_step()

or, for a script as it is:  python shardlab_record.py train.py

All ranks of a program on DTensors can be in this one process, with the data of each:

    with shardlab_record.simulate(4):
        main()  # calls record() somewhere

The file is read by `shardlab replay` (every call, compared with ours) and `shardlab run` (the same
program on any mesh). It is gzip of JSON lines, then the raw elements of inputs. Two levels are
recorded at once: `call` is the level of autograd (linear, cross_entropy_loss), forward only; `op`
and `local_op` are the level of the dispatcher below it, backward and optimizer too.

The program cannot see that it is recorded: nothing is drawn, moved or written, nothing hangs on its
tensors and modules or keeps them, and no error of the recorder reaches it. Parts that a recorder
cannot see (compiled regions, torch.func, sparse tensors) are written down by name and place, and
`shardlab` refuses the file for them. It needs PyTorch alone; one thread records at a time.
"""

import _thread
import argparse
import collections
import contextlib
import ctypes
import fnmatch
import functools
import gc
import gzip
import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import math
import os
import re
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref

HERE = os.path.abspath(__file__)


def _interrupted(number, frame):
    sys.stderr.write("error: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":  # PyTorch takes seconds
    signal.signal(signal.SIGINT, _interrupted)
