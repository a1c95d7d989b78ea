"""Maxima by the PPU, which the vendor's driver waits for: against the reference kernels."""

from dataclasses import replace

import numpy as np
import pytest

from delegate._native import Executable
from delegate.chip.chip import Primitive
from delegate.chip.chips import DEFAULT, chip_named
from delegate.compile.compiler import compile_model
from delegate.host.chosen import chosen_chip
from delegate.lower.tiling.geometry import pooled_columns
from delegate.model.graph import DType, Padding, Quantization
from delegate.npu.program_reader import parse
from delegate.options import Options
from rk3588_conformance.builder import Net
from tests.loops import for_each
from tests.ops.function_oracle import kernel_results

WITH_PPU = replace(DEFAULT, lacks=DEFAULT.lacks - {Primitive.POOLING})
PPU = 0x60
DPU_ALONE = 0x18
SCALE = Quantization((0.05,), (3,))
KNOWN = ((2, 2), (3, 1), (4, 1), (5, 1), (7, 1), (3, 2))
"""Windows and strides of recorded tasks of the vendor."""


def model(
    shape: tuple[int, ...], windows: tuple[tuple[int, int], ...], dtype: DType = DType.INT8
) -> bytes:
    builder = Net("maxima")
    x = builder.input("x", shape, dtype, SCALE)
    for window, stride in windows:
        x = builder.pool("MAX_POOL_2D", x, window, window, stride, stride, Padding.SAME)
    return builder.build(x)


def masks(content: bytes, chip=WITH_PPU, numerics: str = "auto") -> list[int]:
    (partition,) = compile_model(content, Options(numerics=numerics), chip=chip).partitions
    return [task.enable_mask for task in parse(partition.program).tasks]


@pytest.mark.parametrize("numerics", ["auto", "exact"])
@for_each("seed", range(40))
def test_every_maximum_is_the_reference_kernels(seed: int, numerics: str) -> None:
    rng = np.random.default_rng([seed, 60])
    sides = (1, 2, 3, 7, 13, 16, 17, 31, 33, 40, 65, 130)
    height, width = (int(n) for n in rng.choice(sides, 2))
    channels = int(rng.choice((1, 15, 16, 17, 32, 33, 48, 64, 65, 130)))
    dtype = (DType.INT8, DType.UINT8)[seed % 2]
    count = int(rng.integers(1, 4))
    windows = tuple(KNOWN[int(rng.integers(len(KNOWN)))] for _ in range(count))
    content = model((int(rng.integers(1, 3)), height, width, channels), windows, dtype)
    result = compile_model(content, Options(numerics=numerics), chip=WITH_PPU)
    assert not result.rejections
    executable = Executable(result.partitions[0].program, "simulator")
    kind = np.dtype(dtype.name.lower())
    shape = result.graph.tensor(result.graph.inputs[0]).shape
    least = np.iinfo(kind).min
    image = rng.integers(least, least + 256, shape).astype(kind)
    dark = np.where(rng.random(shape) < 0.05, image, least).astype(kind)
    for values in (image, dark):
        (ours,) = executable.run([values])
        np.testing.assert_array_equal(ours, kernel_results(content, values))
    if min(height, width) >> count >= max(window for window, _ in KNOWN):  # no window is cut
        tasks = parse(result.partitions[0].program).tasks
        assert {task.enable_mask for task in tasks} == {PPU}


@for_each("window, stride, width, blocks", [
    (2, 2, 34, {PPU}), (3, 2, 34, {PPU}), (5, 1, 20, {PPU}),
    (5, 1, 34, {DPU_ALONE}),  # nobody has run tasks of fp16 whose rows have gaps between them
])  # fmt: skip
def test_maxima_of_fp16_are_those_of_the_numbers(
    window: int, stride: int, width: int, blocks: set[int]
) -> None:
    builder = Net("maxima")
    x = builder.input("x", (1, 21, width, 19), DType.FLOAT32)
    builder.output(builder.pool("MAX_POOL_2D", x, window, window, stride, stride, Padding.VALID))
    options = Options(numerics="auto", float="fp16")
    (partition,) = compile_model(builder.build(), options, chip=WITH_PPU).partitions
    assert {task.enable_mask for task in parse(partition.program).tasks} == blocks
    image = np.random.default_rng(window).normal(size=(1, 21, width, 19)).astype(np.float16)
    image[0, 3, 5] = -60000
    (ours,) = Executable(partition.program, "simulator").run([image.astype(np.float32)])
    seen = np.lib.stride_tricks.sliding_window_view(image, (window, window), (1, 2))
    np.testing.assert_array_equal(ours, seen[:, ::stride, ::stride].max((-1, -2)))


def test_a_map_is_one_task_and_a_wide_one_as_few_as_the_line_buffer_allows() -> None:
    assert masks(model((1, 16, 16, 32), ((5, 1),))) == [PPU]
    assert masks(model((1, 20, 20, 32), ((5, 1),))) == [PPU] * 2  # as the vendor's
    assert masks(model((1, 20, 129, 32), ((2, 2),))) == [PPU]
    assert [pooled_columns(*at) for at in ((2, 2), (2, 1), (3, 2), (3, 1), (5, 1), (7, 1))] == [
        *(128, 64, 64, 32, 16, 16)
    ]


def test_a_window_that_nobody_has_run_is_taken_in_exact_mode_alone() -> None:
    content = model((1, 9, 9, 16), ((6, 1),))
    assert PPU not in masks(content)
    assert set(masks(content, numerics="exact")) == {PPU}


def test_a_clamp_and_a_stride_beyond_the_window_stay_with_the_dpu() -> None:
    assert PPU not in masks(model((1, 9, 9, 16), ((2, 3),)), numerics="exact")


def test_only_the_vendors_driver_waits_for_it() -> None:
    chips = {
        device: chosen_chip(Options.from_mapping({"device": device, "chip": "rk3588"}, {}))
        for device in ("simulator", "null", "rocket", "rknpu")
    }
    assert [name for name, chip in chips.items() if Primitive.POOLING not in chip.lacks] == [
        "rknpu"
    ]
    options = Options.from_mapping({"device": "rknpu", "chip": "rk3576"}, {})
    assert chosen_chip(options) == chip_named("rk3576")
    assert PPU not in masks(model((1, 9, 9, 16), ((2, 2),)), chip=DEFAULT)
