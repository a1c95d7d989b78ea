"""A chip is a value: one that lacks a primitive is two lines, and lowering makes others of it.

Every chip here is RK3588 without one primitive. Its programs run on RK3588's simulator, as they use
a subset of what that has; encoders refuse tasks that ask for what their chip lacks.
"""

from dataclasses import replace

import numpy as np
import pytest

from delegate.chip.chip import Chip, Primitive
from delegate.chip.chips import DEFAULT
from delegate.compile.compiler import CompileResult, compile_model
from delegate.errors import EncodingError
from delegate.lower.legalize import used_by
from delegate.lower.task import TableLoad, Task
from delegate.model.graph import DType, Padding, Quantization
from delegate.npu import program
from delegate.npu.program_reader import parse
from delegate.npu.regcmd import encode_task
from delegate.options import Options
from rk3588_conformance.builder import add_model, conv_model
from tests.chip.test_second_chip import reference, simulate
from tests.lower.test_aliases import Views

SAME = Quantization((0.05,), (3,))
EXACT = Options(numerics="exact")


def without(primitive: Primitive) -> Chip:
    return replace(DEFAULT, lacks=DEFAULT.lacks | {primitive})


def maximum() -> bytes:
    builder = Views("maximum")
    x, y = (builder.input(name, (1, 9, 7, 40), DType.INT8, SAME) for name in "xy")
    z = builder.result("MAXIMUM", (x, y), "z", (1, 9, 7, 40), SAME, dtype=DType.INT8)
    return builder.build(z)


def max_pool() -> bytes:
    builder = Views("pool")
    x = builder.input("x", (1, 13, 20, 48), DType.INT8, SAME)
    return builder.build(builder.pool("MAX_POOL_2D", x, 5, 5, 1, 1, Padding.SAME))


def upper_rows() -> bytes:
    """A sum of the upper rows of a map: between its surfaces lie the lower ones."""
    net = Views(6, 10, 64)
    part = net.slice_of(net.conv(net.map(), 64), (0, 0, 0, 0), (1, 3, 10, 64))
    return net.build(net.add(part, part))


RNG = np.random.default_rng(5)
CASES = [
    (Primitive.EXTREMA, maximum()),
    (Primitive.EXTREMA, max_pool()),
    (Primitive.UNEQUAL_SIDES, conv_model(RNG, 9, 14, 16, 24, 1, 5)),
    (Primitive.UNEQUAL_SIDES, conv_model(RNG, 9, 14, 16, 24, 3, 1, dh=2)),
    (Primitive.ROW_PARTS, conv_model(RNG, 4, 1300, 128, 16, 1, 1)),
    (Primitive.ROW_GAPS, max_pool()),
    (Primitive.SURFACE_GAPS, upper_rows()),
    (Primitive.KEPT_WEIGHTS, conv_model(RNG, 80, 80, 64, 64, 3, 3)),
    (Primitive.SUMS, conv_model(RNG, 4, 4, 6144, 16, 3, 3)),
    (Primitive.CHANNEL_OPERANDS, add_model(RNG, (1, 6, 6, 40), other_shape=(1, 1, 1, 40))),
]
"""A primitive, and a model whose program uses it on RK3588."""
TO_THE_CPU = (Primitive.SUMS, Primitive.ROW_PARTS)
"""Primitives without a substitute."""


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Collects the tasks of finished programs."""
    found: list[Task] = []

    def recorded(chip, layer, task):
        found.extend(() if isinstance(task, TableLoad) else [task])
        return encode_task(chip, layer, task)

    monkeypatch.setattr(program, "encode_task", recorded)
    return found


def asked_by(tasks: list[Task]) -> set[Primitive]:
    return {primitive for task in tasks for primitive in used_by(task)}


def compiled(path, chip: Chip) -> CompileResult:
    return compile_model(path, EXACT, chip=chip)


@pytest.mark.parametrize(
    ("primitive", "model"), CASES, ids=lambda value: getattr(value, "name", "")
)
def test_what_a_chip_lacks_becomes_something_else(primitive, model, tasks, tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(model)
    assert compiled(path, DEFAULT).rejections == ()
    assert primitive in asked_by(tasks)
    tasks.clear()
    result = compiled(path, without(primitive))
    assert primitive not in asked_by(tasks)
    values = reference(path, result.graph)
    for one in result.partitions:
        given = [values[b.tensor].reshape(b.shape) for b in parse(one.program).inputs]
        found = simulate(one.program, given, DEFAULT)
        for binding, array in zip(parse(one.program).outputs, found, strict=True):
            expected = values[binding.tensor].reshape(array.shape).astype(np.int16)
            assert np.abs(array.astype(np.int16) - expected).max() <= 1
    assert (result.partitions == ()) == (primitive in TO_THE_CPU)


def test_an_encoder_refuses_what_its_chip_lacks(tasks):
    compiled(maximum(), DEFAULT)
    encode_task(DEFAULT, "layer", tasks[0])
    with pytest.raises(EncodingError, match="no known maxima and minima"):
        encode_task(without(Primitive.EXTREMA), "layer", tasks[0])
