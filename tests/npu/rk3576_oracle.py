"""A second reading of RK3576's registers: whole 32-bit numbers by offset, from plain geometry.

Shares nothing with the tables or the encoder: offsets, shifts and constants are written down from
the description of the vendor's programs, as one number per register.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A tile of a convolution on one core; counts as they are, addresses in bytes."""

    is_depthwise: bool
    channels: int  # a multiple of 16
    kernels: int  # depthwise: as many as channels
    kernel: int
    stride: int
    dilation: int
    left: int
    top: int
    pad_value: int
    in_width: int
    in_rows: int  # of the tile
    in_full_pixels: int  # of a surface in memory
    out_width: int
    out_rows: int
    out_full_pixels: int
    limits: tuple[int, int] | None
    scale: int
    shift: int
    offset: int
    addresses: dict[int, int]
    second_core: bool = False


def entries_of_row(width: int, channels: int) -> int:
    """Granules of 64 bytes: whole ones per pixel, what is left in 16, 32 or 64 bytes per pixel."""
    left = {0: 0, 16: 16, 32: 32, 48: 64}[channels % 64]
    return channels // 64 * width + (left * width + 63) // 64


def _u32(value: int) -> int:
    return value & 0xFFFFFFFF


def registers(n: Layer) -> dict[int, int]:
    """Offset to content, of everything that a convolution writes."""
    words = dict.fromkeys(_ZERO, 0)
    taps = n.kernel**2
    row = entries_of_row(n.in_width, n.channels)
    upper, bank = (0x1C00, 7) if n.second_core else (0, 0)
    reach = (n.kernel - 1) * n.dilation + 1
    right = max(0, (n.out_width - 1) * n.stride + reach - n.left - n.in_width)
    bottom = max(0, (n.out_rows - 1) * n.stride + reach - n.top - n.in_rows)
    weight_bytes = taps * n.channels * (2 if n.is_depthwise else n.kernels)
    both = n.out_rows - 1 << 16 | n.out_width - 1
    size_in = n.in_width - 1 << 16 | n.in_rows - 1
    words |= dict.fromkeys((0x1004, 0x3004, 0x4004, 0x5004), 0xE)
    words |= {
        0x100C: 1 if n.is_depthwise else 0,
        0x1010: 0xFFF,
        0x1014: n.dilation - 1 << 21 | n.dilation - 1 << 16 | n.stride << 3 | n.stride,
        0x1018: 1 << 30 | 4 << 8 | 4 + bank,
        0x101C: weight_bytes,
        0x1020: taps * n.channels,
        0x1024: n.kernel - 1 << 24 | n.kernel - 1 << 16 | (1 if n.is_depthwise else n.kernels - 1),
        0x1028: row * n.in_rows << 16 | n.channels - 1,
        0x102C: size_in,
        0x1030: (taps * n.channels // 8 if n.is_depthwise else 2 * taps * n.channels) << 16
        | n.out_width - 1,
        0x1034: n.out_width * n.out_rows - 1,
        0x1038: 0x10E if n.second_core else 7,
        0x103C: row << 16 | upper,
        0x1040: 4096 + upper << 16 | upper,
        0x1044: n.in_width << 16 | row,
        0x1048: 0xB,
        0x104C: 0x10001,
        0x1050: 0x10001,
        0x1078: size_in,
        0x107C: n.channels - 1,
        0x1080: right << 24 | bottom << 16 | n.left << 8 | n.top,
        0x1084: _u32(n.pad_value),
        0x108C: 0xF000F,
        0x1090: 4 * n.in_width,
        0x1094: n.in_full_pixels,
        0x1098: (n.in_width * n.in_rows + 3) // 4 * 4,
        0x118C: n.in_width - 1 << 16 | n.in_width - 1,
        0x3018: 0x1000000A if n.is_depthwise else 0x10000001,
        0x301C: both,
        0x3020: n.kernels - 1,
        0x400C: 0x4000000C if n.is_depthwise else 0x40000004,
        0x401C: n.out_full_pixels,
        0x4020: n.out_width - 1,
        0x4024: n.out_rows - 1,
        0x402C: n.kernels - 1,
        0x4030: n.kernels - 1 << 16 | (0x310 if n.is_depthwise else 0x710),
        0x4034: both,
        0x4038: 0x100092 if n.is_depthwise else 0x120080,
        0x4044: 0 if n.is_depthwise else 1,
        0x4050: 0x13033 + (((n.kernels + 15) // 16 - 1 & 3) << 8)
        if n.is_depthwise
        else (0x80011111 if (n.kernels + 15) // 16 % 2 == 0 else 0x80011011),
        0x4060: 0x903 if n.limits is None else 0x902,
        0x407C: 0x10041C1,
        0x4084: 1,
        0x40AC: _u32(n.offset),
        0x40B0: n.scale,
        0x40B4: n.shift,
        0x40B8: n.out_full_pixels * (4 if n.is_depthwise else 2) - n.out_width * n.out_rows,
        0x40C0: 0x4440100,
        0x40D0: 0x40FFFF,
        0x500C: n.out_width - 1,
        0x5010: n.out_rows - 1,
        0x5014: n.kernels - 1,
        0x501C: 0x510 if n.is_depthwise else 0x710,
        0x5034: 0x41,
        0x5044: 0x40000012 if n.is_depthwise else 0x40000010,
    }
    for least in (0x4048, 0x4058, 0x406C, 0x4074, 0x4088, 0x40A4):
        words |= {least: 0x80000000, least + 4: 0x7FFFFFFF}
    if n.limits is not None:
        for least in (0x406C, 0x4074):
            words |= {least: _u32(n.limits[0]), least + 4: _u32(n.limits[1])}
    return words | n.addresses


_ZERO = (
    *range(0x1054, 0x1078, 4),
    *(0x109C, 0x1100, 0x1104, 0x1140, 0x1144, 0x3024),
    *(0x4010, 0x4014, 0x4028, 0x403C, 0x4080, 0x4090, 0x4094, 0x409C, 0x40BC, 0x40C8, 0x40CC),
    *range(0x4100, 0x4124, 4),
    *(0x4130, *range(0x4140, 0x4158, 4), 0x4160, 0x4170, 0x4174, *range(0x4184, 0x4198, 4)),
    *(0x5018, 0x5028, 0x502C, 0x5030, 0x5038, 0x5040),
    *(0x5048, 0x504C, 0x5064, 0x506C, 0x5078, 0x507C),
)
