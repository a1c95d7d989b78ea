"""Nodes that read or write tensors out of order: the runtime alone runs such files, and is never
asked to partition them, which it cannot."""

from pathlib import Path

import pytest

from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from rk3588_conformance.builder import Net
from tests.processes import python

SHAPE = (1, 4, 4, 16)

# (inputs, output) of every ADD; tensor 0 is the input of the model. The first two read memory that
# nobody wrote: their results are anything.
GRAPHS = {
    "cycle": (((0, 0), 3), ((0, 2), 1), ((1, 1), 2)),
    "too_early": (((1, 0), 2), ((0, 0), 1)),
    "twice": (((0, 0), 1), ((0, 1), 2), ((2, 0), 1)),
    "input": (((0, 0), 1), ((1, 1), 0), ((0, 1), 2)),
}

CHILD = """
import sys
from pathlib import Path

import numpy as np

import delegate
from delegate.host.runtimes import find_runtime

runtime = find_runtime()
options = {"device": "simulator", "log_level": "error", "cache_dir": sys.argv[2]}
plugin = runtime.load_delegate(delegate.library_path(), options)
outputs = []
for interpreter in (
    runtime.interpreter(Path(sys.argv[1]), reference_kernels=True),
    runtime.interpreter(Path(sys.argv[1]), [plugin]),
):
    rng = np.random.default_rng(0)
    for _ in range(2):
        details = interpreter.get_input_details()[0]
        value = rng.integers(-128, 128, details["shape"], np.int8)
        interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
        outputs += [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
half = len(outputs) // 2
if sys.argv[3] == "defined":
    assert all((a == b).all() for a, b in zip(outputs[:half], outputs[half:]))
"""


def model(nodes: tuple[tuple[tuple[int, int], int], ...]) -> bytes:
    builder = Net()
    quantization = Quantization((0.1,), (0,))
    builder.input("x", SHAPE, DType.INT8, quantization)
    for number in range(1, 1 + max(target for _, target in nodes)):
        builder.tensor(f"t{number}", SHAPE, DType.INT8, quantization)
    for inputs, target in nodes:
        builder.operator("ADD", inputs, (target,), AddOptions(), version=2)
    return builder.build(2)


@pytest.mark.parametrize("cache", ["off", "on"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_out_of_order_is_left_to_the_runtime(name: str, cache: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(model(GRAPHS[name]))
    folder = "off" if cache == "off" else str(tmp_path / "cache")
    kind = "undefined" if name in ("cycle", "too_early") else "defined"
    done = python("-c", CHILD, path, folder, kind, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_compiled_operator_out_of_order_is_refused() -> None:
    """Only in the live interpreter: the plan is checked where the runtime would replace nodes."""
    import delegate
    from delegate.compile.aot.rewrite import compile_ahead_of_time
    from delegate.errors import DelegateError
    from delegate.host.runtimes import find_runtime
    from delegate.model.flatbuffer_tables import write_file
    from delegate.model.tflite_schema import ModelSlot, OperatorSlot, SubGraphSlot
    from delegate.options import Options
    from rk3588_conformance.cut_model import parse

    builder = Net()
    quantization = Quantization((0.1,), (0,))
    x = builder.input("x", SHAPE, DType.INT8, quantization)
    y, z, w = (builder.tensor(name, SHAPE, DType.INT8, quantization) for name in "yzw")
    builder.operator("ADD", (x, x), (y,), AddOptions(), version=2)
    builder.operator("MAXIMUM", (y, y), (z,), version=2)
    builder.operator("MAXIMUM", (z, z), (w,), version=2)
    builder.output(w)
    cpu_keeps = Options(deny_ops=("MAXIMUM",))
    compiled = compile_ahead_of_time(builder.build(), cpu_keeps).content
    root = parse(compiled)
    _, middle, last = root.children(ModelSlot.SUBGRAPHS)[0].children(SubGraphSlot.OPERATORS)
    middle.set_integers(OperatorSlot.INPUTS, 2 * last.integers(OperatorSlot.OUTPUTS))
    plugin = find_runtime().load_delegate(delegate.library_path(), {"device": "simulator"})
    with pytest.raises(DelegateError, match="out of order: node 1 reads too early tensor"):
        find_runtime().interpreter(write_file(root, b"TFL3"), [plugin])
