"""The native code on the stand-in kernel under a sanitizer, from eight threads, without Python.

python -m tests.kernel.sanitize thread [--invokes 100]
python -m tests.kernel.sanitize address,undefined --invokes 500 --driver rknpu

"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.builds import build_standin
from tests.kernel.board import RKNPU_NODE, ROCKET_NODE, ROOT, Board
from tests.kernel.small_models import MODELS, programs

THREADS = 8
NODES = {"rocket": ROCKET_NODE, "rknpu": RKNPU_NODE}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sanitizer", choices=("thread", "address,undefined"))
    parser.add_argument("--invokes", type=int, default=60)
    parser.add_argument("--driver", choices=NODES, help="one only")
    arguments = parser.parse_args()
    folder = ROOT / "build" / f"standin-{arguments.sanitizer.replace(',', '-')}"
    build_standin(folder, "kernel_stress", RK3588_SANITIZE=arguments.sanitizer)
    failures = 0
    with tempfile.TemporaryDirectory() as place:
        board = Board(Path(place) / "root", folder / "unused").add_rocket().add_rknpu()
        files = []
        for name in ("conv", "depthwise", "fully connected", "residual"):
            for i, program in enumerate(programs(MODELS[name]())):
                path = Path(place) / f"{name.replace(' ', '_')}_{i}.rknp"
                path.write_bytes(program)
                files.append(str(path))
        # By path: the program's hooks do not reach the search in sysfs.
        for node in [NODES[arguments.driver]] if arguments.driver else NODES.values():
            device = str(board.root / node)
            for cores in ("auto", "all"):
                command = [str(folder / "kernel_stress"), device, cores, str(THREADS),
                           str(arguments.invokes), *files]  # fmt: skip
                environment = {**os.environ, "RK3588_STANDIN_ROOT": str(board.root),
                               "TSAN_OPTIONS": "halt_on_error=1",
                               "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}  # fmt: skip
                done = subprocess.run(command, check=False, env=environment)
                print(f"{node} cores={cores}: exit {done.returncode}", flush=True)
                failures += done.returncode != 0
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
