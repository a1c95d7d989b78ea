"""Tests evidence that several threads, processes and forked children ask for at once."""

import json
import subprocess
import sys

import pytest

from tests.kernel.board import ROOT, Board
from tests.kernel.evidence_runs import off, programs
from tests.kernel.small_models import MODELS
from tests.worse import everywhere

WAYS = {"": "verified", everywhere("ew:addition_zeros"): "failed: "}

THREADS = """
import json, sys, threading
import numpy as np
from delegate.host.delegated import DelegatedModel
from delegate.options import Options
from tests.kernel.standin_calls import calls
found = []
def work():
    model = DelegatedModel.load(sys.argv[1], Options.from_mapping({"device": "rocket"}))
    arrays = [np.full(d["shape"], 7, d["dtype"]) for d in model.inputs]
    for _ in range(3):
        found.append([int(out.astype(np.int64).sum()) for out in model.run(arrays)])
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps({"found": found, "submits": calls().get("SUBMIT", 0)}))
"""

FORKED = """
import os, sys, threading, time
from delegate.host.delegated import DelegatedModel
from delegate.options import Options
from tests.kernel.standin_calls import calls
def load(name):
    return DelegatedModel.load(name, Options.from_mapping({"device": "rocket"}))
first = threading.Thread(target=load, args=(sys.argv[1],))
first.start()
while not calls().get("SUBMIT"):
    time.sleep(0.001)
child = os.fork()  # while the first thread holds the board's file
if child == 0:
    time.sleep(60)
    os._exit(0)
first.join()
load(sys.argv[2])
os.kill(child, 9)
os.waitpid(child, 0)
print("done")
"""


def model_file(board: Board, name: str) -> str:
    path = board.root / f"{name}.tflite"
    path.write_bytes(MODELS[name]())
    return str(path)


@pytest.mark.parametrize("way", WAYS, ids=["healthy", "worse"])
def test_interpreters_of_several_threads_agree(board: Board, way: str):
    board.add_rocket()
    done = board.python(
        "-c", THREADS, model_file(board, "residual"), RK3588_SIM_BREAK=way,
        RK3588_DELEGATE_VERIFY="auto", RK3588_DELEGATE_NUMERICS="exact",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])["found"]
    assert len(found) == 18, done.stderr[-2000:]
    assert all(sums == found[0] for sums in found)
    if way:
        (state,) = off(board).values()
        assert state.startswith(WAYS[way])
        assert done.stderr.count("is switched off on this board") == 1
    else:
        assert programs(board) == ["verified"]


def test_processes_at_once_lose_nothing(board: Board):
    board.add_rocket()
    names = ("conv", "depthwise", "residual")
    arguments = [sys.executable, "-c", THREADS]
    given = {**board.environment, "RK3588_DELEGATE_VERIFY": "auto"}
    running = [
        subprocess.Popen(
            [*arguments, model_file(board, name)], cwd=ROOT, env=given, stdout=subprocess.PIPE
        )
        for name in names
    ]
    for process in running:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert programs(board) == ["verified"] * len(names)


def test_a_child_forked_meanwhile_does_not_keep_the_file(board: Board):
    board.add_rocket(hang_ms=1000)
    done = board.python(
        "-c", FORKED, model_file(board, "depthwise"), model_file(board, "conv"),
        RK3588_SIM_BREAK="depthwise:task:hangs", RK3588_DELEGATE_VERIFY="auto", timeout=40,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "done"
