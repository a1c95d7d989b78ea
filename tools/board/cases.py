"""Lists what must work: commands, models, threads, programs in C."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

from delegate.host.runtimes import find_runtime
from rk3588_conformance.builder.single_op import conv_model
from tests.shared_tensors import Host, take_turns
from tools.board.dma_bufs import dma_bufs
from tools.board.harness import (
    C_HOST,
    CHIP,
    DEVICE,
    DIGITS,
    DRIVER,
    HOST,
    NODE,
    SLOWNESS,
    c_host,
    command,
    document,
    interpreter,
    invoke,
    kernel_timeouts,
    models,
    number,
)

LIBRARY = str(Path(__file__).resolve().parents[2] / "delegate/librk3588_delegate.so")
CLASSIFIERS = (
    "mobilenet_v1_0.25_128_quant", "resnet8_cifar10_int8", "visual_wake_words_96_int8",
    "mobilenet_v1_0.25_128_random_int8_per_channel", "mobilenet_v1_1.0_224_quant",
)  # fmt: skip
DETECTOR = "yolo_fastest_160_person_int8"
BOOT_CLOCK_HZ = 200_000_000


def doctor() -> object:
    facts = document("doctor")
    assert facts["verdict"] == "the NPU works", facts["verdict"]
    (node,) = [item for item in facts["nodes"] if item["state"] == "usable"]
    assert (node["path"], node["driver"]) == (NODE, DRIVER), node
    if DRIVER == "rocket":
        cores = {
            "driver": "rocket", "total": 3, "bound": 3, "is_module_loaded": True,
            "chip": "rk3588", "is_known_chip": True,
        }  # fmt: skip
        assert facts["cores"] == cores, facts["cores"]
    return {"kernel": facts["kernel"], "driver": f"{node['driver']} {node['version']}"}


def clock() -> object:
    """The clock after boot, which is slow, is seen and explained."""
    facts = document("doctor")
    if DRIVER == "rknpu":  # the driver tells no clock that this kernel's debugfs shows
        return facts["clock_hz"]
    assert facts["clock_hz"] == BOOT_CLOCK_HZ, facts["clock_hz"]
    words = [finding["text"] for finding in facts["findings"] if "200 MHz" in finding["text"]]
    assert words, facts["findings"]
    return words


def hidden() -> object:
    """Show that the case ``doctor`` can fail: with the node's owner hidden, the driver's own answer
    is enough; with both hidden there is no NPU, and doctor says so.
    """
    library = C_HOST.with_name("hide_npu.so")
    if DRIVER != "rocket" or not library.exists():
        return None
    found = {}
    for what in ("owner", "owner,version"):
        done = subprocess.run(
            [sys.executable, "-m", "delegate", "doctor", "--json"],
            capture_output=True, text=True, check=False, timeout=300 * SLOWNESS,
            env={**os.environ, "LD_PRELOAD": str(library), "HIDE_NPU": what},
        )  # fmt: skip
        try:
            facts = json.loads(done.stdout)
        except json.JSONDecodeError:
            raise AssertionError(f"exit {done.returncode}: {done.stderr[-500:]}") from None
        found[what] = facts["verdict"]
    assert found["owner"] == "the NPU works", found
    assert found["owner,version"] != "the NPU works", found
    return found


def bring_up() -> object:
    facts = document("bring-up", "--device", DEVICE)
    assert all(step["passed"] for step in facts["steps"]), facts["verdict"]
    return len(facts["steps"])


def classify() -> object:
    """Equal to the host's, see tools/board/expected.py."""
    found = {}
    pictures = sorted((HOST / "images").glob("*.jpg"))[:1] or [DIGITS / "images/digit_7.png"]
    chosen = [HOST / "models" / f"{name}.tflite" for name in CLASSIFIERS]
    pairs = [(path, pictures[0]) for path in chosen if path.exists()]
    for path, picture in [(DIGITS / "digits_int8.tflite", DIGITS / "images/digit_7.png"), *pairs]:
        facts = document("classify", str(picture), "--model", str(path), "--device", DEVICE)
        assert facts["device"].split()[0] == DEVICE, facts["device"]
        found[path.stem] = [(item["index"], item["score"]) for item in facts["top"]]
    assert found["digits_int8"][0][0] == 7, found
    return found


def detect() -> object:
    model, pictures = (
        HOST / "models" / f"{DETECTOR}.tflite",
        sorted((HOST / "images").glob("*.jpg")),
    )
    if not (model.exists() and pictures):
        return None
    facts = document("detect", str(pictures[0]), "--model", str(model), "--device", DEVICE)
    # numpy's exp differs in the last bit between processors.
    return [
        {
            **found,
            "score": round(found["score"], 6),
            "box": [round(edge, 6) for edge in found["box"]],
        }
        for found in facts["detections"]
    ]


def compare() -> object:
    """Every node of every model, equal to the host's."""
    found = {}
    for path in models():
        facts = document("compare", str(path), "--per-op", "--device", DEVICE)
        found[path.stem] = {
            "outputs": [(item["equal"], item["elements"]) for item in facts["outputs"]],
            "ops": [
                (item["node"], item["op"], item["equal"], item["elements"], item["max_abs_diff"])
                for item in facts["ops"]
            ],
        }
        assert max((row[-1] for row in found[path.stem]["ops"]), default=0) <= 1, path.stem
    return found


def outputs() -> object:
    """Equal to the simulator in the guest, and to the host's."""
    digests = {}
    for path in models():
        ours, simulated = interpreter(path), interpreter(path, "simulator")
        digests[path.stem] = [invoke(ours, seed) for seed in range(2)]
        assert digests[path.stem] == [invoke(simulated, seed) for seed in range(2)], path.stem
    return digests


def conformance() -> object:
    code, text = command(
        "conformance", "--device", DEVICE, "--sample", str(number("BOARD_CONFORMANCE", 60)),
        "--seed", "1", "--gtest_brief", "--jobs", "1", timeout_s=7200,
    )  # fmt: skip
    assert code == 0, text[:800] + text[-400:]  # the first failure, and how many
    passed = re.search(r"\[  PASSED  \] (\d+) tests?", text)
    assert passed, text[-800:]
    return f"{passed[1]} cases passed"


def compiled_conformance() -> object:
    """Cases that the host compiled and judged, by the host in C: the outputs are the host's."""
    folder = HOST / "compiled"
    expected = json.loads((folder / "expected.json").read_text()) if C_HOST.exists() else {}
    if not expected:
        return None
    before = kernel_timeouts()
    given = _sums(folder, list(expected))
    late = [name for name, sum_ in given.items() if sum_ == "rejected"]
    # An error that the kernel's own deadline explains, on a machine that is busy.
    if 0 < len(late) <= kernel_timeouts() - before:
        given |= _sums(folder, late)
    wrong = [name for name, sum_ in expected.items() if given.get(name) != sum_]
    assert not wrong, [(name, given.get(name)) for name in wrong[:5]]
    return f"{len(expected)} cases passed" + (f", {len(late)} late ones repeated" if late else "")


def _sums(folder: Path, cases: list[str]) -> dict[str, str]:
    names = folder / "names"
    names.write_text("".join(f"{folder / name}\n" for name in cases))
    done = c_host("--batch", LIBRARY, str(names), str(folder / "input"), f"device={DEVICE}",
                  "strict=true", timeout_s=3000)  # fmt: skip
    assert done.returncode == 0, done.stderr[-800:]
    rows = (line.rsplit(" ", 1) for line in done.stdout.splitlines())
    return {Path(path).name: sum_ for path, sum_ in rows}


def c_program() -> object:
    """A model compiled ahead of time in a host in C: once, and by three threads."""
    model, given, expected = (HOST / "compiled" / n for n in ("model", "model.input", "model.sum"))
    if not (C_HOST.exists() and model.exists()):
        return None
    options = (f"device={DEVICE}",)
    for threads in (1, 3):
        done = c_host("--threads", str(threads), LIBRARY, str(model), str(given), "-", *options)
        assert done.returncode == 0, done.stderr[-500:]
        facts = json.loads(done.stdout)
        assert facts == {"ok": True, "checksum": expected.read_text()}, facts
    return "once, and by three threads"


def threads() -> object:
    paths = models()[:4]
    expected = {p: [invoke(interpreter(p, "simulator"), s) for s in range(2)] for p in paths}
    failures: list[str] = []

    def work(index: int) -> None:
        path = paths[index % len(paths)]
        try:
            item = interpreter(path)
            for turn in range(6):
                if invoke(item, turn % 2) != expected[path][turn % 2]:
                    failures.append(f"{path.stem}: another result")
        except Exception as error:
            failures.append(str(error))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == [], failures[:3]
    return 36


def answers() -> object:
    """Return what the driver answers to right and wrong requests; the host compares."""
    probe = HOST / "probe.py"
    if CHIP != "rk3588" or not probe.exists():  # its jobs are programs of that chip
        return None
    done = subprocess.run(
        [sys.executable, str(probe), NODE, str(HOST / "probe.npz")],
        capture_output=True, text=True, check=False, timeout=300 * SLOWNESS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


def shared_memory() -> object:
    """Tensors in dma-bufs, each inference's TensorFlow Lite's. The vendor's driver imports them and
    the NPU reads and writes them itself; rocket's cannot.
    """
    make, kind = dma_bufs()
    model = conv_model(np.random.default_rng(3), 9, 5, 16, 16, 3, 3)
    host = Host(find_runtime().module, model, device=DEVICE, verify="off", numerics="exact")
    taken = take_turns(host, 7, make)
    assert taken == (0 if DEVICE == "rocket" else 14), taken
    return {"buffers": kind, "in place": taken}
