"""Forms of convolutions that RK3576 is known to compute, and what others become."""

import re

import numpy as np
import pytest

from delegate.chip.rk3576 import RK3576
from delegate.compile.compiler import compile_model
from delegate.lower.weights import pack_depthwise, pack_shifts
from delegate.model.graph import DType, Padding
from delegate.npu.disasm import disassemble
from delegate.npu.program_reader import parse
from delegate.options import Options
from rk3588_conformance.builder import conv_model, depthwise_model
from tests.chip.rk3576_results import FOR_RK3576, check_results
from tests.loops import for_each

SAME, VALID = Padding.SAME, Padding.VALID


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ((60, 60, 16, 16, 2, 5, 1, 1, 9, 8, VALID), "kernel 2 x 5"),
        ((9, 9, 16, 16, 3, 3, 1, 2), "strides 1 x 2"),
    ],
)
def test_forms_that_no_program_is_known_to_have_are_refused(sizes, sentence):
    model = conv_model(np.random.default_rng(1), *sizes)
    assert compile_model(model, Options(numerics="exact")).rejections == ()
    (rejection,) = compile_model(model, FOR_RK3576).rejections
    assert rejection.rule == "form_is_known"
    assert sentence in rejection.detail


def test_a_stride_that_leads_nowhere_is_the_other_one(tmp_path):
    model = conv_model(
        np.random.default_rng(1), 3, 21, 16, 16, 3, 3, 1, 2, padding=VALID, dtype=DType.INT8
    )
    check_results(model, tmp_path)


@for_each("channels", [3, 4, 8])
def test_the_host_folds_inputs_only_to_forms_that_are_known(channels):
    """Folded columns alone are cheapest for 4 and 8 channels: 3 x 1 or 3 x 2 taps of 3 x 3."""
    model = conv_model(np.random.default_rng(1), 40, 40, channels, 32, 3, 3)
    assert compile_model(model, FOR_RK3576).rejections == ()


def test_a_folded_input_has_room_for_what_tasks_read(tmp_path):
    """48 channels of three columns, of which tasks fetch 64."""
    check_results(conv_model(np.random.default_rng(1), 9, 9, 16, 16, 1, 3), tmp_path)


@pytest.mark.parametrize("size", [(7, 7), (3, 3), (1, 1), (5, 9), (1, 17), (19, 19)])
@pytest.mark.parametrize("channels", [16, 72])
def test_depthwise_surfaces_are_rounded_up_to_four_pixels(size, channels, tmp_path):
    """As in the vendor's programs for 15 x 18, 17 x 19 and 3 x 3 pixels; one of a pixel is one."""
    model = depthwise_model(np.random.default_rng(1), *size, channels, 3, 3)
    (compiled,) = compile_model(model, FOR_RK3576).partitions
    pixels = size[0] * size[1]
    stride = pixels if pixels == 1 else -(-pixels // 4) * 4
    strides = re.findall(r"DST_SURF_STRIDE = 0x([0-9a-f]+)", disassemble(parse(compiled.program)))
    assert {int(found, 16) for found in strides} == {stride}
    check_results(model, tmp_path)


def test_weights_have_two_bytes_that_are_added():
    rng = np.random.default_rng(2)
    for zero_point in (-128, -127, -5, 0, 127):
        weights = rng.integers(-128, 127, (3, 3, 80)).astype(np.int8)
        data = pack_depthwise(weights, zero_point, RK3576.groups)
        packed = np.frombuffer(data, np.int8).astype(np.int64)
        for channel in (0, 1, 2, 63, 64, 79):
            first, lanes = (0, 64) if channel < 64 else (9 * 64, 16)
            place = channel % 64
            at = 2 * (first + np.arange(9) * lanes) + 4 * (place // 2) + place % 2
            sums = packed[at] + packed[at + 2]
            expected = weights[:, :, channel].reshape(-1).astype(np.int64) - zero_point
            np.testing.assert_array_equal(sums, expected)
    with pytest.raises(ValueError, match="127 with the zero point -128"):
        pack_depthwise(np.full((1, 1, 16), 127, np.int8), -128, RK3576.groups)
    assert pack_shifts(14, 9) == bytes([14, 9]) + bytes(14)
