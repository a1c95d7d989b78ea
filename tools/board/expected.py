"""Computes what the guest must give, on this machine by the simulator.

``python -m tools.board.expected CASE...`` (with ``BOARD_HOST``: the folder that is the guest's
/host) prints a JSON object. The cases are the guest's own functions.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import delegate
from tools.board.harness import CHIP

COMPARED = ("classify", "detect", "compare", "outputs")
"""Cases whose results are the host's."""


def ask_this_machine(share: Path, cases: list[str]) -> dict[str, object]:
    """The results of those ``cases`` that are compared."""
    wanted = [name for name in cases if name in COMPARED]
    if not wanted:
        return {}
    done = subprocess.run(
        [sys.executable, "-m", "tools.board.expected", *wanted],
        capture_output=True, text=True, check=False, cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "BOARD_HOST": str(share), "BOARD_DEVICE": "simulator",
             "RK3588_DELEGATE_CHIP": CHIP},
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"what the guest must give is not known: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def unlike(results: dict[str, object], expected: dict[str, object]) -> list[str]:
    """Return where the guest's results are not this machine's, in words."""
    found = []
    for case, theirs in expected.items():
        ours = results.get(case)
        if ours == theirs:
            continue
        keys = theirs if isinstance(theirs, dict) and isinstance(ours, dict) else ()
        wrong = [key for key in keys if ours.get(key) != theirs[key]] or [case]
        found.append(f"{case}: not as on this machine: {', '.join(wrong)}")
    return found


def make_compiled(share: Path, host: Path, count: int) -> None:
    """``share/compiled``: a model with its input and the checksum of its outputs, and ``count``
    conformance cases that run on the NPU whole, each within the contract of the reference kernels.
    ``host``: the host in C for this machine, whose checksums the guest's are compared with.
    """
    from delegate.compile.aot.rewrite import compile_ahead_of_time
    from delegate.options import Options
    from rk3588_conformance.execution import prepare
    from rk3588_conformance.families import case_names
    from rk3588_conformance.gtest_filter import sampled
    from tools.board.harness import models

    folder = share / "compiled"
    folder.mkdir(exist_ok=True)
    given = np.random.default_rng(5).integers(0, 256, 1 << 23, np.uint8).tobytes()
    (folder / "input").write_bytes(given)
    (folder / "model.input").write_bytes(given)
    options = Options(chip=CHIP, deny_ops=())
    (folder / "model").write_bytes(compile_ahead_of_time(models(share)[0], options).content)
    names = []
    for name in sampled(list(case_names(None)), 2 * count, 7) if count else ():
        case = prepare(name, None)
        compiled = compile_ahead_of_time(case.model, options)
        if any(result.rejections for result in compiled.results) or _quantizes(case.model):
            continue
        _check(name, case.model, compiled.content, given)
        names.append(hashlib.sha256(name.encode()).hexdigest()[:12])
        (folder / names[-1]).write_bytes(compiled.content)
        if len(names) == count:
            break
    (folder / "names").write_text("".join(f"{folder / name}\n" for name in ["model", *names]))
    done = subprocess.run(
        [str(host), "--batch", delegate.library_path(), str(folder / "names"),
         str(folder / "input"), "device=simulator", "log_level=error", f"chip={CHIP}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    sums = {Path(path).name: sum_ for path, sum_ in map(str.split, done.stdout.splitlines())}
    (folder / "model.sum").write_text(sums.pop("model"))
    (folder / "expected.json").write_text(json.dumps(sums))


def _quantizes(model: bytes) -> bool:
    """Return whether a model's float32 input becomes integers, in which the guest's processor and
    runtime have another rule than this machine's (docs/numerics.md); the guest's own kernels judge
    such cases.
    """
    from delegate.model.graph import DType
    from delegate.model.tflite_reader import read_graph

    graph = read_graph(model)
    return any(
        node.op == "QUANTIZE" and graph.tensor(node.inputs[0]).dtype is DType.FLOAT32
        for node in graph.nodes
    )


def _check(name: str, model: bytes, compiled: bytes, given: bytes) -> None:
    """Check that the simulator's results are the reference kernels' or one step beside."""
    from delegate.host.runtimes import find_runtime

    runtime = find_runtime()
    options = {"device": "simulator", "log_level": "error", "chip": CHIP}
    plugin = runtime.load_delegate(delegate.library_path(), options)
    results = []
    for item in (
        runtime.interpreter(compiled, [plugin]),
        runtime.interpreter(model, reference_kernels=True),
    ):
        offset = 0
        for details in item.get_input_details():
            count = int(np.prod(details["shape"]))
            value = np.frombuffer(given, details["dtype"], count, offset)
            item.set_tensor(details["index"], value.reshape(details["shape"]))
            offset += value.nbytes
        item.invoke()
        found = [item.get_tensor(details["index"]) for details in item.get_output_details()]
        results.append([value.astype(np.int64) for value in found])
    for ours, theirs in zip(*results, strict=True):
        assert np.abs(ours - theirs).max(initial=0) <= 1, name


def main() -> None:
    from tools.board.guest import CASES

    print(json.dumps({name: CASES[name]() for name in sys.argv[1:]}))


if __name__ == "__main__":
    main()
