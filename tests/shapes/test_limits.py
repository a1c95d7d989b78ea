"""Feature maps and kernels beyond one task's fields, on the simulator against TensorFlow Lite."""

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Padding
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.builder import add_model, conv_model, depthwise_model, fully_connected_model
from tests.lower.reference import random_inputs, tflite_outputs

RNG = np.random.default_rng
CASES = {
    "columns_with_a_halo": lambda: conv_model(RNG(1), 3, 5000, 5, 7, 3, 3),
    "widest": lambda: conv_model(RNG(1), 2, 8192, 16, 33, 3, 3, 1, 2),
    "tallest": lambda: conv_model(RNG(1), 8192, 3, 17, 5, 3, 3, 2, 1),
    "pixels_in_a_row": lambda: conv_model(RNG(1), 1, 8191, 24, 40, 1, 1),
    "depthwise_columns": lambda: depthwise_model(RNG(1), 5, 4099, 70, 3, 3),
    "row_too_large_for_the_entries": lambda: conv_model(RNG(1), 6, 300, 512, 32, 3, 3),
    "kernels_larger_than_a_group": lambda: conv_model(RNG(1), 7, 9, 2048, 40, 3, 3),
    "kernels_larger_than_a_group_odd": lambda: conv_model(RNG(1), 5, 5, 700, 33, 5, 5),
    "rows_and_channel_parts": lambda: depthwise_model(RNG(1), 64, 130, 520, 5, 5),
    "more_weights_than_cbuf": lambda: conv_model(RNG(1), 3, 4, 3000, 20, 3, 3),
    "more_weights_than_cbuf_whole_image": lambda: conv_model(
        RNG(1), 7, 7, 1280, 20, 7, 7, padding=Padding.VALID
    ),
    "wider_than_the_skip_between_rows": lambda: conv_model(RNG(1), 2, 18011, 16, 33, 3, 3),
    "higher_than_any_field": lambda: conv_model(RNG(1), 18011, 2, 16, 33, 3, 3),
    "pixels_in_rows_of_another_length": lambda: conv_model(RNG(1), 4, 8400, 16, 1, 1, 1),
    "prime_width": lambda: conv_model(RNG(1), 1, 20011, 24, 40, 1, 1, dtype=DType.UINT8),
    "outputs_of_two_cubes": lambda: conv_model(RNG(1), 2, 3, 16, 8161, 1, 1),
    "rows_outputs_of_three_cubes": lambda: fully_connected_model(RNG(1), (3, 40), 20011),
    "depthwise_of_two_cubes": lambda: depthwise_model(RNG(1), 5, 4, 9001, 3, 3),
    "additions_of_two_cubes": lambda: add_model(RNG(1), (1, 2, 8400)),
    "additions_per_channel": lambda: add_model(
        RNG(1), (2, 3, 5, 17011), other_shape=(1, 1, 1, 17011), dtype=DType.UINT8
    ),
    "additions_of_a_constant": lambda: add_model(RNG(1), (1, 7, 8401), is_constant=True),
    "inputs_beyond_the_field": lambda: fully_connected_model(RNG(1), (1, 131101), 40),
    "inputs_beyond_the_field_of_one_kernel": lambda: fully_connected_model(RNG(1), (1, 70001), 1),
    "more_products_than_the_array_sums": lambda: conv_model(RNG(1), 5, 5, 5303, 1, 5, 5),
    "images": lambda: conv_model(RNG(1), 40, 150, 96, 70, 3, 3, batch=2),
}


@pytest.mark.parametrize("name", CASES)
def test_split_layers_equal_the_reference(name):
    model = CASES[name]()
    graph = read_graph(model)
    result = compile_model(graph, Options(numerics="exact"))
    assert result.rejections == ()
    (compiled,) = result.partitions
    assert compiled.tasks > 1
    x = random_inputs(graph, compiled.partition.inputs, RNG(2))
    (ours,) = Executable(compiled.program, "simulator").run(x)
    (theirs,) = tflite_outputs(model, compiled.partition, x)
    np.testing.assert_array_equal(ours, theirs)


def test_rows_of_another_length_save_tasks():
    graph = read_graph(conv_model(RNG(1), 4, 8400, 16, 24, 1, 1))
    (compiled,) = compile_model(graph, Options(numerics="exact")).partitions
    assert compiled.layers[0].choice.startswith("pixels as ")
    assert compiled.tasks == 2  # 33,600 pixels of 16 bytes in eleven banks


def test_too_many_tasks_are_refused_with_their_number():
    """Every pixel of a layer with split input channels takes tasks of its own."""
    graph = read_graph(conv_model(RNG(1), 47, 45, 3001, 20, 3, 3))
    (rejection,) = compile_model(graph, Options(numerics="exact")).rejections
    assert rejection.rule == "tasks_in_range"
    assert f"{47 * 45 * 2} tasks; the limit is 4095" in rejection.detail


def test_buffers_of_gigabytes_are_refused_before_any_work():
    graph = read_graph(conv_model(RNG(1), 8191, 8191, 1, 17, 1, 1))
    (rejection,) = compile_model(graph, Options(numerics="exact")).rejections
    assert rejection.rule == "buffers_in_range"
    assert "OUTPUT needs 2146959424 bytes" in rejection.detail


def test_a_window_that_fits_no_bank_is_refused_with_its_size():
    """Rows between the taps of a dilated kernel are held too: no split of the channels helps."""
    graph = read_graph(conv_model(RNG(1), 258, 259, 16, 20, 9, 9, 1, 1, 32, 32, Padding.VALID))
    (rejection,) = compile_model(graph, Options(numerics="exact")).rejections
    assert rejection.rule == "tile_fits_cbuf"
    assert "257 input rows (65 CBUF entries each)" in rejection.detail
