"""Programs for RK3576, read back by a decoder that knows neither the encoder nor its tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from delegate.chip.rk3576 import RK3576
from delegate.lower.task import ConvTask
from delegate.npu.encode import encode_task
from tests.loops import for_each
from tests.npu.rk3576_decoder import LARGEST, LEAST, Convolution, DisagreementError, read
from tests.npu.test_rk3576 import CASES, conv_layer, conv_task

OF_ENCODER_ALONE = (
    *("CNA.CVT_", "CNA.UNDOCUMENTED_", "CNA.DMA_CON0", "CNA.DCOMP_CTRL", "CNA.DCOMP_REGNUM"),
    *("CNA.DCOMP_AMOUNT", "CORE.CLIP_TRUNCATE", "DPU.FEATURE_MODE_CFG", "DPU.DATA_FORMAT"),
    *("DPU.OFFSET_PEND", "DPU.DATA_CUBE_NOTCH", "DPU.UNDOCUMENTED_", "DPU.EW_CVT", "DPU.EW_M"),
    *("DPU.EW_OP", "DPU.OUT_M", "DPU.LUT_", "DPU_RDMA.RDMA_SRC", "DPU_RDMA.RDMA_NRDMA"),
    *("DPU_RDMA.RDMA_BN", "DPU_RDMA.RDMA_EW", "DPU_RDMA.UNDOCUMENTED_"),
)
"""Beginnings of names: what the description gives no number for; ``rk3576_oracle`` has them."""


def _said(task: ConvTask) -> Convolution:
    """Return what ``task`` says, in the decoder's terms."""
    feature, weights, output = task.feature, task.weights, task.output
    kernel = weights.kh, weights.kw
    stride, dilation = task.strides, task.dilations
    before = feature.pad_top, feature.pad_left
    inputs, outputs = (feature.height, feature.width), (output.height, output.width)
    behind = [
        max(0, (o - 1) * s + (k - 1) * d + 1 - b - i)
        for o, s, k, d, b, i in zip(outputs, stride, kernel, dilation, before, inputs, strict=True)
    ]
    assert task.bs.operands is not None
    assert task.bs.scalars is not None
    top = LARGEST if task.bn.relux_max is None else task.bn.relux_max
    return Convolution(
        is_depthwise=task.is_depthwise,
        core=task.core,
        stride=stride,
        dilation=dilation,
        kernel=kernel,
        kernels=weights.kernels,
        channels=feature.channels,
        input_size=inputs,
        input_address=feature.source.offset,
        input_surface=feature.surface_stride_bytes // 16,
        padding=(*before, *behind),
        pad_value=feature.pad_value,
        entries_per_row=feature.entries_per_row,
        data_banks=task.cbuf.data_banks,
        weight_address=weights.source.offset,
        weight_bytes=weights.total_bytes,
        output_size=outputs,
        output_channels=output.channels_real,
        output_address=output.target.offset,
        output_surface=output.surface_stride_bytes // 16,
        output_group_step=output.surfaces_per_group * output.surface_stride_bytes // 16,
        operands=task.bs.operands.offset,
        scalars=task.bs.scalars.offset,
        limits=(0, top) if task.bn.relu else (LEAST, LARGEST),
        scale=task.out_convert.scale,
        shift=task.out_convert.shift,
        offset=task.out_convert.offset,
    )


@for_each("seed", CASES)
def test_programs_say_what_their_tasks_say(seed):
    task = conv_task(conv_layer(seed))
    found = read(encode_task(RK3576, "layer", task).words)
    assert asdict(found) == asdict(_said(task))


def _moved_fields(words: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The program with each field in turn a bit too high, or with a 1 where it is 0; and with each
    register in turn where the next one belongs.
    """
    for place, word in enumerate(words):
        register = RK3576.registers.by_address[word >> 48, word & 0xFFFF]
        if register.full_name.startswith(OF_ENCODER_ALONE):
            continue
        yield register.full_name, (*words[:place], word + 4, *words[place + 1 :])
        value = word >> 16 & 0xFFFFFFFF
        for field in register.fields:
            moved = (value & field.mask) << 1 & 0xFFFFFFFF
            number = value & ~field.mask | (moved or 1 << field.lo)
            changed = word & ~(0xFFFFFFFF << 16) | number << 16
            if changed != word:
                name = f"{register.full_name}.{field.name}"
                yield name, (*words[:place], changed, *words[place + 1 :])


@pytest.mark.parametrize("seed", [2, 3])
def test_a_field_in_another_place_is_noticed(seed):
    words = encode_task(RK3576, "layer", conv_task(conv_layer(seed))).words
    right = read(words)
    unnoticed = []
    for name, changed in _moved_fields(words):
        try:
            found = read(changed)
        except DisagreementError:
            continue
        if found == right:
            unnoticed.append(name)
    assert unnoticed == []
