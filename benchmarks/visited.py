"""Count what a reader has to visit: files and functions of ``delegate/`` that run while a model
of one operator is compiled.

    python -m benchmarks.visited [--list CASE]

Modules are imported before and count nothing; functions are told apart by file and line, lambdas
and comprehensions are part of the function around them. Caches are cold, as each case runs in a
process of its own. "Free CONCATENATION": what joining two convolutions adds to the two alone.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import delegate  # noqa: E402
from delegate.cli.table import format_table  # noqa: E402
from delegate.compile.compiler import compile_model  # noqa: E402
from delegate.model.graph import Activation, DType, Padding, Quantization  # noqa: E402
from delegate.ops.shared.pooling import PoolOptions  # noqa: E402
from delegate.options import Options  # noqa: E402
from rk3588_conformance.builder import Net  # noqa: E402
from rk3588_conformance.builder.layers import Arithmetic, Window  # noqa: E402
from tools.script import ScriptParser, run_script  # noqa: E402

Visited = set[tuple[str, str]]


def _input(builder: Net) -> int:
    return builder.input("x", (1, 8, 8, 32), DType.INT8, Quantization((0.05,), (3,)))


def _conv(builder: Net, x: int) -> int:
    result = Arithmetic(output_scale=0.05, output_zero_point=0)
    return builder.conv(x, 32, Window(1, 1), result)


def _logistic(builder: Net, x: int) -> int:
    return builder.function("LOGISTIC", (x,), Quantization((1 / 256,), (-128,)))


def _max_pool(builder: Net, x: int) -> int:
    options = PoolOptions(Padding.VALID, 2, 2, 2, 2, Activation.NONE)
    return builder.result("MAX_POOL_2D", (x,), "pooled", (1, 4, 4, 32), options=options, version=2)


def _convs(builder: Net, x: int) -> tuple[int, ...]:
    return _conv(builder, x), _conv(builder, _input(builder))  # of one map they become one


CASES: dict[str, Callable[[Net, int], tuple[int, ...]]] = {
    "CONV_2D 1 x 1": lambda b, x: (_conv(b, x),),
    "ADD": lambda b, x: (b.add(x, _input(b)),),
    "LOGISTIC": lambda b, x: (_logistic(b, x),),
    "MAX_POOL_2D 2 x 2": lambda b, x: (_max_pool(b, x),),
    "two CONV_2D": _convs,
    "two CONV_2D joined": lambda b, x: (b.concatenation(_convs(b, x), 3),),
}
ALONE, JOINED = "two CONV_2D", "two CONV_2D joined"


def visited(case: str) -> Visited:
    """Return file and function of all that runs, in this process."""
    folder = Path(delegate.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if path.name not in ("__init__.py", "__main__.py"):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            importlib.import_module(".".join(parts))
    builder = Net(case)
    model, options = builder.build(*CASES[case](builder, _input(builder))), Options(deny_ops=())
    found: Visited = set()
    prefix = f"{folder}/"

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and code.co_name[0] != "<":
            name = f"{code.co_name} ({code.co_firstlineno})"
            found.add((code.co_filename.removeprefix(prefix), name))

    sys.setprofile(note)
    try:
        compile_model(model, options)
    finally:
        sys.setprofile(None)
    return found


def visited_apart(case: str) -> Visited:
    """Return the same, of a new process."""
    command = [sys.executable, "-m", "benchmarks.visited", "--list", case]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    pairs = (line.split("\t") for line in done.stdout.splitlines())
    return {(file, name) for file, name in pairs}


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("--list", choices=CASES, metavar="CASE", help="print all that one visits")
    asked = parser.parse_args().list
    if asked:
        print(*("\t".join(pair) for pair in sorted(visited(asked))), sep="\n")
        return 0
    found = {case: visited_apart(case) for case in CASES}
    rows = [(case, len(_files(those)), len(those)) for case, those in found.items()]
    alone, joined = found[ALONE], found[JOINED]
    more = len(_files(joined) - _files(alone)), len(joined - alone)
    rows.append(("free CONCATENATION, extra", *more))
    print(format_table(("operator", "files", "functions"), rows, right=(1, 2)))
    return 0


def _files(found: Visited) -> set[str]:
    return {file for file, _ in found}


if __name__ == "__main__":
    run_script(main)
