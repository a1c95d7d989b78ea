"""Dilated convolutions stored as SPACE_TO_BATCH_ND, convolution, BATCH_TO_SPACE_ND."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.cli import main
from delegate.compile.aot.rewrite import compile_ahead_of_time
from delegate.compile.cache import has_own_shapes, running_part
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.shared.dilations import with_dilations
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.conv_grid import dilated, moved
from rk3588_conformance.random_layers import Numbers
from tests.inferences import assert_same, drawn_int8, interpreter_of, invoke, outputs

SCALE = Quantization((0.05,), (3,))
SIZE = (1, 9, 12, 24)


def image_model(
    seed: int = 0, *, is_depthwise: bool = False, blocks: tuple[int, int] = (2, 2)
) -> bytes:
    """Between two functions, so that nothing of it is at an edge; the batch is dynamic."""
    builder = Net("dilated", np.random.default_rng(seed))
    x = builder.input("x", SIZE, DType.INT8, SCALE, shape_signature=(-1, *SIZE[1:]))
    y = builder.function("RELU", (x,), SCALE)
    z = dilated(builder, y, (3, 3), blocks, Numbers(), is_depthwise=is_depthwise, is_same=True)
    return builder.build(builder.function("RELU", (z,), builder.spec(z).quantization))


def line_model(
    images: int = 1, pads: tuple[int, int] = (0, 0), crops: int = 0, *, is_depthwise: bool = False
) -> bytes:
    """Keras' Conv1D with dilation_rate, 24 steps; Keras itself pads elsewhere."""
    builder = Net("line", np.random.default_rng(1))
    x = builder.input("x", (images, 24, 16), DType.INT8, SCALE)
    wide, b = (24 + sum(pads)) // 4, 4 * images
    split = moved(builder, "SPACE_TO_BATCH_ND", x, (b, wide, 16), (4,), (pads,))
    image = moved(builder, "EXPAND_DIMS", split, (b, 1, wide, 16), -3)
    layer = Window(1, 3, padding=Padding.VALID)
    made = builder.depthwise(image, layer) if is_depthwise else builder.conv(image, 8, layer)
    *_, after, outputs = builder.spec(made).shape
    flat = moved(builder, "RESHAPE", made, (b, after, outputs), (-1, after, outputs))
    shape = (images, 4 * after - crops, outputs)
    return builder.build(moved(builder, "BATCH_TO_SPACE_ND", flat, shape, (4,), ((0, crops),)))


def run(
    content: bytes, batch: int = 1, image: np.ndarray | None = None, **options: str
) -> np.ndarray:
    interpreter = interpreter_of(content, **options)
    if image is None:
        (given,) = interpreter.get_input_details()
        image = drawn_int8((batch, *given["shape"][1:]), batch)
    return invoke(interpreter, image)[0]


OURS = {"device": "simulator", "numerics": "exact", "log_level": "info", "deny_ops": "NONE"}


@pytest.mark.parametrize("numerics", ["auto", "exact"])
@pytest.mark.parametrize("is_depthwise", [False, True])
def test_all_of_it_runs_in_one_partition_at_every_batch(numerics, is_depthwise, caplog) -> None:
    content = image_model(is_depthwise=is_depthwise)
    for batch in (1, 3):
        ours = run(content, batch, **OURS | {"numerics": numerics})
        assert np.abs(ours.astype(int) - run(content, batch)).max() <= (numerics == "auto")
        assert "5 of 5 nodes delegated in 1 partition" in caplog.text
        assert "run on the CPU" not in caplog.text
        caplog.clear()


@pytest.mark.parametrize("numerics", ["auto", "exact"])
def test_a_depthwise_dilation_of_many_taps_is_dense(numerics: str) -> None:
    """With zeros between its taps it would have 81; all channels but its own count as zero."""
    content = image_model(is_depthwise=True, blocks=(4, 4))
    ours = run(content, **OURS | {"numerics": numerics, "deny_ops": "NONE"})
    assert np.abs(ours.astype(int) - run(content)).max() <= (numerics == "auto")
    result = compile_model(content, Options.from_mapping(OURS | {"deny_ops": ""}, {}))
    assert not result.rejections


def gates_model(images: int, pads: tuple[int, int], taps: tuple[int, int] = (2, 2)) -> bytes:
    """Two dilated convolutions of the same blocks, as WaveNet has them."""
    builder = Net("gates", np.random.default_rng(3))
    x = builder.input("x", (images, 24, 16), DType.INT8, SCALE)
    wide, b = (24 + sum(pads)) // 4, 4 * images
    split = moved(builder, "SPACE_TO_BATCH_ND", x, (b, wide, 16), (4,), (pads,))
    image = moved(builder, "EXPAND_DIMS", split, (b, 1, wide, 16), -3)
    for number, width in enumerate(taps):
        made = builder.conv(image, 8 + number, Window(1, width, padding=Padding.VALID))
        *_, after, outputs = builder.spec(made).shape
        flat = moved(builder, "RESHAPE", made, (b, after, outputs), (-1, after, outputs))
        shape = (images, 4 * after, outputs)
        builder.output(moved(builder, "BATCH_TO_SPACE_ND", flat, shape, (4,), ((0, 0),)))
    return builder.build()


@pytest.mark.parametrize(("images", "pads"), [(1, (4, 0)), (2, (0, 0)), (1, (8, 4))])
@pytest.mark.parametrize("taps", [(2, 2), (2, 3)])
def test_two_convolutions_read_the_same_blocks(
    images: int, pads: tuple[int, int], taps: tuple[int, int]
) -> None:
    """All of it runs, also where one has more taps than the other."""
    content = gates_model(images, pads, taps)
    result = compile_model(content, Options.from_mapping(OURS | {"deny_ops": ""}, {}))
    assert not result.rejections
    (group,) = with_dilations(read_graph(content)).together
    assert len(group) == 8
    given = np.random.default_rng(4).integers(-128, 128, (images, 24, 16)).astype(np.int8)
    ours, theirs = (invoke(interpreter_of(content, **options), given) for options in (OURS, {}))
    assert_same(ours, theirs)


@pytest.mark.parametrize("is_depthwise", [False, True])
@pytest.mark.parametrize(
    ("images", "pads", "crops"),
    [(1, (0, 0), 0), (2, (0, 0), 0), (1, (8, 0), 0), (2, (3, 5), 0), (1, (6, 6), 3)],
)
def test_a_line_is_an_image(images: int, pads: tuple[int, int], crops: int, is_depthwise) -> None:
    """Whole blocks are its rows; else it is one row, and zeros lie between taps."""
    content = line_model(images, pads, crops, is_depthwise=is_depthwise)
    result = compile_model(content, Options.from_mapping(OURS | {"deny_ops": ""}, {}))
    assert not result.rejections
    image = np.random.default_rng(2).integers(-128, 128, (images, 24, 16)).astype(np.int8)
    ours, theirs = run(content, image=image, **OURS), run(content, image=image)
    np.testing.assert_array_equal(ours, theirs)


def test_a_long_dilation_of_a_line_has_no_more_taps() -> None:
    graph = with_dilations(read_graph(line_model()))
    (weights,) = (graph.tensor(n.inputs[1]).shape for n in graph.nodes if n.op == "CONV_2D")
    assert weights == (8, 3, 1, 16)


@pytest.mark.parametrize("changes", [{"inputs": ()}, {"inputs": (-1, 1, 2)}, {"outputs": ()}])
@pytest.mark.parametrize("op", ["SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"])
def test_a_damaged_node_is_none_of_a_dilation(op: str, changes: dict) -> None:
    graph = read_graph(other_model())
    nodes = tuple(replace(n, **changes) if n.op == op else n for n in graph.nodes)
    assert not with_dilations(replace(graph, nodes=nodes)).together


def test_compiled_ahead_of_time_it_is_one_operator() -> None:
    compiled = compile_ahead_of_time(image_model(), Options.from_mapping(OURS, {})).content
    assert [node.op for node in read_graph(compiled).nodes] == ["CUSTOM:rk3588-npu"]
    np.testing.assert_array_equal(run(compiled, **OURS), run(image_model()))


def test_it_has_the_shapes_of_its_model() -> None:
    """A program that has others is left, and compiled again whenever the model is loaded."""
    graph = read_graph(image_model())
    made = running_part(graph, compile_model(graph, Options.from_mapping(OURS, {})))
    assert [one.has_own_shapes for one in made.partitions] == [True]
    wrong = replace(graph.tensor(graph.outputs[0]), shape=(1, 9, 13, 24))
    tensors = tuple(wrong if one.index == wrong.index else one for one in graph.tensors)
    assert not has_own_shapes(replace(graph, tensors=tensors), made.partitions[0].partition)


def test_the_parts_are_compared_together(tmp_path, capsys) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(image_model())
    assert main(["compare", str(path), "--per-op", "-O", "numerics=exact"]) == 0
    assert "PAD + CONV_2D + RESHAPE" in capsys.readouterr().out


@pytest.mark.parametrize("denied", ["SPACE_TO_BATCH_ND", "CONV_2D", "2"])
def test_none_of_it_is_delegated_where_a_part_is_denied(denied: str) -> None:
    options = Options.from_mapping(OURS | {"deny_ops": denied}, {})
    result = compile_model(image_model(), options)
    delegated = {n for one in result.partitions for n in one.partition.delegated}
    left = {r.node: r.op for r in result.rejections}
    if denied == "SPACE_TO_BATCH_ND":  # the convolution of the batch is one by itself
        assert delegated == {0, 2, 4}
    else:
        assert delegated == {0, 4}
        assert [left[n] for n in (1, 2, 3)] == ["SPACE_TO_BATCH_ND", "CONV_2D", "BATCH_TO_SPACE_ND"]
        assert {r.rule for r in result.rejections} == {"not_denied", "said_together"}
    ours = run(image_model(), **OURS | {"deny_ops": denied})
    np.testing.assert_array_equal(ours, run(image_model()))


def other_model(
    crops: tuple[tuple[int, int], ...] = ((0, 0), (0, 0)),
    padding: Padding = Padding.VALID,
    *,
    is_read_twice: bool = False,
) -> bytes:
    """A chain of one kind that says no dilation; without changes, one that does."""
    builder = Net("other", np.random.default_rng(1))
    x = builder.input("x", (1, 8, 8, 16), DType.INT8, SCALE)
    y = builder.function("RELU", (x,), SCALE)
    split = moved(builder, "SPACE_TO_BATCH_ND", y, (4, 4, 4, 16), (2, 2), ((0, 0), (0, 0)))
    window = Window(3, 3, padding=padding)
    made = builder.conv(split, 8, window)
    _, rows, columns, _ = builder.spec(made).shape
    (top, bottom), (left, right) = crops
    shape = (1, 2 * rows - top - bottom, 2 * columns - left - right, 8)
    builder.output(moved(builder, "BATCH_TO_SPACE_ND", made, shape, (2, 2), crops))
    if is_read_twice:
        builder.output(split)
    return builder.build()


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        ({}, True),
        ({"crops": ((0, 1), (0, 0))}, False),  # of more than the border
        ({"padding": Padding.SAME}, False),  # each block has a border
        ({"is_read_twice": True}, False),
    ],
)
def test_only_what_says_a_dilation_becomes_one(changes: dict, is_one: bool) -> None:
    content = other_model(**changes)
    assert bool(with_dilations(read_graph(content)).together) == is_one
    x = drawn_int8((1, 8, 8, 16), 1)
    assert_same(outputs(content, x, **OURS), outputs(content, x))
