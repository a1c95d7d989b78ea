"""Small hand-made tasks: geometry by the layout rules, no tiling, no quantisation."""

from dataclasses import replace
from typing import Any

from delegate.lower.numerics.pipeline import OutConvert
from delegate.lower.task import (
    BsStage,
    BufferId,
    ConvTask,
    ElementwiseTask,
    EwStage,
    FeatureInput,
    OutputCube,
    Ref,
    Source,
    Weights,
)


def align(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def surface_bytes(h: int, w: int) -> int:
    """One surface, its pixels rounded up to 4."""
    return align(h * w, 4) * 16


def row_entries(w: int, channels: int) -> int:
    """CBUF entries of 64 bytes per row of int8 channels, a remainder of 48 rounded up to 64."""
    full, rest = divmod(channels, 64)
    steps = next(step for step in (0, 16, 32, 64) if step >= rest)
    return w * full + -(-w * steps // 64)


def per_channel(operands: Ref) -> BsStage:
    """An addend, a multiplier and a zero point of weights for each channel."""
    memory = Source.MEMORY
    return BsStage(memory, mul=memory, ow=memory, shift=14, shift_negative=14, operands=operands)


def conv_task(
    *,
    h: int = 7,
    w: int = 5,
    c: int = 16,
    oc: int = 32,
    kh: int = 3,
    kw: int = 3,
    stride: int = 1,
    dilation: int = 1,
    pad_top: int = 1,
    pad_left: int = 1,
    oh: int | None = None,
    ow: int | None = None,
    depthwise: bool = False,
    source: Ref | None = None,
    weights: Ref | None = None,
    target: Ref | None = None,
    pad_value: int = -128,
    bs: BsStage | None = None,
    ew: EwStage | None = None,
    out: OutConvert | None = None,
    tile: str = "",
    weight_reuse: bool = False,
    **more: object,
) -> ConvTask:
    oh = oh if oh is not None else -(-h // stride)
    ow = ow if ow is not None else -(-w // stride)
    group = 64 if depthwise else 32
    c16 = align(c, 16)
    kernels = 1 if depthwise else align(oc, 2)
    per_kernel = kh * kw * c16
    return ConvTask(
        tile=tile,
        feature=FeatureInput(
            source=source or Ref(BufferId.INPUT, 0),
            height=h,
            width=w,
            channels=c16,
            channels_real=c,
            line_stride_bytes=w * 16,
            surface_stride_bytes=surface_bytes(h, w),
            entries_per_row=row_entries(w, c16),
            pad_top=pad_top,
            pad_left=pad_left,
            pad_value=pad_value,
        ),
        weights=Weights(
            weights or Ref(BufferId.CONSTANTS, 1024),
            per_kernel * kernels,
            per_kernel,
            kernels,
            kh,
            kw,
        ),
        data_banks=4,
        weight_banks=8,
        weight_reuse=weight_reuse,
        output=OutputCube(
            target=target or Ref(BufferId.OUTPUT, 0),
            height=oh,
            width=ow,
            channels=align(oc, group),
            channels_real=oc,
            surface_stride_bytes=surface_bytes(oh, ow),
            surfaces_per_group=group // 16,
        ),
        bs=bs
        or BsStage(alu=Source.MEMORY, ow=Source.REGISTER, operands=Ref(BufferId.CONSTANTS, 0)),
        out_convert=out or OutConvert(scale=0x4000, shift=20, offset=-5),
        strides=(stride, stride),
        dilations=(dilation, dilation),
        is_depthwise=depthwise,
        ew=ew,
        **more,  # type: ignore[arg-type]
    )


def add_task(
    *,
    h: int = 7,
    w: int = 5,
    c: int = 16,
    a: Ref | None = None,
    b: Ref | None = None,
    target: Ref | None = None,
    bs: BsStage | None = None,
    ew: EwStage | None = None,
    out: OutConvert | None = None,
    tile: str = "",
) -> ElementwiseTask:
    pitch = surface_bytes(h, w)
    c16 = align(c, 16)
    return ElementwiseTask(
        tile=tile,
        source=a or Ref(BufferId.INPUT, 0),
        source_surface_stride_bytes=pitch,
        output=OutputCube(
            target=target or Ref(BufferId.OUTPUT, 0),
            height=h,
            width=w,
            channels=c16,
            channels_real=c,
            surface_stride_bytes=pitch,
            surfaces_per_group=1,
        ),
        bs=bs
        or BsStage(
            alu=Source.REGISTER,
            alu_operand=3,
            mul=Source.REGISTER,
            mul_operand=0x4000,
            shift=2,
            shift_negative=2,
        ),
        ew=ew
        or EwStage(
            operand=b or Ref(BufferId.INPUT, pitch * (c16 // 16)),
            surface_stride_bytes=pitch,
            offset=-7,
            scale=0x5000,
            shift=1,
        ),
        out_convert=out or OutConvert(scale=0x4000, shift=26, offset=11),
    )


def changed(task: Any, part: str, **fields: object) -> Any:
    """Return a task with other fields in a part of it, such as "bs", or without one in itself."""
    return replace(task, **({part: replace(getattr(task, part), **fields)} if part else fields))
