"""Means of groups of channels, as GroupNormalization of Keras has them: a RESHAPE to five sizes,
means over all but images and groups, functions of them, and a RESHAPE back.

The oracle is TensorFlow Lite's reference kernels, to which means, sums and functions are equal.
"""

import numpy as np
import pytest

from delegate.compile.aot.rewrite import compile_ahead_of_time
from delegate.compile.compiler import CompileResult, compile_model
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.ops.sub import SubOptions
from delegate.options import Options
from delegate.partition.half import as_computed
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.options import softmax
from tests.inferences import assert_same, outputs

GIVEN = Quantization((0.05,), (3,))
MEANS = Quantization((0.011,), (-7,))
CURVE = Quantization((1 / 128,), (0,))
RESULT = Quantization((0.08,), (4,))
SHARES = Quantization((1 / 256,), (-128,))
ON_THE_NPU = {"device": "simulator", "numerics": "exact", "deny_ops": "NONE"}
AXES = (1, 2, 4)


class Grouped:
    """``builder`` with a map ``x`` in ``groups``, the ``mean`` of it, a ``curve`` of that, a second
    mean and what is made of all: ``result``, of the map's shape.
    """

    def __init__(self, shape: tuple[int, ...], groups: int, kind: DType = DType.INT8) -> None:
        self.builder = builder = Net("grouped")
        images, rows, columns, channels = shape
        sides = (groups, channels // groups)
        # Of MUL the kernels of tflite-runtime 2.14 refuse five dimensions.
        self.x = builder.input("x", shape, kind, scaling(kind, GIVEN))
        wide = reshaped(builder, self.x, (images, rows, columns, *sides))
        self.mean = builder.reduced("MEAN", wide, scaling(kind, MEANS), keep_dims=True, axes=AXES)
        self.curve = builder.function("TANH", (self.mean,), scaling(kind, CURVE))
        self.mixed = builder.function("SUB", (wide, self.curve), scaling(kind, GIVEN), SubOptions())
        given = scaling(kind, MEANS)
        second = builder.reduced("MEAN", self.mixed, given, keep_dims=True, axes=AXES)
        one = builder.constant("one", raw(kind, 5), given)
        shifted = builder.function("ADD", (second, one), given, AddOptions())
        levels = np.random.default_rng(3).integers(-90, 90, (1, 1, 1, *sides))
        gain = builder.constant("gain", raw(kind, levels), scaling(kind, CURVE))
        own = builder.constant("own", raw(kind, levels[..., :1]), given)
        shifted = builder.function("MAXIMUM", (shifted, own), given)
        sums = builder.result("ADD", (gain, shifted), "sums", (images, 1, 1, *sides),
                              scaling(kind, RESULT), options=AddOptions())  # fmt: skip
        added = builder.function("ADD", (self.mixed, sums), scaling(kind, RESULT), AddOptions())
        result = reshaped(builder, added, shape)
        self.result = builder.function("TANH", (result,), scaling(kind, CURVE))

    def model(self, *tensors: int) -> bytes:
        for tensor in tensors or (self.result,):
            self.builder.output(tensor)
        return self.builder.build()


def reshaped(builder: Net, x: int, shape: tuple[int, ...]) -> int:
    """``x`` in another shape, of any number of images."""
    numbers = {"numbers": (-1, *shape[1:])}
    return builder.result("RESHAPE", (x,), f"shape {x}", shape, numbers=numbers)


def scaling(kind: DType, given: Quantization) -> Quantization:
    offset = 128 if kind is DType.UINT8 else 0
    return Quantization(given.scales, (given.zero_points[0] + offset,))


def raw(kind: DType, values: np.ndarray | int) -> np.ndarray:
    return np.asarray(values + kind.element.offset).astype(kind.name.lower())


def compiled(model: bytes, **options: str) -> CompileResult:
    return compile_model(model, Options.from_mapping({**ON_THE_NPU, **options}, {}))


def drawn(shape: tuple[int, ...], kind: DType, seed: int = 0) -> list[np.ndarray]:
    """Random values, both ends of them, and channels of their own level."""
    rng = np.random.default_rng(seed)
    low, high = np.iinfo(kind.name.lower()).min, np.iinfo(kind.name.lower()).max
    level = rng.integers(low, high + 1, (shape[0], 1, 1, shape[3]))
    near = np.clip(level + rng.integers(-3, 4, shape), low, high)
    ends = np.where(rng.random(shape) < 0.5, low, high)
    given = (rng.integers(low, high + 1, shape), near, ends, np.full(shape, low))
    return [values.astype(kind.name.lower()) for values in given]


def assert_equal(model: bytes, shape: tuple[int, ...], kind: DType, **options: str) -> None:
    for values in drawn(shape, kind):
        ours = outputs(model, values, **{**ON_THE_NPU, "log_level": "error", **options})
        assert_same(ours, outputs(model, values))


CASES = [
    ((1, 8, 6, 32), 8), ((2, 5, 10, 48), 3), ((1, 33, 32, 24), 3), ((1, 4, 4, 128), 2),
    ((1, 12, 10, 96), 1), ((3, 2, 2, 40), 20), ((1, 6, 9, 33), 33), ((1, 40, 30, 64), 2),
    ((1, 9, 8, 16), 2),
]  # fmt: skip
"""Groups of parts of a surface, of one, of several and of one channel; odd maps, and images."""


OF_TYPES = [(*case, DType.INT8) for case in CASES]
OF_TYPES += [(*case, DType.UINT8) for case in CASES if case[1] in (8, 2)]
"""A few of uint8, which is int8 with another zero point."""


@pytest.mark.parametrize(("shape", "groups", "kind"), OF_TYPES, ids=str)
def test_group_normalisation_is_one_partition(shape, groups: int, kind: DType) -> None:
    model = Grouped(shape, groups, kind).model()
    result = compiled(model)
    assert not result.rejections
    assert len(result.partitions) == 1
    assert_equal(model, shape, kind)


@pytest.mark.parametrize("denied", ["2", "3", "MAXIMUM", "SUB", "TANH", "RESHAPE", "1", "9", "10"])
def test_all_of_it_runs_on_the_npu_or_none(denied: str) -> None:
    """Maps have the model's bytes at any edge; means, which are more, are at none."""
    shape = (1, 8, 6, 32)
    given = Grouped(shape, 8)
    model = given.model(given.result, given.mixed)
    result = compiled(model, deny_ops=denied)
    inner = {t.index for t in result.graph.tensors if t.is_inner}
    assert inner
    for one in result.partitions:
        assert inner.isdisjoint((*one.partition.inputs, *one.partition.outputs))
    for values in drawn(shape, DType.INT8):
        ours = outputs(model, values, **{**ON_THE_NPU, "deny_ops": denied}, log_level="error")
        assert_same(ours, outputs(model, values))


@pytest.mark.parametrize("name", ["mean", "curve"])
def test_means_that_the_host_has_are_left_to_the_runtime(name: str, caplog) -> None:
    """A running interpreter does not say which tensors are its outputs."""
    shape = (1, 8, 6, 32)
    given = Grouped(shape, 8)
    model = given.model(given.result, getattr(given, name))
    assert_equal(model, shape, DType.INT8, log_level="debug")
    assert "said_together" in caplog.text
    assert "partition_compiles" not in caplog.text


def test_another_batch_is_compiled_anew() -> None:
    model = Grouped((2, 8, 6, 32), 8).model()
    for images in (1, 3):
        assert_equal(model, (images, 8, 6, 32), DType.INT8)


def test_compiled_ahead_of_time_it_is_one_node() -> None:
    model = Grouped((1, 8, 6, 32), 8).model()
    content = compile_ahead_of_time(model, Options(numerics="exact", deny_ops=())).content
    assert [node.op for node in read_graph(content).nodes] == ["CUSTOM:rk3588-npu"]
    for values in drawn((1, 8, 6, 32), DType.INT8):
        (ours,) = outputs(content, values, **ON_THE_NPU, log_level="error")
        np.testing.assert_array_equal(ours, outputs(model, values)[0])


@pytest.mark.parametrize(
    ("shape", "groups", "axes"),
    [
        (
            (1, 8, 6, 60),
            3,
            AXES,
        ),  # 20 channels: groups begin inside of a surface, and end in others
        ((1, 7, 11, 32), 8, (1, 4)),
        ((1, 7, 13, 32), 8, (1, 2, 3)),
        ((1, 53, 59, 32), 8, AXES),  # no strips of up to 127 pixels
    ],
)
def test_other_groups_are_left_as_they_are(shape, groups: int, axes: tuple[int, ...]) -> None:
    builder = Net("others")
    x = builder.input("x", shape, DType.INT8, GIVEN)
    wide = reshaped(builder, x, (*shape[:3], groups, shape[3] // groups))
    mean = builder.reduced("MEAN", wide, MEANS, keep_dims=True, axes=axes)
    model = builder.build(builder.function("SUB", (wide, mean), GIVEN, SubOptions()))
    graph = as_computed(read_graph(model), Options())
    assert not any(tensor.is_inner for tensor in graph.tensors)
    assert_equal(model, shape, DType.INT8)


def test_shares_within_groups_stay() -> None:
    """SOFTMAX gives what it reads the same shape, and yet an element follows from others."""
    given = Grouped((1, 8, 6, 32), 8)
    shares = given.builder.function("SOFTMAX", (given.mixed,), SHARES, softmax(1.0))
    maps = reshaped(given.builder, shares, (1, 8, 6, 32))
    graph = as_computed(read_graph(given.model(given.result, maps)), Options())
    assert not any(tensor.is_inner for tensor in graph.tensors)
