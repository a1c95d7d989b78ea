"""Reads a convolution's program for RK3576 back from its words alone.

Written from the description of the vendor's programs without a look at the encoder, the tables of
registers or the simulator, and shares nothing with them: positions of bits are written down here.
``read`` gives the geometry of a program, checks what its registers say more than once against each
other, and raises ``DisagreementError`` for what the description does not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

GRANULE = 64  # bytes of CBUF
BANK_GRANULES = 1024
CORE_BANKS = 7
BLOCKS = {0x1: 0x0201, 0x3: 0x0801, 0x4: 0x1001, 0x5: 0x2001}
LEAST, LARGEST = -(1 << 31), (1 << 31) - 1


class DisagreementError(Exception):
    """A program says something that the description does not have, or two different things."""


@dataclass(frozen=True)
class Convolution:
    """Counts as they are, addresses in bytes, pitches in pixels of 16 bytes."""

    is_depthwise: bool
    core: int
    stride: tuple[int, int]  # rows, columns
    dilation: tuple[int, int]
    kernel: tuple[int, int]
    kernels: int
    channels: int
    input_size: tuple[int, int]  # rows, columns of the tile
    input_address: int
    input_surface: int
    padding: tuple[int, int, int, int]  # top, left, bottom, right
    pad_value: int
    entries_per_row: int
    data_banks: int
    weight_address: int
    weight_bytes: int
    output_size: tuple[int, int]
    output_channels: int
    output_address: int
    output_surface: int
    output_group_step: int  # from a group of channels' first pixel to the next one's
    operands: int
    scalars: int
    limits: tuple[int, int]
    scale: int
    shift: int
    offset: int


def signed(value: int, bits: int = 32) -> int:
    """Two's complement."""
    return value - (1 << bits) if value >> (bits - 1) else value


class _Words:
    """Registers by offset; a register that is written twice has to say the same."""

    def __init__(self, words: Iterable[int]) -> None:
        self.found: dict[int, int] = {}
        for word in words:
            block, value, offset = word >> 48, word >> 16 & 0xFFFFFFFF, word & 0xFFFF
            _same(f"block of {offset:#x}", block, BLOCKS.get(offset >> 12))
            _same(f"{offset:#x}, written again", value, self.found.setdefault(offset, value))

    def bits(self, offset: int, high: int = 31, low: int = 0) -> int:
        if offset not in self.found:
            raise DisagreementError(f"{offset:#x} is not written")
        return self.found[offset] >> low & ((1 << (high - low + 1)) - 1)

    def halves(self, offset: int) -> tuple[int, int]:
        return self.bits(offset, 31, 16), self.bits(offset, 15, 0)

    def only(self, offset: int, expected: int) -> None:
        _same(f"{offset:#x}", self.bits(offset), expected)


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise DisagreementError(f"{what}: {found} instead of {expected}")


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _more(outputs: int, stride: int, reach: int, before: int, inputs: int) -> int:
    """Return what the last window uses behind the input."""
    return max(0, (outputs - 1) * stride + reach - before - inputs)


def read(words: Iterable[int]) -> Convolution:
    """The convolution of one task, of the words before the tail. Raises DisagreementError."""
    w = _Words(words)
    for pointer in (0x1004, 0x3004, 0x4004, 0x5004):
        w.only(pointer, 0xE)
    is_depthwise = {0: False, 1: True}.get(w.bits(0x100C))
    if is_depthwise is None:
        raise DisagreementError(f"mode {w.bits(0x100C):#x}")
    core, data_banks, entries = _buffer(w)
    _same("0x1014, other bits", w.bits(0x1014) & ~0x3FF003F, 0)
    stride = w.bits(0x1014, 5, 3), w.bits(0x1014, 2, 0)
    dilation = w.bits(0x1014, 25, 21) + 1, w.bits(0x1014, 20, 16) + 1
    kernel = w.bits(0x1024, 31, 24) + 1, w.bits(0x1024, 23, 16) + 1
    channels = w.bits(0x1028, 15, 0) + 1
    columns, rows = (v + 1 for v in w.halves(0x102C))
    _same("0x1028 hi", w.bits(0x1028, 31, 16), entries * rows)
    _same("0x1044", w.halves(0x1044), (columns, entries))
    _same("0x1078", w.halves(0x1078), (columns - 1, rows - 1))
    _same("0x1090, in units of 4 bytes", w.bits(0x1090) * 4, columns * 16)
    _same("0x1098", w.bits(0x1098), _up(columns * rows, 4))
    _same("0x118c", w.halves(0x118C), (columns - 1, columns - 1))
    out_rows, out_columns = (v + 1 for v in w.halves(0x301C))
    _same("0x1030 lo", w.bits(0x1030, 15, 0), out_columns - 1)
    _same("0x1034", w.bits(0x1034), out_rows * out_columns - 1)
    padding = _padding(w, (out_rows, out_columns), stride, kernel, dilation, (rows, columns))
    kernels = _weights(w, is_depthwise, kernel, channels)
    output_channels = w.bits(0x3020) + 1
    _same("kernels and channels", output_channels, channels if is_depthwise else kernels)
    _core_and_output(w, is_depthwise, (out_rows, out_columns), output_channels)
    return Convolution(
        is_depthwise=is_depthwise,
        core=core,
        stride=stride,
        dilation=dilation,
        kernel=kernel,
        kernels=kernels,
        channels=channels,
        input_size=(rows, columns),
        input_address=w.bits(0x1088),
        input_surface=w.bits(0x1094),
        padding=padding,
        pad_value=signed(w.bits(0x1084)),
        entries_per_row=entries,
        data_banks=data_banks,
        weight_address=w.bits(0x1110),
        weight_bytes=w.bits(0x101C),
        output_size=(out_rows, out_columns),
        output_channels=output_channels,
        output_address=w.bits(0x4018),
        output_surface=w.bits(0x401C),
        output_group_step=w.bits(0x40B8) + out_rows * out_columns,
        operands=w.bits(0x5020),
        scalars=w.bits(0x5024),
        limits=_limits(w),
        scale=_scale(w),
        shift=w.bits(0x40B4),
        offset=signed(w.bits(0x40AC)),
    )


def _buffer(w: _Words) -> tuple[int, int, int]:
    """The core, its banks for features, and granules per row; nothing is kept of other tasks."""
    w.only(0x1010, 0xFFF)
    core = w.bits(0x1038, 8, 8)
    first = CORE_BANKS * core
    w.only(0x1038, core << 8 | first + CORE_BANKS)
    banks = w.bits(0x1018, 15, 8)
    w.only(0x1018, 1 << 30 | banks << 8 | first + banks)
    start = first * BANK_GRANULES
    _same("0x103c lo", w.bits(0x103C, 15, 0), start)
    _same("0x1040", w.halves(0x1040), (start + banks * BANK_GRANULES, start))
    return core, banks, w.bits(0x103C, 31, 16)


def _padding(
    w: _Words,
    outputs: tuple[int, int],
    stride: tuple[int, int],
    kernel: tuple[int, int],
    dilation: tuple[int, int],
    inputs: tuple[int, int],
) -> tuple[int, int, int, int]:
    right, bottom, left, top = (w.bits(0x1080, low + 7, low) for low in (24, 16, 8, 0))
    before = top, left
    behind = tuple(
        _more(outputs[i], stride[i], (kernel[i] - 1) * dilation[i] + 1, before[i], inputs[i])
        for i in range(2)
    )
    _same("0x1080, at the bottom and on the right", (bottom, right), behind)
    return top, left, bottom, right


def _weights(w: _Words, is_depthwise: bool, kernel: tuple[int, int], channels: int) -> int:
    """Return how many kernels there are; one per channel in depthwise mode, counted as one."""
    elements = kernel[0] * kernel[1] * channels
    count = w.bits(0x1024, 15, 0) + 1
    _same("0x1020", w.bits(0x1020), elements)
    if is_depthwise:
        _same("0x1024 lo", count, 2)
        _same("0x101c, two bytes per tap", w.bits(0x101C), 2 * elements)
        _same("0x1030 hi", w.bits(0x1030, 31, 16), elements // 8)
        return 1
    _same("0x101c", w.bits(0x101C), elements * count)
    _same("0x1030 hi", w.bits(0x1030, 31, 16), 2 * elements & 0xFFFF)
    return count


def _core_and_output(w: _Words, is_depthwise: bool, size: tuple[int, int], channels: int) -> None:
    rows, columns = size
    both = rows - 1, columns - 1
    w.only(0x3018, 0x1000000A if is_depthwise else 0x10000001)
    _same("0x4024 and 0x4020", (w.bits(0x4024), w.bits(0x4020)), both)
    _same("0x402c", w.bits(0x402C), channels - 1)
    _same("0x107c", w.bits(0x107C), w.bits(0x1028, 15, 0))
    _same("0x500c and 0x5010", (w.bits(0x5010), w.bits(0x500C)), both)
    _same("0x5014", w.bits(0x5014), channels - 1)
    w.only(0x4030, channels - 1 << 16 | (0x310 if is_depthwise else 0x710))
    _same("0x4034", w.halves(0x4034), both)
    w.only(0x4038, 0x100092 if is_depthwise else 0x120080)
    w.only(0x4044, 0 if is_depthwise else 1)
    surfaces = _up(channels, 16) // 16
    if is_depthwise:
        w.only(0x4050, 0x13033 + ((surfaces - 1 & 3) << 8))
    else:
        w.only(0x4050, 0x80011011 if surfaces % 2 else 0x80011111)
    w.only(0x407C, 0x10041C1)
    w.only(0x40C0, 0x4440100)
    w.only(0x40D0, 0x40FFFF)
    w.only(0x501C, 0x510 if is_depthwise else 0x710)
    w.only(0x5034, 0x41)
    w.only(0x5044, 0x40000012 if is_depthwise else 0x40000010)
    pitch = (4 if is_depthwise else 2) * w.bits(0x401C)
    _same("0x40b8", w.bits(0x40B8), pitch - rows * columns)


def _limits(w: _Words) -> tuple[int, int]:
    """The activation's, which BN's mode has to agree with."""
    limits = signed(w.bits(0x406C)), signed(w.bits(0x4070))
    _same("0x4074 and 0x4078", (signed(w.bits(0x4074)), signed(w.bits(0x4078))), limits)
    is_off = limits == (LEAST, LARGEST)
    w.only(0x4060, 0x903 if is_off else 0x902)
    for least in (0x4048, 0x4058):
        _same(f"{least:#x}", (signed(w.bits(least)), signed(w.bits(least + 4))), (LEAST, LARGEST))
    return limits


def _scale(w: _Words) -> int:
    _same("0x40b0, flying", w.bits(0x40B0, 31, 16), 0)
    return signed(w.bits(0x40B0, 15, 0), 16)
