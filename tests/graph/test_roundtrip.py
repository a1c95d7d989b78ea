"""Property: whatever the model builder is told, the reader tells back."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.model.tflite_operators import BUILTIN_OPERATORS
from delegate.model.tflite_reader import read_graph
from delegate.ops.conv_2d import ConvOptions
from rk3588_conformance.builder import Net

INT32S = st.integers(-(2**31), 2**31 - 1)
SHAPES = st.lists(st.integers(0, 5), max_size=5).map(tuple)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@st.composite
def quantizations(draw: st.DrawFn, shape: tuple[int, ...]) -> Quantization | None:
    """None, per tensor, or per channel along any axis of ``shape`` with two or more entries."""
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return None
    axis = draw(st.sampled_from(axes)) if kind == 2 and axes else 0
    count = shape[axis] if kind == 2 and axes else 1
    scales = draw(st.lists(st.floats(width=32), min_size=count, max_size=count))
    zero_points = draw(st.lists(INT32S, min_size=count, max_size=count))
    return Quantization(tuple(scales), tuple(zero_points), axis)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_tensors_come_back(data: st.DataObject) -> None:
    b = Net()
    expected = []
    for _ in range(data.draw(st.integers(0, 4))):
        name, shape = data.draw(NAMES), data.draw(SHAPES)
        dtype = data.draw(st.sampled_from(sorted(NUMPY_TYPES, key=lambda d: d.value)))
        quantization = data.draw(quantizations(shape))
        values = None
        if data.draw(st.booleans()) and 0 not in shape:
            raw = data.draw(st.binary(min_size=16, max_size=16))
            kind = NUMPY_TYPES[dtype]
            size = int(np.prod(shape)) * kind.itemsize
            values = np.frombuffer((raw * (size // 16 + 1))[:size], kind).reshape(shape)
            is_external = data.draw(st.booleans())
            b.constant(name, values, quantization, dtype=dtype, is_external=is_external)
        else:
            b.tensor(name, shape, dtype, quantization)
        expected.append((name, shape, dtype, quantization, values))
    graph = read_graph(b.build())
    assert len(graph.tensors) == len(expected)
    for tensor, (name, shape, dtype, quantization, values) in zip(
        graph.tensors, expected, strict=True
    ):
        assert (tensor.name, tensor.shape, tensor.dtype) == (name, shape, dtype)
        assert repr(tensor.quantization) == repr(quantization)  # NaN equals itself here
        assert (tensor.constant is None) == (values is None)
        if values is not None and tensor.constant is not None:
            assert tensor.constant.tobytes() == values.tobytes()
            assert tensor.constant.shape == shape


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.integers(0, len(BUILTIN_OPERATORS) + 20).filter(lambda code: code != 32),
                NAMES.filter(bool).map(lambda name: f"CUSTOM:{name}"),
            ),
            st.lists(st.integers(-1, 3), max_size=4),
            st.lists(st.integers(0, 3), max_size=3),
            st.integers(1, 20),
        ),
        max_size=8,
    )
)
def test_operators_come_back(nodes: list[tuple[int | str, list[int], list[int], int]]) -> None:
    b = Net()
    for name in "abcd":
        b.tensor(name, (1,), DType.INT8)
    for op, inputs, outputs, version in nodes:
        b.operator(op, inputs, outputs, version=version)
    graph = read_graph(b.build())
    assert len(graph.nodes) == len(nodes)
    for node, (op, inputs, outputs, version) in zip(graph.nodes, nodes, strict=True):
        if isinstance(op, int):
            known = op < len(BUILTIN_OPERATORS)
            assert node.op == (BUILTIN_OPERATORS[op] if known else f"UNKNOWN_{op}")
        else:
            assert node.op == op
        assert (node.inputs, node.outputs) == (tuple(inputs), tuple(outputs))
        assert node.version == version


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(Padding),
    st.sampled_from([a for a in Activation if a is not Activation.SIGMOID]),
    INT32S,
    INT32S,
    INT32S,
    INT32S,
)
def test_convolution_options_come_back(
    padding: Padding, activation: Activation, sh: int, sw: int, dh: int, dw: int
) -> None:
    b = Net()
    b.operator("CONV_2D", (), (), ConvOptions(padding, sh, sw, dh, dw, activation))
    (node,) = read_graph(b.build()).nodes
    assert node.options_as(ConvOptions) == ConvOptions(padding, sh, sw, dh, dw, activation)
