"""Pairs of rows as channels: the reference kernels' results, bit for bit."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from delegate.chip.chips import DEFAULT
from delegate.compile.compiler import CompileResult, compile_model
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.npu.perf import estimate_task
from delegate.ops.add import AddOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.random_layers import Numbers
from tests.loops import for_each
from tests.lower import fusion_graphs
from tests.lower import fusion_graphs as f

EAGER = replace(DEFAULT, rates=replace(DEFAULT.rates, kick_cycles=0))
"""A chip on which pairs need not save a launch: small maps have them, too."""
SQUARE = Window(3, 3)
BOTH = "pairs of rows of the source and result"
RESULT = "pairs of rows of the result"
SOURCE = "pairs of rows of the source as"


def layer(
    shape: tuple[int, int, int, int],
    kernels: int,
    window: Window,
    dtype: DType = DType.INT8,
    *,
    seed: int = 0,
    pads: tuple[int, int, int, int] | None = None,
    **numbers: object,
) -> bytes:
    """A convolution of another's result, whose spare lanes hold anything, perhaps behind PAD."""
    rng = np.random.default_rng([seed, kernels, *shape])
    b = Net("rows", rng)
    x = b.input("x", (*shape[:3], 24), dtype, f.SAME)
    x = b.conv(x, shape[3], Window(), Numbers(output=f.SAME), name="before")
    if pads is not None:
        x = b.pad(x, ((0, 0), pads[:2], pads[2:], (0, 0)), name="padded")
    return b.build(b.conv(x, kernels, window, Numbers(output=f.SAME, **numbers)))


is_exact = partial(fusion_graphs.is_exact, chip=EAGER)


def choices(result: CompileResult) -> list[str]:
    """Return why each layer is as it is."""
    return [layer.choice for part in result.partitions for layer in part.layers]


@for_each("dtype", [DType.INT8, DType.UINT8])
@for_each("kernels", [1, 8, 15, 16, 17, 24, 32, 33])
@for_each("inputs", [1, 7, 8, 15, 16, 17, 24, 32, 33])
def test_any_channels(inputs: int, kernels: int, dtype: DType) -> None:
    """Both sides of every limit; the zero point of uint8 weights is not 0."""
    height = 23 if (inputs, kernels) in ((16, 16), (17, 8)) else 22
    model = layer((1, height, 17, inputs), kernels, SQUARE, dtype, per_channel=dtype is DType.INT8)
    exact, result = is_exact(model)
    assert exact
    paired = BOTH if inputs <= 16 else RESULT
    is_paired = paired in choices(result)[-1]
    assert is_paired == (height % 2 == 0 and kernels <= 16)


CASES: tuple[tuple[tuple[int, int, int, int], int, Window, str], ...] = (
    ((1, 160, 160, 16), 16, SQUARE, BOTH),  # several tasks
    ((1, 10, 3001, 16), 16, SQUARE, BOTH),  # several columns
    ((1, 4, 4095, 16), 16, Window(3, 1), RESULT),  # as far as the skip between rows goes
    ((1, 4, 4096, 16), 16, Window(3, 1), ""),
    ((3, 12, 31, 16), 16, SQUARE, BOTH),  # images
    ((1, 30, 41, 16), 32, Window(5, 5, 2, 2), SOURCE),
    ((1, 30, 40, 16), 64, Window(3, 3, 2, 1), SOURCE),
    ((1, 30, 40, 40), 16, SQUARE, RESULT),
    ((1, 30, 40, 40), 16, Window(2, 1), RESULT),
    ((1, 31, 40, 16), 16, SQUARE, ""),  # an odd number of rows
    ((1, 32, 40, 16), 32, SQUARE, ""),  # as many steps as it saves
    ((1, 32, 40, 17), 32, Window(3, 3, 2, 2), ""),  # two surfaces
    ((1, 32, 40, 32), 17, SQUARE, ""),
)


@pytest.mark.parametrize(("shape", "kernels", "window", "text"), CASES, ids=str)
def test_where_they_fill_what_is_idle(
    shape: tuple[int, int, int, int], kernels: int, window: Window, text: str
) -> None:
    exact, result = is_exact(layer(shape, kernels, window, per_channel=True))
    choice = choices(result)[-1]
    assert exact
    assert text in choice
    assert ("pairs of rows" in choice) == bool(text)


@for_each("dtype", [DType.INT8, DType.UINT8])
@for_each("kernels", [1, 3, 8, 11, 16])
def test_before_a_stride_of_two(kernels: int, dtype: DType) -> None:
    """As YOLO begins: SiLU and PAD in between."""
    for seed, (height, channels) in enumerate(((20, 12), (32, 16), (21, 12), (20, 24))):
        rng = np.random.default_rng([seed, kernels])
        b = Net("two", rng)
        numbers = Numbers(output=f.SAME, per_channel=dtype is DType.INT8)
        x = b.conv(b.input("x", (1, height, 28, 40), dtype, f.SAME), channels, Window(), numbers)
        y = f.silu(b, b.conv(x, kernels, SQUARE, numbers, name="first"))
        padded = b.pad(y, ((0, 0), (1, 1), (1, 1), (0, 0)), name="padded")
        second = Window(3, 3, 2, 2, padding=Padding.VALID)
        b.output(b.conv(padded, 21, second, numbers, name="second"))
        exact, result = is_exact(b.build(), seed)
        assert exact
        assert SOURCE in choices(result)[-1] or height % 2


@for_each("padding", [Padding.SAME, Padding.VALID])
@for_each("dtype", [DType.INT8, DType.UINT8])
@for_each("kernel", [2, 3, 5])
@for_each("channels", [1, 3])
def test_of_a_picture(channels: int, kernel: int, dtype: DType, padding: Padding) -> None:
    """A row that no window meets makes the number of rows even, where the host folds them."""
    chosen = []
    for size in ((48, 33), (47, 40), (50, 31), (49, 38)):
        b = Net("picture", np.random.default_rng(size))
        x = b.input("x", (1, *size, channels), dtype, f.SAME)
        window = Window(kernel, kernel, 2, 2, padding=padding)
        numbers = Numbers(output=f.SAME, per_channel=dtype is DType.INT8)
        b.output(b.conv(x, 16, window, numbers))
        exact, result = is_exact(b.build())
        assert exact
        chosen += choices(result)
    # Windows of 2 x 2 have no rows in common, so that their number is that of the result.
    assert kernel == 2 or any("folded" in choice and BOTH in choice for choice in chosen)


def test_cycles_are_half() -> None:
    """Twice the kernels of twice the channels for half the pixels: 3 x 3 taps of pairs."""
    _, result = is_exact(layer((1, 32, 48, 16), 16, SQUARE))
    (task,) = result.partitions[0].layers[-1].tasks
    assert estimate_task(result.chip, task).npu_cycles == 16 * 48 * 9


@for_each("seed", range(100))
def test_random_layers(seed: int) -> None:
    """Any sizes and numbers; every fourth of several images, every third behind a PAD."""
    rng = np.random.default_rng([23, seed])
    images = int(rng.integers(2, 4)) if seed % 4 == 0 else 1
    shape = (images, *(int(n) for n in rng.integers(8, 40, 2)), int(rng.integers(1, 40)))
    dtype = DType.UINT8 if seed % 2 else DType.INT8
    kernel, strides = rng.integers(1, 8, 2), rng.integers(1, 5, 2)
    is_padded = seed % 3 == 0
    window = Window(
        *(int(n) for n in (*kernel, *strides)), padding=Padding.VALID if is_padded else Padding.SAME
    )
    model = layer(
        shape, int(rng.integers(1, 36)), window, dtype, seed=seed,
        pads=tuple(rng.integers(0, 6, 4).tolist()) if is_padded else None,
        per_channel=dtype is DType.INT8 and bool(rng.integers(2)),
        activation=Activation(int(rng.choice([0, 1, 3]))),
    )  # fmt: skip
    assert is_exact(model, seed)[0]


def test_another_chip_has_none() -> None:
    """Its rows have no gaps. It rounds once: at most one LSB from the reference kernels."""
    model = layer((1, 20, 26, 16), 16, SQUARE)
    arrays = f.inputs_of(model)
    options = Options.from_mapping({"numerics": "exact", "chip": "rk3576"}, {})
    result, ours = fusion_graphs.run(model, options, arrays)
    assert f.off(ours[0], f.references(model, arrays)[0]).max() <= 1
    assert not any("pairs" in choice for choice in choices(result))


def test_small_maps_have_none() -> None:
    """They would not save a launch, and fewer boards have run such tasks."""
    for size, is_paired in (((32, 48), False), ((80, 80), True)):
        graph = read_graph(layer((1, *size, 16), 16, SQUARE))
        result = compile_model(graph, f.EXACT)
        assert ("pairs of rows" in choices(result)[-1]) is is_paired


def test_a_board_that_lacks_forms_is_given_rows_alone() -> None:
    """They take two settings more, which the CPU would have to replace."""
    for channels in (3, 16):
        graph = read_graph(layer((1, 20, 26, channels), 16, SQUARE))
        for missing, is_paired in (({}, True), ({"conv-0": "hangs"}, False)):
            result = compile_model(graph, f.EXACT, EAGER.on_board(missing))
            assert not result.rejections
            assert ("pairs of rows" in choices(result)[-1]) is is_paired


@pytest.mark.parametrize("name", f.AXES)
def test_beside_others_in_memory(name: str) -> None:
    """Every row is written once, and nothing of a neighbour, whatever lies around."""
    for first, second in ((16, 16), (16, 48), (7, 7)):
        kernels = (first, second if name == "channels" else first)
        exact, result = is_exact(f.beside(name, kernels, SQUARE, 16))
        assert exact
        assert RESULT in choices(result)[0]


def test_of_a_slice() -> None:
    """A slice of channels, whose rows lie together, or of rows, at an even or an odd place."""
    for begin, size in (
        ((0, 0, 0, 16), (1, 16, 22, 16)),
        ((0, 4, 0, 0), (1, 10, 22, 48)),
        ((0, 3, 0, 16), (1, 10, 22, 16)),
        ((0, 3, 5, 16), (1, 12, 16, 16)),
    ):
        exact, result = is_exact(f.sliced(begin, size, SQUARE))
        assert exact
        assert "pairs of rows" in choices(result)[-1]


@for_each("inputs", [3, 16, 24])
def test_with_a_function_in_the_same_task(inputs: int) -> None:
    """Within a step before the function; the next layer reads what it wrote in pairs."""
    for dtype in (DType.INT8, DType.UINT8):
        rng = np.random.default_rng(inputs)
        b = Net("function", rng)
        numbers = Numbers(output=f.SAME, per_channel=dtype is DType.INT8)
        x = b.input("x", (1, 22, 26, inputs), dtype, f.SAME)
        y = b.conv(x, 13, SQUARE, numbers, name="first")
        arrays = f.inputs_of(b.build(f.silu(b, y)))
        result, ours = fusion_graphs.run(b.build(), f.AUTO, arrays, EAGER)
        assert "pairs of rows" in choices(result)[0]
        assert len(choices(result)) == 1
        worst = max(part.difference.most_lsb for part in result.partitions[0].layers)
        assert f.off(ours[0], f.references(b.build(), arrays)[0]).max() <= worst


@for_each("has_table", [False, True])
def test_before_an_addition(has_table: bool) -> None:
    """A residual block of few channels: in one task with the sum, or in pairs, which is less."""
    for kernels, size in ((16, (160, 160)), (16, (16, 20)), (12, (48, 31))):
        rng = np.random.default_rng(13)
        b = Net("residual", rng)
        numbers = Numbers(output=f.SAME)
        x = b.input("x", (1, *size, 24), DType.INT8, f.SAME)
        other = b.conv(x, kernels, SQUARE, numbers, name="other")
        y = b.conv(other, kernels, SQUARE, numbers, name="inner")
        if has_table:
            y = b.function("LOGISTIC", (y,), Quantization((1 / 256,), (-128,)))
        total = b.tensor("total", b.spec(y).shape, DType.INT8, Quantization((0.09,), (1,)))
        b.operator("ADD", (y, other), (total,), AddOptions())
        arrays = f.inputs_of(b.build(total))
        for chip in (EAGER, DEFAULT):
            result, ours = fusion_graphs.run(b.build(), f.AUTO, arrays, chip)
            joined = [part.difference for part in result.partitions[0].layers if part.difference]
            worst = 1 + max((difference.most_lsb for difference in joined), default=1)
            assert f.off(ours[0], f.references(b.build(), arrays)[0]).max() <= worst
        assert ("pairs of rows" in choices(result)[1]) == (size == (160, 160))
