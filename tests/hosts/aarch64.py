"""Compiled models in the C host for aarch64, under qemu-user, against the host of this machine.

``python -m tests.hosts.aarch64 LIBRARY SYSROOT``; used by tools/aarch64.sh.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import delegate
from tests.aot.models import single_operator_model
from tests.hosts.c_library import build_host
from tests.hosts.conftest import compiled, outputs_of_first_program
from tests.shared_folder import MODELS

NAMES = ("mobilenet_v1_1.0_224_quant", "mobilenet_v2_1.0_224_int8_per_channel", "yolov8n_224_int8")
INPUT_BYTES = 224 * 224 * 3


def main() -> int:
    library, sysroot = Path(sys.argv[1]).resolve(), sys.argv[2]
    # Programs only: the runtime's own kernels have other code on each architecture.
    models = {"one convolution": compiled(single_operator_model())}
    for name in NAMES:
        if (MODELS / f"{name}.tflite").exists():
            models[name] = outputs_of_first_program(compiled(MODELS / f"{name}.tflite"))
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        here = build_host(folder / "here")
        there = build_host(
            folder / "there", machine="aarch64", compiler="aarch64-linux-gnu-gcc",
            # The C library of Debian's cross compiler has no libstdc++ and friends in its path.
            flags=("-Wl,--allow-shlib-undefined",),
        )  # fmt: skip
        content = np.random.default_rng(3).integers(0, 256, INPUT_BYTES, np.uint8)
        (folder / "input").write_bytes(content.tobytes())
        for title, model in models.items():
            (folder / "model").write_bytes(model)
            outputs = []
            for command, plugin in (
                ([str(here)], delegate.library_path()),
                (["qemu-aarch64", "-L", sysroot, str(there)], str(library)),
            ):
                output = folder / "output"
                output.unlink(missing_ok=True)
                done = subprocess.run(
                    [*command, plugin, str(folder / "model"), str(folder / "input"), str(output),
                     "device=simulator"],
                    capture_output=True, text=True, timeout=600, check=False,
                )  # fmt: skip
                report = json.loads(done.stdout) if done.stdout else {"ok": False}
                if not report["ok"] or report["libpython"]:
                    print(done.stdout, done.stderr, file=sys.stderr)
                outputs.append(output.read_bytes() if output.exists() else b"")
            is_equal = bool(outputs[0]) and outputs[0] == outputs[1]
            failures += not is_equal
            verdict = "equal" if is_equal else "DIFFERENT"
            print(f"{title}: {len(outputs[1])} bytes, {verdict}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
