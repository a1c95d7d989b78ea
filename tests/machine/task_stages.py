"""One task in plain NumPy, stage by stage, as the text of ``delegate.lower.task`` reads.

Shares no code with lowering, encoding or the simulator: it unpacks the packed bytes, walks the
strides and applies the stages in int64.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.task import (
    BnStage,
    BsStage,
    ConvTask,
    ElementwiseTask,
    EwStage,
    OutConvert,
    OutputCube,
    Ref,
    Source,
    TableUse,
    Task,
)
from tests.machine.dpu_arithmetic import Array, half_even, rounded, shift_by_sign


class StageOverflowError(ArithmeticError):
    """A value left the range of its register stage; the text says where."""


class Memory(Protocol):
    """What a task reads and writes."""

    def rows(
        self, ref: Ref, height: int, width: int, channels: int, line: int, surface: int
    ) -> Array:
        """[height, width, channels] int64 from NC1HWC2."""

    def operand(self, ref: Ref | None, dtype: str, count: int) -> Array:
        """``count`` values of ``dtype`` at ``ref``, as they lie there."""

    def store(self, o: OutputCube, out: Array) -> None:
        """Writes [height, width, channels_real], int8 or int32, as NC1HWC2."""


class TaskRun:
    """One task."""

    def __init__(self, machine: Memory, task: Task) -> None:
        self._machine = machine
        self._real = task.output.channels_real

    def convolution(self, task: ConvTask) -> None:
        f, w, o = task.feature, task.weights, task.output
        x = self._machine.rows(
            f.source, f.height, f.width, f.channels, f.line_stride_bytes, f.surface_stride_bytes
        )
        x = _spread(x, *task.spread, f.pad_value)
        reach_h = (o.height - 1) * task.strides[0] + (w.kh - 1) * task.dilations[0] + 1
        reach_w = (o.width - 1) * task.strides[1] + (w.kw - 1) * task.dilations[1] + 1
        pads = (
            (f.pad_top, max(reach_h - f.pad_top - x.shape[0], 0)),
            (f.pad_left, max(reach_w - f.pad_left - x.shape[1], 0)),
            (0, 0),
        )
        x = np.pad(x, pads, constant_values=f.pad_value)
        weights = self._unpack(task)
        acc = np.zeros((o.height, o.width, self._real), np.int64)
        window = np.zeros_like(acc)
        for ky in range(w.kh):
            for kx in range(w.kw):
                y0, x0 = ky * task.dilations[0], kx * task.dilations[1]
                part = x[
                    y0 : y0 + (o.height - 1) * task.strides[0] + 1 : task.strides[0],
                    x0 : x0 + (o.width - 1) * task.strides[1] + 1 : task.strides[1],
                ]
                if task.is_depthwise:
                    acc += part[:, :, : self._real] * weights[ky, kx, : self._real]
                    window += part[:, :, : self._real]
                else:
                    matrix = weights[: self._real, ky, kx].T.astype(np.float64)
                    acc += np.rint(part.astype(np.float64) @ matrix).astype(np.int64)
                    window += part.sum(axis=2, keepdims=True)
        self._stages(task, acc, window)

    def elementwise(self, task: ElementwiseTask) -> None:
        o = task.output
        x = self._machine.rows(
            task.source, o.height, o.width, o.channels,
            task.source_line_stride_bytes or o.width * 16, task.source_surface_stride_bytes,
        )  # fmt: skip
        value = x[:, :, : self._real]
        self._stages(task, value, None)

    def _unpack(self, task: ConvTask) -> Array:
        """Weights as [o, kh, kw, i] or, depthwise, [kh, kw, c]."""
        w, lanes = task.weights, task.feature.channels
        raw = self._machine.operand(w.source, "i1", w.total_bytes).astype(np.int64)
        at = 0
        if task.is_depthwise:
            parts = []
            for start in range(0, lanes, 64):
                size = min(64, lanes - start)
                parts.append(raw[at : at + w.kh * w.kw * size].reshape(w.kh, w.kw, size))
                at += w.kh * w.kw * size
            return np.concatenate(parts, axis=2)
        out = np.zeros((w.kernels, w.kh, w.kw, lanes), np.int64)
        for o in range(0, w.kernels, 32):
            outputs = min(32, w.kernels - o)
            for i in range(0, lanes, 32):
                inputs = min(32, lanes - i)
                size = w.kh * w.kw * outputs * inputs
                block = raw[at : at + size].reshape(w.kh, w.kw, outputs, inputs)
                out[o : o + outputs, :, :, i : i + inputs] = block.transpose(2, 0, 1, 3)
                at += size
        return out

    def _stages(self, task: Task, value: Array, window: Array | None) -> None:
        value = self._bs(task.bs, task.output, value, window)
        value = self._bn(task.bn, task.output, value)
        if isinstance(task, ElementwiseTask) and task.table is not None:
            value = self._look_up(task.table, value)
        if task.ew is not None:
            value = self._ew(task.ew, task.output, value)
        wide = task.output.element_bytes == 4
        self._machine.store(task.output, self._out_convert(task.out_convert, value, wide))

    def _bs(self, bs: BsStage, o: OutputCube, value: Array, window: Array | None) -> Array:
        alu: Array | int | None = bs.alu_operand if bs.alu is Source.REGISTER else None
        mul: Array | int | None = bs.mul_operand if bs.mul is Source.REGISTER else None
        ow: Array | int | None = bs.ow_operand if bs.ow is Source.REGISTER else None
        if bs.alu is Source.MEMORY and bs.mul is Source.MEMORY:
            raw = self._machine.operand(bs.operands, "u1", o.channels * 8).reshape(-1, 64)
            alu = self._lanes(raw[:, :32], "<i4")
            ow = self._lanes(raw[:, 32:48], "<i2")
            mul = self._lanes(raw[:, 48:], "<i2")
        elif bs.alu is Source.MEMORY:
            operand = self._machine.operand(bs.operands, "<i4", o.channels)
            alu = operand[: self._real].astype(np.int64)
        if window is not None and ow is not None:
            value = value + ow * window
        if alu is not None:
            value = _fits_int32(value + alu, "BS ALU")
        if mul is not None:
            value = self._multiply("BS", value, mul, bs.shift, bs.shift_negative)
        return _clamp(value, bs.relu, bs.relux_max)

    def _lanes(self, raw: Array, dtype: str) -> Array:
        lanes = np.ascontiguousarray(raw).view(dtype).ravel()
        return np.asarray(lanes.astype(np.int64)[: self._real])

    def _bn(self, bn: BnStage, o: OutputCube, value: Array) -> Array:
        """The summand is one of products, and the shift is that of the sum."""
        summand = bn.alu_operand or 0
        if bn.mul is not Source.OFF:
            mul: Array | int = bn.mul_operand
            if bn.mul is Source.MEMORY:
                operand = self._machine.operand(bn.operands, "<i2", o.channels)
                mul = operand[: self._real].astype(np.int64)
            value = self._multiply("BN", value, mul, bn.shift, bn.shift_negative, summand)
        elif bn.alu_operand is not None:
            value = _fits_int32(value + summand, "BN ALU")
        return _clamp(value, bn.relu, bn.relux_max)

    def _look_up(self, table: TableUse, value: Array) -> Array:
        """Every 32 units from -16384 on, 256 of each function: ``256 f - 64`` as int16."""
        results = np.frombuffer(b"".join(table.functions), np.int8).astype(np.int64)
        step, between = np.divmod(value + 16384, 32)
        if between.any() or step.min() < 0 or step.max() >= results.size:
            raise StageOverflowError("table: a value lies between or beside the entries")
        entries = np.maximum(256 * results - 64, -32768)[step]
        return np.asarray(entries)

    def _ew(self, ew: EwStage, o: OutputCube, value: Array) -> Array:
        if ew.operand is None:
            value = _fits_int32(value + ew.register_operand, "EW")
        else:
            value = self._combined(ew, value, self._ew_operand(ew, ew.operand, o))
        return _clamp(value, ew.relu, ew.relux_max)

    def _combined(self, ew: EwStage, value: Array, operand: Array) -> Array:
        if ew.operation is EwOperation.MAX:
            return np.maximum(value, operand)
        if ew.operation is EwOperation.MIN:
            return np.minimum(value, operand)
        scaled = half_even((operand + ew.offset) * ew.scale, ew.shift)
        if ew.operation is EwOperation.MULTIPLY:
            return _fits_int32(half_even(value * scaled, ew.truncate), "EW MUL")
        return _fits_int32(value + scaled, "EW")

    def _ew_operand(self, ew: EwStage, place: Ref, o: OutputCube) -> Array:
        if ew.per_channel:
            kind = f"<i{ew.operand_bytes}"
            values = self._machine.operand(place, kind, self._real).astype(np.int64)
            return np.broadcast_to(values, (o.height, o.width, self._real))
        read = self._machine.rows(
            place, o.height, o.width, o.channels,
            ew.line_stride_bytes or o.width * 16, ew.surface_stride_bytes,
        )  # fmt: skip
        return np.asarray(read[:, :, : self._real])

    def _out_convert(self, oc: OutConvert, value: Array, wide: bool) -> Array:
        scaled = rounded(value * oc.scale, oc.shift, oc.ties_away)
        if wide:
            return _fits_int32(scaled + oc.offset, "OUT_CVT").astype("<i4")
        return np.clip(scaled + oc.offset, -128, 127).astype(np.int8)

    def _multiply(
        self,
        stage: str,
        value: Array,
        mul: Array | int,
        shift: int,
        negative: int,
        summand: int = 0,
    ) -> Array:
        product = value * mul + summand
        return _fits_int32(shift_by_sign(product, shift, negative), f"{stage} MUL")


def _clamp(value: Array, relu: bool, maximum: int | None) -> Array:
    if relu:
        value = np.maximum(value, 0)
    return value if maximum is None else np.minimum(value, maximum)


def _spread(x: Array, rows: int, columns: int, value: int) -> Array:
    """Pixels that many rows and columns apart, ``value`` between them."""
    height, width, channels = x.shape
    shape = ((height - 1) * rows + 1, (width - 1) * columns + 1, channels)
    wide = np.full(shape, value, np.int64)
    wide[::rows, ::columns] = x
    return wide


def _fits_int32(value: Array, stage: str) -> Array:
    worst = int(np.abs(value).max(initial=0))
    if worst >= 2**31:
        raise StageOverflowError(f"{stage}: {worst} does not fit int32")
    return value
