"""The program reader: what it accepts, every rule it enforces, and bytes of any kind."""

import random

import numpy as np
import pytest

from delegate import _native
from delegate.errors import DeviceError, ProgramError, UsageError
from tests.loops import for_each
from tests.native import program_builder as b
from tests.npu.sample_programs import resealed


def small(**changes) -> b.ProgramSpec:
    spec = b.ProgramSpec(
        [b.nhwc(1, (1, 5, 3, 19), b.INPUT)], [b.nhwc(2, (1, 5, 3, 7), b.OUTPUT, element=b.INT8)]
    )
    for name, value in changes.items():
        setattr(spec, name, value)
    return spec


def test_a_valid_program_runs_on_the_null_device():
    executable = _native.Executable(small().build(), device="null")
    before = _native.submit_count()
    (output,) = executable.run([np.zeros((1, 5, 3, 19), np.uint8)])
    assert _native.submit_count() == before + 1
    assert (output.shape, output.dtype) == ((1, 5, 3, 7), np.int8)
    assert not output.any()
    assert executable.device_name == "null"
    assert executable.inputs == ((1, "tensor1", (1, 5, 3, 19), np.dtype(np.uint8)),)


def test_uint8_outputs_of_zeroed_memory_are_128():
    spec = b.ProgramSpec([b.nhwc(1, (2, 3, 4, 5), b.INPUT)], [b.nhwc(2, (2, 3, 4, 17), b.OUTPUT)])
    (output,) = _native.Executable(spec.build(), "null").run([np.zeros((2, 3, 4, 5), np.uint8)])
    assert (output == 128).all()


@pytest.mark.parametrize(
    "array",
    [np.zeros((1, 5, 3, 19), np.int8), np.zeros((1, 3, 5, 19), np.uint8), np.zeros(285, np.uint8)],
)
def test_run_refuses_other_shapes_and_types(array):
    with pytest.raises(UsageError, match="tensor1 must be uint8"):
        _native.Executable(small().build(), "null").run([array])


def test_run_refuses_a_wrong_number_of_inputs():
    with pytest.raises(UsageError, match="takes 1 inputs, not 0"):
        _native.Executable(small().build(), "null").run([])


def test_run_takes_arrays_with_strides():
    source = np.zeros((1, 3, 5, 19), np.uint8).transpose(0, 2, 1, 3)
    assert _native.Executable(small().build(), "null").run([source])[0].shape == (1, 5, 3, 7)


def in_binding(**changes):
    return small(inputs=[b.nhwc(1, (1, 5, 3, 19), b.INPUT, **changes)])


def spoiled_shape(shape):
    spec = small()
    spec.inputs[0].shape = shape
    return spec


def folded(fold, channels=12, height=5):
    """An input of 9 x 7 x 3 folded into 5 x 4 pixels."""
    pixels = {"height": height, "width": 4, "channels": channels}
    return b.ProgramSpec(
        [b.Binding(1, (1, 9, 7, 3), b.INPUT, fold=fold, **pixels)],
        [b.nhwc(2, (1, 5, 3, 7), b.OUTPUT, element=b.INT8)],
    )


FOLD = (9, 7, 3, 2, 2, 2, 2, 1, 0)


def test_a_folded_input_is_taken_in_its_own_shape():
    executable = _native.Executable(folded(FOLD).build(), "null")
    executable.run([np.zeros((1, 9, 7, 3), np.uint8)])
    assert executable.inputs == ((1, "tensor1", (1, 9, 7, 3), np.dtype(np.uint8)),)


def test_float32_edges_are_taken_in_their_own_type():
    edges = {"element": b.FP32, "affine": (0.5, 130, b.UINT8)}
    spec = b.ProgramSpec(
        [b.nhwc(1, (1, 5, 3, 19), b.INPUT, **edges)], [b.nhwc(2, (2, 3, 17), b.OUTPUT, **edges)]
    )
    (output,) = _native.Executable(spec.build(), "null").run([np.zeros((1, 5, 3, 19), np.float32)])
    assert output.dtype == np.float32
    assert (output == -1).all()  # of 0 on the device, 128 as uint8


def spread(*boxes, shape=(1, 5, 3, 7)):
    """An output of boxes, each (spread, changes)."""
    place = {"height": 5, "width": 3, "channels": 7, "element": b.INT8}
    outputs = [b.Binding(2, shape, b.OUTPUT, spread=s, **{**place, **c}) for s, c in boxes]
    return small(outputs=outputs)


TURNED = (0, 0, 3, 1, 15)
BOTH = ((0, 0, 21, 7, 1), {"height": 2}), ((42, 0, 1, 3, 9), {"height": 3})


def test_boxes_of_an_output_are_one_tensor():
    for boxes in (((TURNED, {}),), BOTH):
        executable = _native.Executable(spread(*boxes).build(), "null")
        (output,) = executable.run([np.zeros((1, 5, 3, 19), np.uint8)])
        assert executable.outputs == ((2, "tensor2", (1, 5, 3, 7), np.dtype(np.int8)),)
        assert not output.any()


VIOLATIONS = {
    "box beyond": (spread(((1, 0, 3, 1, 15), {})), "reaches beyond"),
    "box far beyond": (spread(((1 << 63, 0, 3, 1, 15), {})), "impossible spread"),
    "box of long steps": (spread(((0, 0, 3, 1, 1 << 30), {})), "reaches beyond"),
    "box missing": (spread(BOTH[0]), "do not make it"),
    "box twice": (spread((TURNED, {}), (TURNED, {})), "do not make it"),
    "boxes of two shapes": (
        small(outputs=[
            b.Binding(2, shape, b.OUTPUT, spread=s, width=3, channels=7, element=b.INT8, **c)
            for shape, (s, c) in zip(((1, 5, 3, 7), (5, 3, 7)), BOTH, strict=True)
        ]), "bound twice"),
    "boxes of two tables": (
        small(inputs=[
            b.Binding(1, (1, 5, 3, 19), b.INPUT, spread=(0, 0, 57, 19, 1), height=5, width=3,
                    channels=19, table=table) for table in (b"", bytes(range(256)))
        ]), "bound twice"),
    "an input whole and in a box": (
        small(inputs=[
            b.Binding(1, (1, 5, 3, 19), b.INPUT, height=5, width=3, channels=19, spread=box)
            for box in ((0, 0, 57, 19, 1), ())
        ]), "bound twice"),
    "box of wide elements": (
        small(outputs=[
            b.Binding(2, (1, 5, 3, 8), b.OUTPUT, element=b.FP16, spread=(0, 0, 24, 8, 1), height=5,
                    width=3, channels=8),
        ]), "impossible spread"),
    "table short": (in_binding(table=bytes(255)), "impossible table"),
    "table of an output": (
        small(outputs=[b.nhwc(2, (1, 5, 3, 7), b.OUTPUT, table=bytes(256))]), "impossible table"),
    "table of wide elements": (in_binding(element=b.FP16, table=bytes(256)), "impossible table"),
    "table and scale": (
        in_binding(element=b.FP32, affine=(0.5, 0, b.INT8), table=bytes(256)), "impossible table"),
    "scale of bytes": (in_binding(affine=(0.5, 0, b.INT8)), "impossible quantisation"),
    "scale negative": (
        in_binding(element=b.FP32, affine=(-0.5, 0, b.INT8)), "impossible quantisation"),
    "scale infinite": (
        in_binding(element=b.FP32, affine=(np.inf, 0, b.INT8)), "impossible quantisation"),
    "scale no number": (
        in_binding(element=b.FP32, affine=(np.nan, 0, b.INT8)), "impossible quantisation"),
    "zero point of int8": (
        in_binding(element=b.FP32, affine=(0.5, 128, b.INT8)), "impossible quantisation"),
    "zero point of uint8": (
        in_binding(element=b.FP32, affine=(0.5, -1, b.UINT8)), "impossible quantisation"),
    "wide levels": (
        in_binding(element=b.FP32, affine=(0.5, 0, b.INT16)), "impossible quantisation"),
    "levels of no type": (in_binding(element=b.FP32, affine=(0.5, 0, 6)), "unknown element type"),
    "fold lanes": (folded((9, 7, 3, 2, 3, 2, 2, 1, 0)), "fold and channels differ"),
    "fold window 0": (folded((9, 7, 3, 0, 2, 2, 2, 1, 0)), "impossible fold"),
    "fold step 0": (folded((9, 7, 3, 2, 2, 0, 2, 1, 0)), "impossible fold"),
    "fold of height 0": (folded((0, 7, 3, 2, 2, 2, 2, 1, 0)), "impossible fold"),
    "fold far away": (folded((9, 7, 3, 2, 2, 2, 2, 1 << 20, 0)), "impossible fold"),
    "fold huge step": (folded((9, 7, 3, 2, 2, 1 << 31, 2, 1, 0)), "impossible fold"),
    "fold huge image": (folded((1 << 29, 1 << 29, 3, 2, 2, 2, 2, 1, 0)), "too large"),
    "fold of another shape": (folded((9, 8, 3, 2, 2, 2, 2, 1, 0)), "shape and device size"),
    "fold too wide": (
        folded((9, 7, 3, 5, 5, 2, 2, 1, 0), channels=75),
        "fold and channels differ",
    ),
    "version": (small(version=2), "format version 2"),
    "checksum": (small(checksum=1), "checksum"),
    "buffers missing": (small(sizes=[64, 0, 64, 480]), "number of buffers"),
    "buffer huge": (small(sizes=[64, 0, 1 << 31, 480, 240]), "larger than 1 GiB"),
    "content too long": (small(contents={b.CONSTANTS: b"x"}), "content is larger"),
    "scratch content": (small(contents={b.SCRATCH: b"x"}), "that the device writes has content"),
    "output content": (small(contents={b.OUTPUT: b"x"}), "that the device writes has content"),
    "regcmd odd": (small(sizes=[65, 0, 64, 480, 240]), "whole 64-bit words"),
    "reloc outside": (small(relocs=[(8, b.INPUT, 0)]), "relocation lies outside"),
    "reloc unsorted": (small(relocs=[(1, b.INPUT, 0), (0, b.INPUT, 0)]), "not sorted"),
    "reloc twice": (small(relocs=[(1, b.INPUT, 0), (1, b.INPUT, 0)]), "not sorted"),
    "reloc buffer": (small(relocs=[(0, 5, 0)]), "unknown buffer"),
    "reloc to empty": (small(relocs=[(0, b.CONSTANTS, 0)]), "points outside"),
    "reloc addend": (small(relocs=[(0, b.INPUT, 480)]), "points outside"),
    "reloc addend wraps": (small(relocs=[(0, b.INPUT, 2**64 - 16)]), "points outside"),
    "no tasks": (small(tasks=[]), "no tasks"),
    "task misaligned": (small(tasks=[{"regcmd_offset": 32, "regcmd_count": 4}]), "misaligned"),
    "task outside": (small(tasks=[{"regcmd_count": 9}]), "outside REGCMD"),
    "task wraps": (small(tasks=[{"regcmd_offset": 0xFFFFFFC0}]), "outside REGCMD"),
    "task empty": (small(tasks=[{"regcmd_count": 0}]), "out of range"),
    "task layer": (small(tasks=[{"layer": 1}]), "unknown layer"),
    "task enables nothing": (small(tasks=[{"enable_mask": 0}]), "enables no unit"),
    "jobs descend": (
        small(tasks=[{"job": 1}, {"job": 0}], sizes=[128, 0, 64, 480, 240]), "not ascending"),
    "no outputs": (small(outputs=[]), "no outputs"),
    "wrong buffer": (small(inputs=[b.nhwc(1, (1, 1, 1, 1), b.OUTPUT)]),
                     "wrong kind"),
    "bound twice": (small(inputs=[b.nhwc(1, (1, 1, 1, 1), b.INPUT)] * 2), "bound twice"),
    "negative tensor": (small(inputs=[b.nhwc(-1, (1, 1, 1, 1), b.INPUT)]), "negative"),
    "too few surfaces": (in_binding(surfaces=1), "too few surfaces"),
    "stride overlaps": (in_binding(surface_stride=224), "overlap"),
    "stride unaligned": (in_binding(surface_stride=241, image_stride=480), "not aligned"),
    "offset unaligned": (in_binding(offset=8), "not aligned"),
    "beyond the end": (in_binding(offset=16), "exceeds its buffer"),
    "stride beyond": (in_binding(surface_stride=256), "exceeds its buffer"),
    "huge stride": (in_binding(surface_stride=2**63, image_stride=480), "exceeds its buffer"),
    "huge surfaces": (in_binding(surfaces=2**32 - 1, image_stride=480), "exceeds its buffer"),
    "images overlap": (
        small(inputs=[b.nhwc(1, (2, 1, 1, 1), b.INPUT, image_stride=0)]), "images overlap"),
    "shape differs": (spoiled_shape((1, 5, 3, 18)), "differ"),
    "shape negative": (spoiled_shape((-1, 5, -3, 19)), "not positive"),
    "shape overflows": (spoiled_shape((2**31 - 1,) * 4), "too large"),
    "rank": (spoiled_shape((1,) * 9), "too many dimensions"),
}  # fmt: skip


@pytest.mark.parametrize("name", VIOLATIONS)
def test_each_violation_is_one_clear_error(name):
    spec, message = VIOLATIONS[name]
    with pytest.raises(ProgramError, match=message) as caught:
        _native.Executable(spec.build(), "null")
    assert "\n" not in str(caught.value)


def test_another_file_identifier_is_refused():
    with pytest.raises(ProgramError, match="identifier"):
        _native.Executable(small().build(b"TFL3"), "null")


@pytest.mark.parametrize(
    "name", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82", b"\x80"]
)
def test_names_must_be_utf8(name):
    spec = small(layers=["layer " + "y" * len(name)])
    spoiled = spec.build().replace(b"layer " + b"y" * len(name), b"layer " + name)
    with pytest.raises(ProgramError, match="not UTF-8"):
        _native.Executable(resealed(spoiled), "null")


def test_names_of_every_utf8_length_are_kept():
    spec = small(layers=["\u00e4\u20ac\U0001f600"])
    assert _native.Executable(spec.build(), "null").name == "test program"


def test_every_truncation_is_refused():
    program = small().build()
    for size in range(len(program)):
        with pytest.raises(ProgramError):
            _native.Executable(program[:size], "null")


def test_every_single_byte_change_is_refused():
    """The checksum covers every byte, itself included."""
    program = small().build()
    for at in range(len(program)):
        spoiled = program[:at] + bytes([program[at] ^ 0x41]) + program[at + 1 :]
        with pytest.raises(ProgramError):
            _native.Executable(spoiled, "null")


INTERESTING = (0, 1, 4, 16, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


@for_each("seed", range(20))
def test_mutations_with_a_correct_checksum_never_crash(seed):
    """Structure must hold on its own: an attacker can compute a checksum."""
    spec = small(
        tasks=[{}, {"job": 1}], sizes=[128, 16, 64, 480, 240], contents={b.REGCMD: bytes(128)}
    )
    program = spec.build()
    rng = random.Random(seed)
    accepted = 0
    for _ in range(400):
        spoiled = bytearray(program)
        for _ in range(rng.choice((1, 1, 2, 5))):
            if rng.random() < 0.5:
                spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
            else:
                at = rng.randrange(len(spoiled) // 4) * 4
                spoiled[at : at + 4] = rng.choice(INTERESTING).to_bytes(4, "little")
        try:
            executable = _native.Executable(resealed(spoiled), "null")
        except (ProgramError, DeviceError):
            continue
        accepted += 1
        executable.run([np.zeros(shape, dtype) for _, _, shape, dtype in executable.inputs])
    assert accepted > 0


@for_each("size", [0, 1, 7, 8, 12, 64, 1000])
def test_random_bytes_are_refused(size):
    rng = random.Random(size)
    for _ in range(100):
        with pytest.raises(ProgramError):
            _native.Executable(b"\x08\0\0\0RKNP"[:size] + rng.randbytes(max(0, size - 8)), "null")


def test_a_program_for_an_unknown_chip_is_refused():
    problem = 'for chip "rk9999", which this library does not know; compile the model again'
    with pytest.raises(ProgramError, match=problem):
        _native.check_program(small(chip="rk9999").build())


def taking(element: int, **changes) -> bytes:
    source = b.nhwc(1, (1, 5, 3, 19), b.INPUT, element=element, **changes)
    return b.ProgramSpec([source], [b.nhwc(2, (1, 5, 3, 7), b.OUTPUT)]).build()


@pytest.mark.parametrize(("element", "dtype"), [(b.FP16, np.float16), (b.INT32, np.int32)])
def test_elements_of_several_bytes_fill_more_surfaces(element, dtype):
    surfaces = -(-19 * np.dtype(dtype).itemsize // 16)
    executable = _native.Executable(taking(element, surfaces=surfaces), device="null")
    assert executable.inputs == ((1, "tensor1", (1, 5, 3, 19), np.dtype(dtype)),)
    executable.run([np.zeros((1, 5, 3, 19), dtype)])
    with pytest.raises(ProgramError, match="too few surfaces"):
        _native.check_program(taking(element, surfaces=surfaces - 1))


def test_unknown_elements_and_wide_fills_are_refused():
    with pytest.raises(ProgramError, match="unknown element"):
        _native.check_program(taking(6))
    with pytest.raises(ProgramError, match="wider than a byte"):
        _native.check_program(taking(b.FP16, surfaces=3, fill=1))
