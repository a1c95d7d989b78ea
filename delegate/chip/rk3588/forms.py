"""Forms of RK3588's tasks.

Settings have the names of the recorded forms (``known_forms.json``), so that a task of ours can be
compared with others' value by value. A setting is a register without its numbers, or 1 or 0 for a
number that is there or not (a gap between rows, say).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from delegate.chip.chip import ZEROS, Form, Registers

CNA, DPU, RDMA, PPU = 0x01, 0x08, 0x10, 0x60
"""Bits of the enable mask: blocks that start."""

_FP16 = 2
_FLOATS = (_FP16, 5)  # of the DPU: fp16, fp32
_DEPTHWISE = 3
_BYPASS, _OPERATION_BYPASS, _TABLE_BYPASS = 0x1, 0x2, 0x80  # of BS_CFG, BN_CFG, EW_CFG

_EW_CFG, _DATA_FORMAT, _CONV_CON1 = 0x4070, 0x4010, 0x100C


def _some(value: int) -> str:
    return str(int(value != 0))


def _only(mask: int) -> Callable[[int], str]:
    return lambda value: hex(value & mask)


def _bits(high: int, low: int) -> Callable[[int], str]:
    return lambda value: hex(_field(value, high, low))


def _some_bits(high: int, low: int) -> Callable[[int], str]:
    return lambda value: _some(_field(value, high, low))


def _field(value: int, high: int, low: int) -> int:
    return value >> low & (1 << (high - low + 1)) - 1


Part = tuple[str, int, Callable[[int], str]]
"""A setting's name, the register's offset, and what of its value is no number."""

_CNA_PARTS: Final[tuple[Part, ...]] = (
    ("CONV_CON1", _CONV_CON1, hex),
    ("CONV_CON2.hi", 0x1010, _only(0xFFFFC00F)),  # without the rows that are fetched ahead
    ("CONV_CON3.rest", 0x1014, _only(0xFC00C0C0)),  # without strides, dilations, spreads
    ("deconv_stride", 0x1014, _bits(13, 8)),
    ("CBUF_CON0.flags", 0x1040, _only(0xFFFFFF00)),  # without the banks
    ("CBUF_CON1.hi", 0x1044, _bits(31, 14)),
    ("FC_CON0", 0x1048, hex),
    ("CVT_CON0", 0x104C, hex),
    ("FC_CON1", 0x1060, hex),
    ("DMA_CON0", 0x1078, hex),
    ("CORE_MISC", 0x3010, hex),
)
_DPU_PARTS: Final[tuple[Part, ...]] = (
    ("FEATURE_MODE", 0x400C, hex),
    ("DATA_FORMAT.prec", _DATA_FORMAT, _only(0xE000000F)),
    ("DF.me", _DATA_FORMAT, _bits(28, 26)),
    ("NOTCH", 0x4038, _some),
    ("BS_CFG", 0x4040, hex),
    ("BS_OW", 0x4050, hex),
    ("BN_CFG", 0x4060, hex),
    ("EW_CFG", _EW_CFG, hex),
    ("OUT_SHIFT.flags", 0x4088, _only(0xFFFFF000)),
)
_TABLE_PARTS: Final[tuple[Part, ...]] = (
    ("LUT_CFG", 0x4108, hex),
    ("LUT_INFO", 0x410C, hex),
)
_RDMA_PARTS: Final[tuple[Part, ...]] = (
    ("EW_LINE_NOTCH", 0x5010, _some_bits(28, 16)),
    ("BRDMA", 0x501C, hex),
    ("NRDMA", 0x5028, hex),
    ("ERDMA", 0x5034, hex),
    ("RDMA_MODE", 0x5044, hex),
    ("SRC_DMA", 0x5048, _only(0x7FFFF)),
    ("SRC_LINE_NOTCH", 0x5048, _some_bits(31, 19)),
    ("SURF_NOTCH", 0x504C, _some),
    ("PAD_CFG", 0x5064, hex),
    ("WEIGHT5068", 0x5068, hex),
    ("EW_SURF_NOTCH", 0x506C, _some),
)
_PPU_PARTS: Final[tuple[Part, ...]] = (
    ("PPU_MODE", 0x6024, _only(0xE000FFFF)),  # without the gap between rows
    ("PPU_NOTCH", 0x6024, _some_bits(28, 16)),
    ("PPU_K", 0x6034, hex),
    ("PPU_FMT", 0x6084, _only(0xF)),  # without the bytes between surfaces
    ("PPU_MISC", 0x60DC, hex),
    ("PRDMA_FMT", 0x7030, hex),
)


_BLOCKS: Final = ((CNA, _CNA_PARTS), (DPU, _DPU_PARTS), (RDMA, _RDMA_PARTS), (PPU, _PPU_PARTS))


def form_of(enable_mask: int, registers: Registers) -> Form:
    """Return the form of the task that starts ``enable_mask`` with ``registers``."""
    found = [
        (name, setting(registers.get(offset, 0)))
        for block, parts in _BLOCKS
        for name, offset, setting in (parts if enable_mask & block else ())
    ]
    if enable_mask & CNA:
        apart = registers.get(0x1014, 0)
        rows, columns = _field(apart, 25, 21), _field(apart, 20, 16)
        found += [
            ("dil", f"{'d' if rows else 1}x{'d' if columns else 1}"),
            ("DCOMP", hex(registers.get(0x1100, 0) | registers.get(0x1104, 0))),
            ("CLIP", _some(registers.get(0x301C, 0) & 0x1F)),
        ]
    if enable_mask & DPU:
        found += _dpu(registers)
    settings = {name: value for name, value in found if value not in ZEROS}
    return Form(_kind(enable_mask, registers), settings)


def _kind(mask: int, registers: Registers) -> str:
    if mask == PPU or not mask & (CNA | DPU):
        is_half = _field(registers.get(0x6084, 0), 2, 0) == _FP16
        return "ppu_fp" if is_half else "ppu"
    if not mask & CNA:
        is_half = _field(registers.get(_DATA_FORMAT, 0), 2, 0) in _FLOATS
        return "fly_fp" if is_half else "fly"
    control = registers.get(_CONV_CON1, 0)
    name = "dw" if _field(control, 3, 0) == _DEPTHWISE else "conv"
    name = f"de{name}" if _field(control, 16, 16) else name
    return f"{name}_fp" if _field(control, 6, 4) == _FP16 else name


def _dpu(registers: Registers) -> Iterator[tuple[str, str]]:
    get = registers.get
    if not get(0x4040, 0) & _BYPASS:
        yield "BS_MUL.src", hex(get(0x4048, 0) & 0xC0FF)
    if not get(0x4060, 0) & _BYPASS:
        yield "BN_MUL.src", hex(get(0x4068, 0) & 0xC0FF)
    ew = get(_EW_CFG, 0)
    if not ew & (_BYPASS | _OPERATION_BYPASS):
        yield "EW_TRUNC", _some(_field(get(0x4078, 0), 31, 22))
    scale = get(0x4084, 0)
    yield "OUT_CVT.sc", hex(scale >> 16) + ("neg" if scale & 0x8000 else "")
    looks_up = not ew & _BYPASS and not ew & _TABLE_BYPASS
    yield "LUT_used", str(int(looks_up))
    if looks_up:
        yield from ((name, setting(get(offset, 0))) for name, offset, setting in _TABLE_PARTS)
        ends = (get(offset, 0) for offset in (0x4110, 0x4114, 0x4118, 0x411C))
        yield "LUT_RANGE", "/".join(str(end - (end >> 31 << 32)) for end in ends)
        yield "LUT_SLOPES", hex(sum(int(get(0x4120 + 4 * i, 0) != 0) << i for i in range(4)))
    yield "SIZE_E", str(_field(get(0x4050, 0), 4, 2))
    same = _field(get(0x405C, 0), 12, 0) == _field(get(0x4030, 0), 12, 0) and _field(
        get(0x405C, 0), 28, 16
    ) == _field(get(0x4034, 0), 12, 0)
    yield "WDMA_same", str(int(same))
