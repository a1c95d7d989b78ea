"""Pooling tasks as registers: those of the vendor's recorded ones, and what is refused."""

from dataclasses import replace

import pytest

from delegate.chip.chips import DEFAULT
from delegate.chip.element import Element
from delegate.errors import EncodingError
from delegate.lower.task import BufferId, OutputCube, PoolTask, Ref
from delegate.npu.regcmd import encode_task

_CHIP = replace(DEFAULT, lacks=frozenset())
"""RK3588 with a driver that waits for the pooling unit."""

_CUBE = OutputCube(Ref(BufferId.SCRATCH, 0), 20, 10, 32, 32, 20 * 20 * 16, 1, 20 * 16)
_TASK = PoolTask(
    tile="",
    source=Ref(BufferId.INPUT, 64),
    height=20,
    width=12,
    source_line_stride_bytes=20 * 16,
    source_surface_stride_bytes=20 * 20 * 16,
    output=_CUBE,
    kernel=(5, 5),
    strides=(1, 1),
    pad_before=(2, 2),
    pad_after=(2, 0),
)
"""The left half of a map of 20 x 20 pixels under a window of 5 x 5, as vendor programs cut it."""

_RECORDED = {
    0x600C: 11, 0x6010: 19, 0x6014: 31, 0x6018: 9, 0x601C: 19, 0x6020: 31, 0x6024: 0x000A0011,
    0x6034: 0x0404, 0x6038: 13107, 0x603C: 13107, 0x6040: 0x2022, 0x6044: 0xFFFFFF80, 0x6048: 7,
    0x607C: 6400, 0x6084: 6400, 0x60DC: 3, 0x700C: 11, 0x7010: 19, 0x7014: 31,
    0x7024: 320, 0x7028: 6400, 0x7030: 1,
}  # fmt: skip
"""By the facts of hardware.md section 10 and whole_graph.md section 3, worked out by hand."""


def test_registers_are_those_that_the_facts_give() -> None:
    segment = encode_task(_CHIP, "", _TASK)
    values = {word & 0xFFFF: word >> 16 & 0xFFFFFFFF for word in segment.words}
    assert len(segment.words) == 26
    assert {offset: values[offset] for offset in _RECORDED} == _RECORDED
    assert (segment.enable_mask, segment.int_mask) == (0x60, 0xC00)
    places = {segment.words[slot.word] & 0xFFFF: slot.target for slot in segment.addresses}
    assert places == {0x6070: _CUBE.target, 0x701C: _TASK.source}


def test_fp16_has_its_own_least_value_and_precision() -> None:
    cube = replace(_CUBE, channels=16, channels_real=16, element_bytes=2)
    segment = encode_task(_CHIP, "", replace(_TASK, output=cube, element=Element.FP16))
    values = {word & 0xFFFF: word >> 16 & 0xFFFFFFFF for word in segment.words}
    assert (values[0x6044], values[0x6048], values[0x6084] & 7, values[0x7030]) == (0xFC00, 0, 2, 2)


@pytest.mark.parametrize(
    ("changes", "register"),
    [
        ({"width": 11}, "DATA_CUBE_IN_HEIGHT"),
        ({"width": 13}, "DATA_CUBE_IN_HEIGHT"),
        ({"pad_after": (1, 0)}, "DATA_CUBE_IN_HEIGHT"),
        ({"output": replace(_CUBE, width=17), "width": 19}, "DATA_CUBE_OUT_WIDTH"),
        ({"kernel": (2, 2), "strides": (3, 2)}, "KERNEL_STRIDE_HEIGHT"),
        ({"output": replace(_CUBE, channels=24)}, "DATA_CUBE_OUT_CHANNEL"),
    ],
)
def test_what_starved_or_hung_is_refused(changes: dict[str, object], register: str) -> None:
    with pytest.raises(EncodingError, match=register):
        encode_task(_CHIP, "", replace(_TASK, **changes))
