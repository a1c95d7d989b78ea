"""Weights stored in another form: computed once, in their readers' partition, then gone."""

import numpy as np
import pytest

from delegate.compile.aot.rewrite import compile_ahead_of_time
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType
from delegate.model.tflite_reader import read_graph
from delegate.ops.conv_2d import ConvOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.options import BuiltinOptions
from tests.inferences import outputs

IMAGE = (1, 5, 6, 8)
KERNEL = (8, 1, 1, 8)
CAST_OPTIONS = BuiltinOptions(37, {})


def stored_otherwise(builder: Net, rng: np.random.Generator, name: str) -> int:
    """float32 weights of ``KERNEL`` behind a random chain from a float16 constant."""
    values = rng.integers(-8, 9, (8, 8)).astype(np.float16) / 8
    found = builder.constant(f"half {name}", values)
    op, options = (("DEQUANTIZE", None), ("CAST", CAST_OPTIONS))[int(rng.integers(2))]
    chain = [(op, values.shape, None, options), ("RESHAPE", KERNEL, KERNEL, None)]
    if rng.integers(2):
        chain.insert(1, ("TRANSPOSE", (8, 8), (1, 0), None))
    for number, (op, shape, numbers, options) in enumerate(chain):
        result = builder.tensor(f"{name} {number}", shape, DType.FLOAT32)
        given = () if numbers is None else (np.array(numbers, np.int32),)
        more = tuple(builder.constant(f"{op} of {name} {number}", one) for one in given)
        builder.operator(op, (found, *more), (result,), options)
        found = result
    return found


def convolution(builder: Net, x: int, weights: int, name: str) -> int:
    bias = builder.constant(f"bias {name}", np.zeros(8, np.float32))
    y = builder.tensor(name, IMAGE, DType.FLOAT32, shape_signature=(-1, *IMAGE[1:]))
    builder.operator("CONV_2D", (x, weights, bias), (y,), ConvOptions())
    return y


def model(seed: int, *, is_cut: bool = False, is_shared: bool = False) -> bytes:
    """Two convolutions; ``is_cut``: the CPU keeps a TANH between them."""
    rng = np.random.default_rng(seed)
    builder = Net("stored otherwise")
    x = builder.input("x", IMAGE, DType.FLOAT32, shape_signature=(-1, *IMAGE[1:]))
    first = stored_otherwise(builder, rng, "first")
    second = first if is_shared else stored_otherwise(builder, rng, "second")
    y = convolution(builder, x, first, "y")
    if is_cut:
        z = builder.tensor("z", IMAGE, DType.FLOAT32, shape_signature=(-1, *IMAGE[1:]))
        builder.operator("TANH", (y,), (z,))
        y = z
    return builder.build(convolution(builder, y, second, "end"))


OPTIONS = {"float": "fp16", "device": "simulator", "deny_ops": "TANH"}


def run(content: bytes, batch: int, **options: str) -> np.ndarray:
    rng = np.random.default_rng(batch)
    image = rng.integers(-8, 9, (batch, *IMAGE[1:])).astype(np.float32) / 8
    (made,) = outputs(content, image, **options)
    return made


def test_they_belong_to_the_partition_and_are_gone_from_compiled_models() -> None:
    for seed in range(12):
        content = model(seed)
        result = compile_model(content, Options.from_mapping(OPTIONS, {}))
        assert not result.rejections
        assert [len(one.partition.nodes) for one in result.partitions] == [2]
        ours = run(content, 1, **OPTIONS, log_level="error")
        np.testing.assert_allclose(ours, run(content, 1), atol=0.02)
        compiled = compile_ahead_of_time(content, Options.from_mapping(OPTIONS, {})).content
        graph = read_graph(compiled)
        assert [node.op for node in graph.nodes] == ["CUSTOM:rk3588-npu"]
        assert all(tensor.constant is None for tensor in graph.tensors)
        np.testing.assert_array_equal(run(compiled, 1, **OPTIONS, log_level="error"), ours)


@pytest.mark.parametrize("is_shared", [False, True])
def test_those_of_several_partitions_work_and_leave_nothing_behind(is_shared, tmp_path, caplog):
    """The runtime computes, once, what a later partition reads: for it that is ready at once."""
    content = model(3, is_cut=True, is_shared=is_shared)
    result = compile_model(content, Options.from_mapping(OPTIONS, {}))
    assert len(result.partitions) == 2
    assert {r.op for r in result.rejections} <= {"TANH", "DEQUANTIZE", "CAST", "RESHAPE",
                                                 "TRANSPOSE"}  # fmt: skip
    compiled = compile_ahead_of_time(content, Options.from_mapping(OPTIONS, {})).content
    kept = [node.op for node in read_graph(compiled).nodes]
    assert kept == ["CUSTOM:rk3588-npu", "TANH", "CUSTOM:rk3588-npu"]
    (tmp_path / "cache").mkdir(mode=0o700)
    options = OPTIONS | {"cache_dir": str(tmp_path / "cache"), "log_level": "info"}
    for batch in (1, 1, 3):  # compiled, cached, compiled again
        ours = run(content, batch, **options)
        np.testing.assert_allclose(ours, run(content, batch), atol=0.02)
    assert "is not used" not in caplog.text
    assert "run on the CPU" not in caplog.text
    assert len(list((tmp_path / "cache").glob("*.rkc"))) == 1


def test_values_that_the_other_type_does_not_hold_are_left_to_the_runtime() -> None:
    """A CAST to an integer rounds as the runtime's processor does."""
    for value, kind, is_known in ((1.5, DType.INT32, False), (2.0, DType.INT32, True),
                                  (3e9, DType.INT32, False), (np.nan, DType.INT32, False),
                                  (300.0, DType.UINT8, False), (2.5, DType.FLOAT16, True),
                                  (0.1, DType.FLOAT16, False)):  # fmt: skip
        builder = Net("cast")
        builder.input("x", IMAGE, DType.FLOAT32)
        source = builder.constant("c", np.array([value], np.float32))
        result = builder.tensor("r", (1,), kind)
        builder.operator("CAST", (source,), (result,), CAST_OPTIONS)
        builder.output(result)
        options = Options.from_mapping(OPTIONS, {})
        made = compile_model(builder.build(), options)
        assert (result in made.graph.folded) == is_known, (value, kind)
