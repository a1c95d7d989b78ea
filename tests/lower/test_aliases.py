"""Concatenations and slices by address: bit for bit what TensorFlow Lite's copies give.

The oracle is the same model with these operators denied: the runtime copies, and every other
operator is the same. So any difference is a tensor in the wrong place, or one that was destroyed
by the padding of a neighbour.
"""

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.lower import group_padding
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.ops.conv_2d import ConvOptions
from delegate.options import Options
from delegate.partition.aliases import place_aliases
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.random_layers import Numbers
from tests.inferences import assert_same, interpreter_of, invoke, outputs
from tests.lower.reference import random_inputs, whole_graph

VIEW_OPS = [name for name, op in OPERATORS.items() if op.movement is not None]


SAME = Quantization((0.05,), (3,))
NUMBERS = Numbers(output=SAME)
CONV = ConvOptions(Padding.VALID, 1, 1, 1, 1, Activation.NONE)
POINT = Window(kh=1, kw=1, sh=1, sw=1)
SQUARE = Window(kh=3, kw=3, sh=1, sw=1)


class Views(Net):
    """A model whose layers all give the quantisation SAME, so that everything may be joined."""

    def __init__(self, h=5, w=7, c=19, *, dtype=DType.INT8, images=1, seed=0):
        super().__init__("views", np.random.default_rng(seed))
        self.dtype, self.size = dtype, (images, h, w, c)

    def map(self, c=None):
        return self.input("map", (*self.size[:3], c or self.size[3]), self.dtype, SAME)

    def conv(self, x, channels, window=POINT, numbers=NUMBERS, **how):
        return super().conv(x, channels, window, numbers, **how)

    def depthwise(self, x, window=SQUARE, numbers=NUMBERS):
        return super().depthwise(x, window, numbers)

    def add(self, a, b):
        return super().add(a, b, output_scale=SAME.scale, output_zero_point=SAME.zero_point)

    def join(self, *parts, axis=3):
        return self.concatenation(parts, axis)

    def split(self, x, count=2, axis=3):
        return super().split(x, count, axis)

    def channels(self, x, begin, count, *, strided=True):
        box = (0, 0, 0, begin), (*self.spec(x).shape[:3], count)
        return self.slice_of(x, *box, strided=strided)


def run(model, arrays, deny_ops=""):
    interpreter = interpreter_of(model, device="simulator", log_level="error", deny_ops=deny_ops)
    invoke(interpreter, *arrays)  # what a run leaves behind must not matter
    return invoke(interpreter, *arrays)


def check(model, *, refused=()):
    """Equal outputs; all view nodes delegated but the ``refused`` ones, given as (node, rule)."""
    graph = read_graph(model)
    arrays = random_inputs(graph, graph.inputs, np.random.default_rng(7))
    result = compile_model(graph, Options(numerics="exact"))
    found = [(r.node, r.rule) for r in result.rejections if r.op in VIEW_OPS]
    assert found == list(refused)
    ours = run(model, arrays)
    theirs = run(model, arrays, ",".join(VIEW_OPS))
    assert_same(ours, theirs)
    return result


TYPES = (DType.INT8, DType.UINT8)


def test_lanes_behind_a_slice_are_written(monkeypatch):
    """Depthwise, 40 channels are read as 64: here beyond the end of the tensor that was cut, whose
    writer has one task more. Without it the check of memory refuses the reader.
    """
    net = Views()
    part = net.channels(net.conv(net.map(), 64), 16, 40)
    model = net.build(net.depthwise(part))
    result = check(model)
    assert [len(layer.tasks) for p in result.partitions for layer in p.layers] == [2, 1]
    monkeypatch.setattr(group_padding, "_wanted", lambda *_: {})
    refused = compile_model(read_graph(model), Options(numerics="exact")).rejections
    assert "tasks_keep_memory" in {rejection.rule for rejection in refused}


def test_tensors_from_the_cpu_are_joined_and_cut_while_they_are_converted():
    net = Views()
    joined = net.join(net.map(16), net.map(21))
    cut = net.map(48)
    first = net.channels(cut, 0, 16)
    rest = net.channels(cut, 16, 32)
    check(net.build(net.conv(joined, 8), net.conv(first, 4), net.depthwise(rest)))


def test_padding_never_destroys_what_the_host_wrote():
    """16 channels are written as 32: the result goes through scratch."""
    net = Views()
    x = net.map(16)
    result = check(net.build(net.conv(net.join(net.conv(x, 16), x), 8)))
    assert [len(layer.tasks) for p in result.partitions for layer in p.layers] == [2, 1]
    net = Views()
    x = net.map(32)
    check(net.build(net.conv(net.join(net.conv(x, 32), x), 8)))


def test_a_slice_that_needs_little_of_a_tensor_from_the_cpu_stays_there():
    net = Views()
    part = net.channels(net.map(64), 16, 16)
    check(net.build(net.conv(part, 8)), refused=[(0, "alias_is_free")])


def test_places_that_are_little_of_a_tensor_from_the_cpu_stay_there():
    """As of a slice, where they are a part without a copy."""
    net = Views(9, 5, 16)
    row = net.gather(net.map(), 4, 1)
    part = net.reshape(row, (1, 1, 5, 16))
    check(net.build(net.conv(part, 8)), refused=[(0, "alias_is_free")])


def test_padding_never_destroys_what_is_there_already():
    """16 channels are written as 32, over what follows in memory if that was written later."""
    net = Views()
    x = net.map()
    later = net.conv(x, 16)
    sooner = net.conv(x, 16)
    model = net.build(net.conv(net.join(sooner, later), 8))
    result = check(model)
    assert [len(layer.tasks) for p in result.partitions for layer in p.layers] == [1, 2, 1]
    net = Views()
    x = net.map()
    result = check(net.build(net.conv(net.join(net.conv(x, 16), net.conv(x, 16)), 8)))
    assert [len(layer.tasks) for p in result.partitions for layer in p.layers] == [1, 1, 1]


def test_more_tensors_than_a_piece_of_memory_may_hold():
    """A file may ask for anything; it must not take minutes."""
    net = Views(h=1, w=1)
    x = net.map(16)
    slices = [net.channels(x, 0, 16) for _ in range(600)]
    graph = read_graph(net.build(net.conv(slices[0], 8)))
    plan = place_aliases(graph, whole_graph(graph))
    assert len(plan.places) == 256
    assert len(plan.aliases) == 255


def test_a_partition_of_views_alone_stays_on_the_cpu():
    net = Views()
    joined = net.join(net.map(16), net.map(21))
    check(net.build(joined), refused=[(0, "alias_is_free")])


def test_positions_share_one_origin():
    net = Views()
    x = net.conv(net.map(), 64)
    inner = net.channels(x, 32, 32)
    model = net.build(net.conv(inner, 8), net.join(net.channels(inner, 16, 16), net.conv(x, 3)))
    graph = read_graph(model)
    places = place_aliases(graph, whole_graph(graph)).places
    assert sorted((p.channel, graph.tensor(t).shape[3]) for t, p in places.items()) == [
        (0, 64),
        (32, 32),
        (48, 16),
        (48, 19),
        (64, 3),
    ]
    check(model)


@pytest.mark.parametrize("channels", [8, 16, 24, 40])
def test_results_in_fp16_go_through_scratch_too(channels):
    """A part that is made of the one behind it: bit for bit what a copy by the CPU gives."""
    rng = np.random.default_rng(channels)
    builder = Views("halves")
    shape = (1, 5, 7, channels)
    x = builder.input("x", shape, DType.FLOAT32)

    def convolved(source, inputs, outputs, name):
        weights = rng.normal(size=(outputs, 1, 1, inputs)).astype(np.float16).astype(np.float32)
        operands = (
            *(source, builder.constant(f"w {name}", weights)),
            builder.constant(f"b {name}", np.zeros(outputs, np.float32)),
        )
        return builder.result("CONV_2D", operands, name, (*shape[:3], outputs), options=CONV)

    first = convolved(x, channels, channels, "first")
    second = convolved(first, channels, channels, "second")
    joined = builder.concatenation((second, first), 3)
    model = builder.build(convolved(joined, 2 * channels, 8, "last"))
    values = rng.normal(size=shape).astype(np.float32)
    results = []
    for denied in ("", "CONCATENATION"):
        options = Options.from_mapping({"float": "fp16", "deny_ops": denied}, {})
        result = compile_model(read_graph(model), options)
        assert [r.op for r in result.rejections] == ([denied] if denied else [])
        if not denied:  # groups of 16 channels are written
            tasks = [len(layer.tasks) for p in result.partitions for layer in p.layers]
            assert (tasks[1] > 1) == (channels % 16 > 0)
        given = {"device": "simulator", "float": "fp16", "deny_ops": denied}
        results += outputs(model, values, **given)
    np.testing.assert_array_equal(*results)
