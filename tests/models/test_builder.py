"""In-memory models load in an interpreter, mean what was asked for, and use their output range."""

from collections.abc import Callable

import numpy as np
import pytest

from delegate.model.graph import Activation, DType, Padding
from rk3588_conformance.builder import (
    Arithmetic,
    Net,
    add_model,
    conv_model,
    depthwise_model,
    fully_connected_model,
)
from tests.loops import for_each
from tests.models.blocks import conv_conv_add_model

interpreter = pytest.importorskip("tflite_runtime.interpreter")

ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)


def run(model: bytes, seed: int = 0) -> np.ndarray:
    """The first output of the reference kernels for a random input."""
    runner = interpreter.Interpreter(
        model_content=model, experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF
    )
    runner.allocate_tensors()
    rng = np.random.default_rng(seed)
    for detail in runner.get_input_details():
        limits = np.iinfo(detail["dtype"])
        values = rng.integers(limits.min, limits.max + 1, detail["shape"], dtype=detail["dtype"])
        runner.set_tensor(detail["index"], values)
    runner.invoke()
    return runner.get_tensor(runner.get_output_details()[0]["index"])


def build(op: str, dtype: DType, arithmetic: Arithmetic) -> bytes:
    rng = np.random.default_rng(7)
    builders: dict[str, Callable[[], bytes]] = {
        "conv": lambda: conv_model(
            rng, 17, 13, 19, 37, 3, 5, 2, 1, dtype=dtype, arithmetic=arithmetic
        ),
        "depthwise": lambda: depthwise_model(
            rng, 17, 13, 19, 3, 5, 1, 1, padding=Padding.VALID, dtype=dtype, arithmetic=arithmetic
        ),
        "fully_connected": lambda: fully_connected_model(
            rng, (7, 129), 67, dtype, arithmetic=arithmetic
        ),
        "add": lambda: add_model(rng, (1, 17, 5, 11), dtype, activation=arithmetic.activation),
        "conv_conv_add": lambda: conv_conv_add_model(
            rng, 9, 7, 19, 35, 3, 3, dtype=dtype, arithmetic=arithmetic
        ),
    }
    return builders[op]()


@for_each("activation", ACTIVATIONS)
@for_each("dtype, per_channel", [(DType.INT8, False), (DType.INT8, True), (DType.UINT8, False)])
@pytest.mark.parametrize("op", ["conv", "depthwise", "fully_connected", "add", "conv_conv_add"])
def test_outputs_spread_over_the_range(
    op: str, dtype: DType, per_channel: bool, activation: Activation
) -> None:
    arithmetic = Arithmetic(activation=activation, per_channel=per_channel)
    y = run(build(op, dtype, arithmetic))
    limits = np.iinfo(y.dtype)
    saturated = np.mean((y == limits.min) | (y == limits.max))
    assert len(np.unique(y)) >= 60
    assert saturated < 0.95
    assert y.std() > 15
    if activation is Activation.NONE:
        assert saturated < 0.2


def test_same_generator_gives_same_bytes() -> None:
    models = [build("conv_conv_add", DType.INT8, Arithmetic(per_channel=True)) for _ in range(2)]
    assert models[0] == models[1]


def test_conv_output_equals_a_direct_sum() -> None:
    """1x1 convolution by NumPy: the builder's scales and bias reach the file as derived."""
    model = conv_model(
        np.random.default_rng(3),
        3,
        5,
        7,
        4,
        1,
        1,
        input_scale=0.5,
        input_zero_point=-3,
        arithmetic=Arithmetic(weight_scales=(0.25,), output_scale=64.0, output_zero_point=11),
    )
    runner = interpreter.Interpreter(model_content=model)
    runner.allocate_tensors()
    details = {d["name"]: d for d in runner.get_tensor_details()}
    weights = runner.get_tensor(details["conv/weights"]["index"]).astype(np.int64)
    bias = runner.get_tensor(details["conv/bias"]["index"]).astype(np.int64)
    x = np.random.default_rng(0).integers(-128, 128, (1, 3, 5, 7), dtype=np.int8)
    acc = (x.astype(np.int64) + 3) @ weights[:, 0, 0, :].T + bias
    # The factor is a power of two, so the product is exact; TFLite rounds twice, which shows only
    # within 1/512 of a tie.
    exact = acc * (0.5 * 0.25 / 64.0) + 11
    want = np.clip(np.round(exact), -128, 127)
    is_clear = np.abs(exact % 1 - 0.5) > 1 / 512
    assert is_clear.mean() > 0.9
    assert np.array_equal(run(model).astype(np.int64)[is_clear], want[is_clear])


def test_custom_operator_and_second_subgraph_keep_the_file_loadable() -> None:
    b = Net("custom")
    x = b.input("x", (1, 4), DType.FLOAT32)
    y = b.tensor("y", (1, 4), DType.FLOAT32)
    b.operator("CUSTOM:Nothing_Known", (x,), (y,), custom_options=b"\x01\x02")
    b.output(y)
    b.subgraph("second")
    z = b.input("z", (2,), DType.INT8)
    b.output(z)
    b.metadata("note", b"text")
    b.signature("serving_default", {"x": x}, {"y": y})
    runner = interpreter.Interpreter(model_content=b.build())
    assert runner.get_input_details()[0]["name"] == "x"
    assert runner._get_ops_details()[0]["op_name"] == "Nothing_Known"


def test_kernel_larger_than_input_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves no output"):
        conv_model(np.random.default_rng(0), 2, 2, 1, 1, 3, 3, padding=Padding.VALID)
