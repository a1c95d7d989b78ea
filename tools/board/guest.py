"""What runs in the guest: the product against the kernel's own driver. One JSON line per case.

Needs /host: ``models``, ``images`` and ``faults`` (native/board/faults.h) from outside,
``results.jsonl`` goes back. ``plan.json`` names the cases.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import delegate
from delegate.errors import DelegateError
from delegate.host.runtimes import find_runtime

HOST = Path("/host")
NODE = "/dev/accel/accel0"
DIGITS = Path("/app/product/models/digits")
SMALL = (
    "mobilenet_v1_0.25_128_quant", "resnet8_cifar10_int8", "anomaly_autoencoder_int8",
    "visual_wake_words_96_int8", "yolo_lc_256_person_int8",
    "mobilenet_v1_0.25_128_random_int8_per_channel",
)  # fmt: skip
COMPLAINTS = ("WARNING:", "BUG:", "BUG at", "Oops", "not clean during takedown", "use-after-free",
              "soft lockup", "Unable to handle", "possible recursive locking")  # fmt: skip

# Of this machine, by how long it took to come here: deadlines are those of a quiet one.
SLOWNESS = max(1.0, float(Path("/proc/uptime").read_text().split()[0]) / 10)

runtime = find_runtime()


def models() -> list[Path]:
    found = [HOST / "models" / f"{name}.tflite" for name in SMALL]
    return [path for path in found if path.exists()] or [DIGITS / "digits_int8.tflite"]


def interpreter(path: Path, device: str, **options: str):
    plugin = runtime.load_delegate(delegate.library_path(), {"device": device, **options})
    return runtime.interpreter(path.read_bytes(), [plugin])


def invoke(item, seed: int) -> str:
    """The digest of all outputs with random inputs."""
    rng = np.random.default_rng(seed)
    for details in item.get_input_details():
        limits = np.iinfo(details["dtype"])
        item.set_tensor(details["index"], rng.integers(
            limits.min, limits.max + 1, details["shape"], dtype=details["dtype"]))  # fmt: skip
    item.invoke()
    digest = hashlib.sha256()
    for details in item.get_output_details():
        digest.update(item.get_tensor(details["index"]).tobytes())
    return digest.hexdigest()[:16]


def in_child(body: Callable[[], None], timeout_s: float = 300) -> tuple[int, str]:
    """Exit code and output of ``body`` in a forked child, which has all imports already."""
    output = Path(f"/tmp/child-{time.monotonic_ns()}")
    pid = os.fork()
    if pid == 0:
        code = 1
        with open(output, "w") as file:
            os.dup2(file.fileno(), 1)
            try:
                body()
                code = 0
            except SystemExit as end:
                code = int(end.code or 0)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", flush=True)
            with contextlib.suppress(Exception):
                import sys

                sys.stdout.flush()
        os._exit(code)
    end = time.monotonic() + timeout_s * SLOWNESS
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), output.read_text()
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"no end within {timeout_s} s: {output.read_text()[-500:]}")


def command(*arguments: str, timeout_s: float = 300) -> tuple[int, str]:
    def body() -> None:
        from delegate.cli import main

        raise SystemExit(main(list(arguments)))

    return in_child(body, timeout_s)


def document(*arguments: str, timeout_s: float = 300) -> dict:
    code, text = command(*arguments, "--json", timeout_s=timeout_s)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise AssertionError(f"exit {code}: {text[-800:]}") from None


def set_fault(text: str) -> None:
    (HOST / "faults").write_text(text + "\n")


def complaints() -> list[str]:
    """Lines of the kernel's log that no use of the product may cause."""
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    return [line for line in log.splitlines() if any(word in line for word in COMPLAINTS)]


def doctor() -> object:
    facts = document("doctor")
    assert facts["verdict"] == "the NPU works", facts["verdict"]
    (node,) = facts["nodes"]
    assert (node["path"], node["driver"]) == (NODE, "rocket"), node
    assert facts["cores"] == {"driver": "rocket", "total": 3, "bound": 3, "is_module_loaded": True}
    return {"kernel": facts["kernel"], "driver": f"{node['driver']} {node['version']}"}


def bring_up() -> object:
    facts = document("bring-up", "--device", "rocket")
    assert all(step["passed"] for step in facts["steps"]), facts["verdict"]
    return len(facts["steps"])


def classify() -> object:
    facts = document("classify", str(DIGITS / "images/digit_7.png"), "--model",
                     str(DIGITS / "digits_int8.tflite"))  # fmt: skip
    assert facts["device"] == f"rocket {NODE}", facts["device"]
    assert facts["top"][0]["label"] == "7" or facts["top"][0]["index"] == 7, facts["top"]
    return facts["top"][:3]


def compare() -> object:
    rows = {}
    for path in models()[:2]:
        facts = document("compare", str(path), "--per-op", "--device", "rocket")
        rows[path.stem] = {
            "outputs": [item["equal"] for item in facts["outputs"]],
            "max_abs_diff": max((item["max_abs_diff"] for item in facts["ops"]), default=0),
        }
        assert rows[path.stem]["max_abs_diff"] <= 1, rows
    return rows


def outputs() -> object:
    """Equal to the simulator in the guest; the host compares the digests with its own."""
    digests = {}
    for path in models():
        ours, simulated = interpreter(path, "auto"), interpreter(path, "simulator")
        digests[path.stem] = [invoke(ours, seed) for seed in range(2)]
        assert digests[path.stem] == [invoke(simulated, seed) for seed in range(2)], path.stem
    return digests


def conformance() -> object:
    count = os.environ.get("BOARD_CONFORMANCE", "60")
    code, text = command("conformance", "--device", "rocket", "--sample", count, "--seed", "1",
                         "--gtest_brief", "--jobs", "1", timeout_s=1200)  # fmt: skip
    assert code == 0, text[-800:]
    return text.strip().splitlines()[-1]


def threads() -> object:
    paths = models()[:4]
    expected = {p: [invoke(interpreter(p, "simulator"), s) for s in range(2)] for p in paths}
    failures: list[str] = []

    def work(number: int) -> None:
        path = paths[number % len(paths)]
        try:
            item = interpreter(path, "rocket")
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


def split_rows() -> object:
    path = models()[0]
    expected = invoke(interpreter(path, "simulator"), 0)
    assert invoke(interpreter(path, "rocket", split_rows="always"), 0) == expected
    return "three cores"


def life() -> object:
    """Load, invoke, delete, exit; every second process ends without deleting anything."""
    path = models()[0]
    expected = invoke(interpreter(path, "simulator"), 0)
    cycles = int(os.environ.get("BOARD_CYCLES", "40"))

    def deleted() -> None:
        item = interpreter(path, "rocket")
        assert invoke(item, 0) == expected
        del item

    def at_once() -> None:
        """An exit that runs the handlers of the C library, as a program's own does."""
        import ctypes

        item = interpreter(path, "rocket")
        assert invoke(item, 0) == expected
        globals()["kept"] = item
        ctypes.CDLL(None).exit(0)

    for number in range(cycles):
        code, text = in_child(at_once if number % 2 else deleted)
        assert code == 0, text[-500:]
    return cycles


def _after_a_fault(fault: str, words: str) -> str:
    path = models()[0]
    expected = invoke(interpreter(path, "simulator"), 0)
    item = interpreter(path, "rocket")
    assert invoke(item, 0) == expected
    set_fault(fault)
    text = ""
    try:
        assert invoke(item, 0) == expected, "a wrong result"
    except (RuntimeError, DelegateError) as error:
        text = str(error)
    finally:
        set_fault("")
    assert words in text, text or "no error"
    assert invoke(item, 0) == expected, "wrong after the fault"
    return text[:300]


def fault_hang() -> object:
    return [_after_a_fault(f"hang {n}", "nothing was written") for n in (1, 5)]


def fault_silent() -> object:
    return _after_a_fault("silent 3", "nothing was written")


def fault_ppu() -> object:
    return _after_a_fault("ppu 3", "nothing was written")


def fault_page() -> object:
    return _after_a_fault("page 3", "nothing was written")


def fault_reset() -> object:
    return _after_a_fault("reset 3", "nothing was written")


def fault_slow() -> object:
    """Slow cores change nothing but the time."""
    path = models()[1 % len(models())]
    expected = invoke(interpreter(path, "simulator"), 0)
    set_fault("slow 1 20")
    try:
        assert invoke(interpreter(path, "rocket"), 0) == expected
    finally:
        set_fault("")
    return "right"


def answers() -> object:
    """What the driver answers to right and wrong requests; the host compares."""
    if not (HOST / "probe.py").exists():
        return None
    done = subprocess.run(
        ["python3", str(HOST / "probe.py"), NODE, str(HOST / "probe.npz")],
        capture_output=True, text=True, check=False, timeout=300 * SLOWNESS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


def fault_killed() -> object:
    """SIGKILL while a task hangs: the kernel's affair; the next process works."""
    path = models()[0]
    expected = invoke(interpreter(path, "simulator"), 0)
    before = len(complaints())
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            item = interpreter(path, "rocket")
            invoke(item, 0)
            set_fault("hang 3")
            with contextlib.suppress(Exception):
                invoke(item, 0)
            os._exit(0)
        time.sleep(2)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        set_fault("")
        time.sleep(1)
    assert invoke(interpreter(path, "rocket"), 0) == expected
    return {"kernel_complaints": complaints()[before:]}


CASES: dict[str, Callable[[], object]] = {
    function.__name__: function
    for function in (
        doctor, bring_up, classify, outputs, compare, threads, split_rows, life, fault_hang,
        fault_silent, fault_ppu, fault_page, fault_reset, fault_slow, conformance, answers,
        fault_killed,
    )
}  # fmt: skip
# What the kernel says of itself where nobody can prevent it.
TOLERANT = ("answers", "fault_killed")


def main() -> None:
    names = json.loads((HOST / "plan.json").read_text())
    with open(HOST / "results.jsonl", "w") as results:
        for name in names:
            start, before = time.monotonic(), len(complaints())
            row: dict[str, object] = {"case": name, "passed": True}
            try:
                # A process of its own: nothing of a case stays for the next one.
                def body(case: Callable[[], object] = CASES[name]) -> None:
                    print("RESULT " + json.dumps(case()), flush=True)

                code, text = in_child(body, 1500)
                assert code == 0, text[-1500:]
                row["detail"] = json.loads(text.rpartition("RESULT ")[2])
            except Exception as error:
                row |= {"passed": False, "detail": f"{type(error).__name__}: {error}"}
            said = complaints()[before:]
            if said and name not in TOLERANT:
                row |= {"passed": False, "kernel": said[:5]}
            row["seconds"] = round(time.monotonic() - start, 1)
            results.write(json.dumps(row) + "\n")
            results.flush()
            os.fsync(results.fileno())


if __name__ == "__main__":
    main()
