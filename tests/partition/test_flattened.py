"""Dense layers behind an image that is flattened: its moves are in the order of their weights."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.chip.chip import COMPUTED_SUMMANDS, PROVED
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Arithmetic, Window
from tests.chip.test_second_chip import simulate
from tests.inferences import drawn_int8, outputs

AUTO = {"numerics": "auto", "deny_ops": "NONE"}
ORDERS = {"lies": (0, 1, 2, 3), "channels_first": (0, 3, 1, 2), "turned": (0, 2, 1, 3)}

SCALING = Quantization((0.05,), (3,))

Ends = Callable[[Net, int], Sequence[int]]


def flattened(shape: Sequence[int], order: Sequence[int], ends: Ends) -> bytes:
    """Return a model of maxima that are flattened, and what ``ends`` adds."""
    builder = Net()
    x = builder.input("x", tuple(shape), DType.INT8, SCALING)
    least = builder.constant("least", drawn_int8(tuple(shape), 1), SCALING)
    image = builder.function("MAXIMUM", (x, least), SCALING)
    moved = image if order == (0, 1, 2, 3) else builder.transpose(image, order)
    flat = builder.reshape(moved, (shape[0], int(np.prod(shape[1:]))))
    return builder.build(*ends(builder, flat))


def dense(count: int, outputs: int = 7) -> Ends:
    """Return what adds so many dense layers."""
    arithmetic = Arithmetic(output_scale=0.2, output_zero_point=1)

    def added(builder: Net, flat: int) -> Sequence[int]:
        return [
            builder.fully_connected(flat, outputs + n, arithmetic, name=f"y{n}")
            for n in range(count)
        ]

    return added


@settings(deadline=None, max_examples=25)
@given(
    images=st.integers(1, 2),
    rows=st.integers(1, 40),
    columns=st.integers(2, 31),
    channels=st.integers(1, 40),
    order=st.sampled_from(tuple(ORDERS)),
    readers=st.integers(1, 3),
)
def test_moves_before_dense_layers_need_no_tasks(
    images: int, rows: int, columns: int, channels: int, order: str, readers: int
) -> None:
    """A kernel covers the image, or one with the same pixels in other rows."""
    if rows > 31:  # which no kernel covers
        rows, columns = 1, (rows - 30) * 30
    channels = max(1, min(channels, 9000 // (rows * columns)))
    model = flattened((images, rows, columns, channels), ORDERS[order], dense(readers))
    compiled = compile_model(model, Options.from_mapping(AUTO))
    (part,) = compiled.partitions
    assert len(part.partition.nodes) == len(compiled.graph.nodes)
    assert part.tasks <= images * (1 + readers)
    assert_near(model, (images, rows, columns, channels))


def assert_near(model: bytes, shape: Sequence[int]) -> None:
    """Check that results are within one step of those of the reference kernels."""
    x = drawn_int8(tuple(shape), 3)
    ours = outputs(model, x, device="simulator", **AUTO)
    for one, other in zip(ours, outputs(model, x), strict=True):
        assert np.abs(one.astype(int) - other).max() <= 1


def _also_read(builder: Net, flat: int) -> Sequence[int]:
    return [*dense(1)(builder, flat), flat]


@pytest.mark.parametrize(
    ("shape", "ends"),
    [((1, 5, 7, 12), _also_read), ((1, 37, 31, 3), dense(1)), ((1, 20, 36, 40), dense(1))],
    ids=["the model gives it", "no kernel covers it", "no task holds its kernels"],
)
def test_dense_layers_run_where_moves_stay(shape: Sequence[int], ends: Ends) -> None:
    model = flattened(shape, ORDERS["turned"], ends)
    compiled = compile_model(model, Options.from_mapping(AUTO))
    assert {rejection.op for rejection in compiled.rejections} <= {"RESHAPE", "TRANSPOSE"}
    assert_near(model, shape)


def test_dense_layers_read_large_images_once_a_board_has_proved_sums_over_tasks() -> None:
    """16 kernels of 7 x 7 x 512 inputs, as VGG16 has them, are more than CBUF holds."""
    shape = (1, 7, 7, 512)
    model = flattened(shape, ORDERS["lies"], dense(1, outputs=33))
    options = Options.from_mapping(AUTO)
    refused = compile_model(model, options, RK3588)
    assert {rejection.op for rejection in refused.rejections} == {"RESHAPE", "FULLY_CONNECTED"}
    board = RK3588.on_board({COMPUTED_SUMMANDS: PROVED})
    compiled = compile_model(model, options, board)
    (part,) = compiled.partitions
    assert len(part.partition.nodes) == len(compiled.graph.nodes)
    x = drawn_int8(shape, 3)
    (ours,) = simulate(part.program, [x], board)
    (theirs,) = outputs(model, x)
    assert np.abs(ours.astype(int) - theirs).max() <= 1


def test_an_input_that_shapes_are_computed_from_is_moved_by_the_host() -> None:
    """A node of the CPU that reads the model's input, too, is none of the partition's."""
    builder = Net()
    x = builder.input("x", (1, 28, 28), DType.INT8, SCALING)
    image = builder.reshape(x, (1, 28, 28, 1))
    y = builder.conv(image, 8, Window(3, 3), Arithmetic(output_scale=0.1))
    axis = builder.constant("axis", np.int32(2))
    places = builder.result("ARG_MAX", (x, axis), "places", (1, 28))
    compiled = compile_model(builder.build(y, places), Options.from_mapping(AUTO))
    assert [part.tasks for part in compiled.partitions] == [1]
