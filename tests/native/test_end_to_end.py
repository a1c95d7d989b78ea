"""Models on the simulator through a real runtime: results, faults, threads, forks, resizing."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import rk3588_conformance.builder.layers as layers
from delegate import _native
from delegate.compile.compiler import compile_model
from delegate.errors import DeviceError, ProgramError, SimulatorFault
from delegate.model.flatbuffer_tables import write_file
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_schema import ModelSlot, SubGraphSlot, TensorSlot
from delegate.options import Options
from rk3588_conformance.builder import Net, conv_model
from rk3588_conformance.builder.ranges import random_quantization
from rk3588_conformance.cut_model import parse
from tests.inferences import interpreter_of
from tests.models.blocks import conv_conv_add_model
from tests.native.inference import seen_beside_invoke
from tests.npu.sample_programs import resealed
from tests.processes import python


def simulated(model: bytes, deny_ops: str = "NONE") -> Any:
    return interpreter_of(model, device="simulator", deny_ops=deny_ops)


def run(interpreter: Any, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    for detail in interpreter.get_input_details():
        limits = np.iinfo(detail["dtype"])
        values = rng.integers(limits.min, limits.max + 1, detail["shape"], dtype=detail["dtype"])
        interpreter.set_tensor(detail["index"], values)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def small_conv(**changes: Any) -> bytes:
    return conv_model(np.random.default_rng(3), 11, 7, 5, 37, 3, 3, **changes)


def test_every_invoke_reads_its_own_input():
    model = conv_conv_add_model(np.random.default_rng(4), 5, 9, 16, 24, 3, 3)
    interpreter, expected = simulated(model), interpreter_of(model)
    for seed in range(4):
        actual = run(interpreter, seed)
        np.testing.assert_array_equal(actual, run(expected, seed))


def test_a_resized_batch_is_compiled_again():
    model = small_conv()
    interpreter, expected = simulated(model), interpreter_of(model)
    for batch in (3, 1):
        for each in (interpreter, expected):
            each.resize_tensor_input(each.get_input_details()[0]["index"], (batch, 11, 7, 5))
            each.allocate_tensors()
        before = _native.submit_count()
        np.testing.assert_array_equal(run(interpreter, batch), run(expected, batch))
        assert _native.submit_count() == before + 1


def sliced_model() -> bytes:
    """conv -> SLICE -> conv -> SLICE -> conv: slices that tell their shapes only while they run."""
    rng = np.random.default_rng(8)
    builder = Net("slices", rng)
    quantization = random_quantization(rng, DType.INT8, None, None)
    x = builder.input("x", (1, 6, 40, 5), DType.INT8, quantization, shape_signature=(-1, 6, 40, 5))
    for begin, size in (((0, 0, 33, 0), (-1, 6, 4, 32)), ((0, 0, 0, 16), (-1, 6, 4, 16))):
        x = builder.conv(x, 32, layers.Window(3, 3))
        spec = builder.spec(x)
        y = builder.tensor(
            f"slice{x}", (1, *size[1:]), spec.dtype, spec.quantization, shape_signature=size
        )
        numbers = (builder.constant(f"n{x}_{v}", np.array(v, np.int32)) for v in (begin, size))
        builder.operator("SLICE", (x, *numbers), (y,), None, version=2)
        x = y
    return builder.build(builder.conv(x, 9, layers.Window(1, 1)))


def test_a_resize_reaches_partitions_behind_shapes_that_are_told_late():
    model = sliced_model()
    interpreter, expected = simulated(model, "1"), interpreter_of(model)
    for batch in (1, 3, 2):
        for each in (interpreter, expected):
            each.resize_tensor_input(each.get_input_details()[0]["index"], (batch, 6, 40, 5))
            each.allocate_tensors()
        before = _native.submit_count()
        np.testing.assert_array_equal(run(interpreter, batch), run(expected, batch))
        assert _native.submit_count() == before + 2


@pytest.mark.parametrize("channels", [16, 17, 48, 64])
def test_a_value_per_channel_that_lies_in_a_larger_tensor(channels):
    """Its surfaces are then apart, which the reader of such operands does not know."""
    builder = Net("parts")
    quantization = Quantization((0.5,), (3,))
    image, channel = (
        builder.input(name, (1, h, 1, channels), DType.INT8, quantization)
        for name, h in (("image", 5), ("channel", 1))
    )
    scale = {"output_scale": 0.5, "output_zero_point": 3}
    total = builder.add(image, channel, **scale)
    parts = (builder.add(image, image, **scale, name="twice"), channel, total)
    joined = builder.concatenation(parts, 1, "joined")
    model = builder.build(builder.add(joined, joined, **scale, name="last"))
    before = _native.submit_count()
    result = run(simulated(model), 5)
    assert _native.submit_count() > before
    np.testing.assert_array_equal(result, run(interpreter_of(model), 5))


def test_results_have_the_shapes_that_the_runtime_gives_whatever_the_file_says():
    builder = Net("dense")
    rng = np.random.default_rng(4)
    quantization = random_quantization(rng, DType.INT8, None, None)
    x = builder.input("x", (2, 1, 1, 24), DType.INT8, quantization)
    y = builder.fully_connected(x, outputs=7)
    root = parse(builder.build(y))
    (graph,) = root.children(ModelSlot.SUBGRAPHS)
    graph.children(SubGraphSlot.TENSORS)[y].set_integers(TensorSlot.SHAPE, (2, 1, 1, 7))
    model = write_file(root, b"TFL3")
    before = _native.submit_count()
    result = run(simulated(model), 5)
    assert _native.submit_count() == before + 1
    assert result.shape == (2, 7)
    np.testing.assert_array_equal(result, run(interpreter_of(model), 5))


def test_a_fault_names_its_place(monkeypatch):
    """A command of the serialised program is spoiled: error of run and of invoke."""
    (compiled,) = compile_model(small_conv(), Options(numerics="exact")).partitions
    enable = (0x0081 << 48 | 0x1D << 16 | 0x0008).to_bytes(8, "little")
    assert compiled.program.count(enable) == 1
    data = resealed(bytearray(compiled.program.replace(enable, bytes(8))))
    executable = _native.Executable(data, device="simulator")
    ((_, _, shape, dtype),) = executable.inputs
    with pytest.raises(SimulatorFault, match="simulator: ") as caught:
        executable.run([np.zeros(shape, dtype)])
    assert caught.value.kind
    assert caught.value.task == 0
    assert "CONV_2D" in caught.value.layer

    import delegate.compile.compiler

    monkeypatch.setattr(delegate.compile.compiler, "serialized", lambda program: data)
    interpreter = simulated(small_conv())
    with pytest.raises(RuntimeError, match=r"rk3588 delegate: simulator: .*CONV_2D"):
        run(interpreter, 0)


def test_threads_with_their_own_interpreters_agree():
    model = small_conv()
    expected = [run(simulated(model), seed) for seed in range(8)]
    interpreters = [simulated(model) for _ in range(4)]

    def work(interpreter: Any) -> None:
        for seed in range(8):
            np.testing.assert_array_equal(run(interpreter, seed), expected[seed])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, interpreters))


def test_invoke_on_the_simulator_needs_no_gil():
    interpreter = simulated(small_conv())
    expected = run(interpreter, 0).copy()
    index = interpreter.get_output_details()[0]["index"]
    interpreter.tensor(index)().fill(0)
    actual = seen_beside_invoke(interpreter, 1_000_000, lambda: interpreter.tensor(index)().copy())
    np.testing.assert_array_equal(actual, expected)


FORK_SCRIPT = """
import os, sys
import numpy as np
from delegate import _native
from delegate.compile.compiler import compile_model
from delegate.options import Options
options = Options.from_mapping({"numerics": "exact", "deny_ops": ""}, {})
(compiled,) = compile_model(sys.argv[1], options).partitions
executable = _native.Executable(compiled.program, device="simulator")
((_, _, shape, dtype),) = executable.inputs
before = executable.run([np.ones(shape, dtype)])[0]
pid = os.fork()
after = executable.run([np.ones(shape, dtype)])[0]
assert np.array_equal(before, after)
if pid == 0:
    sys.exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_forked_child_invokes_and_exits(tmp_path):
    path = tmp_path / "conv.tflite"
    path.write_bytes(small_conv())
    result = python("-c", FORK_SCRIPT, path, timeout=60)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("seed", range(4))
def test_hostile_programs_fault_and_never_crash(seed):
    """Commands and tables of a real program, spoiled, with a correct checksum."""
    (compiled,) = compile_model(small_conv(), Options(numerics="exact")).partitions
    rng = np.random.default_rng(seed)
    faults = 0
    for _ in range(100):
        data = bytearray(compiled.program)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(8, len(data))] = rng.integers(256)
        try:
            executable = _native.Executable(resealed(data), device="simulator")
            executable.run([np.zeros(shape, dtype) for _, _, shape, dtype in executable.inputs])
        except (ProgramError, DeviceError) as error:
            assert "\n" not in str(error)
            faults += 1
    assert faults > 0
