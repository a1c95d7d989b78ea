"""Executes lowered tasks on NumPy arrays, as the text of ``delegate.lower.task`` reads.

Shares no code with lowering or the simulator: it unpacks the packed bytes, walks the strides and
applies the stages in plain int64 arithmetic.
"""

from __future__ import annotations

import numpy as np

from delegate.lower.task import (
    BufferId,
    ConvTask,
    ElementwiseTask,
    LoweredPartition,
    Source,
    TensorBinding,
)

I64 = np.int64


def half_even(value, shift):
    if shift == 0:
        return value
    floor = value >> shift
    rest = value & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    return floor + ((rest > half) | ((rest == half) & (floor & 1 == 1)))


def half_away(value, shift):
    if shift == 0:
        return value
    rounded = (np.abs(value) + (1 << (shift - 1))) >> shift
    return np.where(value < 0, -rounded, rounded)


def fits_int32(value):
    assert np.abs(value).max(initial=0) < 2**31, "a register stage left int32"
    return value


class Machine:
    def __init__(self, lowered: LoweredPartition):
        self.lowered = lowered
        self.memory = {
            spec.buffer: np.full(spec.size_bytes, 0x55, np.uint8) for spec in lowered.buffers
        }
        for spec in lowered.buffers:
            self.memory[spec.buffer][: len(spec.content)] = np.frombuffer(spec.content, np.uint8)

    def run(self, arrays):
        for binding, array in zip(self.lowered.inputs, arrays, strict=True):
            self.write(binding, array)
        for layer in self.lowered.layers:
            for task in layer.tasks:
                if isinstance(task, ConvTask):
                    self.convolution(task)
                else:
                    self.elementwise(task)
        return [self.read(binding) for binding in self.lowered.outputs]

    def write(self, b: TensorBinding, array):
        values = array.astype(I64) - (128 if b.is_uint8 else 0)
        if b.fold is not None:
            values = self.folded(b, values)
        values = values.reshape(b.images, b.height * b.width, b.channels)
        for n in range(b.images):
            for s in range(b.surfaces):
                plane = np.full((b.height * b.width, 16), b.fill, I64)
                part = values[n, :, s * 16 : s * 16 + 16]
                plane[:, : part.shape[1]] = part
                start = b.location.offset + n * b.image_stride_bytes + s * b.surface_stride_bytes
                self.memory[b.location.buffer][start : start + plane.size] = (
                    plane.astype(np.int8).view(np.uint8).ravel()
                )

    @staticmethod
    def folded(b: TensorBinding, values):
        """Pixel by pixel, as the text of Fold reads."""
        f = b.fold
        assert b.channels == f.window_h * f.window_w * f.channels
        images = values.reshape(b.images, f.height, f.width, f.channels)
        far = 64
        padded = np.pad(images, ((0, 0), (far, far), (far, far), (0, 0)), constant_values=b.fill)
        out = np.empty((b.images, b.height, b.width, b.channels), I64)
        for y in range(b.height):
            for x in range(b.width):
                top, left = y * f.step_h - f.top + far, x * f.step_w - f.left + far
                assert top >= 0
                assert left >= 0
                window = padded[:, top : top + f.window_h, left : left + f.window_w]
                out[:, y, x] = window.reshape(b.images, b.channels)
        return out

    def read(self, b: TensorBinding):
        out = np.zeros((b.images, b.height * b.width, b.channels), I64)
        for n in range(b.images):
            for c in range(b.channels):
                start = b.location.offset + n * b.image_stride_bytes
                start += (c // 16) * b.surface_stride_bytes + c % 16
                stop = start + (b.height * b.width - 1) * 16 + 1
                out[n, :, c] = self.memory[b.location.buffer][start:stop:16].view(np.int8)
        out = out + (128 if b.is_uint8 else 0)
        return out.astype(np.uint8 if b.is_uint8 else np.int8).reshape(b.shape)

    def rows(self, ref, height, width, channels, line, surface):
        """[height, width, channels] int64 from NC1HWC2."""
        memory = self.memory[ref.buffer].view(np.int8)
        out = np.empty((height, width, channels), I64)
        for s in range(channels // 16):
            for y in range(height):
                start = ref.offset + s * surface + y * line
                assert start >= 0
                assert start + width * 16 <= memory.size
                out[y, :, s * 16 : s * 16 + 16] = memory[start : start + width * 16].reshape(
                    width, 16
                )
        return out

    def operand(self, ref, dtype, count):
        raw = self.memory[ref.buffer][ref.offset : ref.offset + count * np.dtype(dtype).itemsize]
        return raw.view(dtype).astype(I64)

    def unpack(self, task: ConvTask):
        """Weights as [o, kh, kw, i] or [kh, kw, c]."""
        w, lanes = task.weights, task.feature.channels
        raw = self.operand(w.source, np.int8, w.total_bytes)
        if task.is_depthwise:
            parts, at = [], 0
            for start in range(0, lanes, 64):
                size = min(64, lanes - start)
                parts.append(raw[at : at + w.kh * w.kw * size].reshape(w.kh, w.kw, size))
                at += w.kh * w.kw * size
            assert at == w.total_bytes == w.bytes_per_kernel
            return np.concatenate(parts, axis=2)
        assert w.bytes_per_kernel == w.kh * w.kw * lanes
        out = np.zeros((w.kernels, w.kh, w.kw, lanes), I64)
        at = 0
        for o in range(0, w.kernels, 32):
            osize = min(32, w.kernels - o)
            for i in range(0, lanes, 32):
                isize = min(32, lanes - i)
                for y in range(w.kh):
                    for x in range(w.kw):
                        block = raw[at : at + osize * isize].reshape(osize, isize)
                        out[o : o + osize, y, x, i : i + isize] = block
                        at += osize * isize
        assert at == w.total_bytes
        return out

    def convolution(self, task: ConvTask):
        f, w, o = task.feature, task.weights, task.output
        assert task.cbuf.data_banks + task.cbuf.weight_banks <= 12
        assert f.height * f.entries_per_row <= task.cbuf.data_banks * 512
        x = self.rows(
            f.source, f.height, f.width, f.channels, f.line_stride_bytes, f.surface_stride_bytes
        )
        below = (
            (o.height - 1) * task.stride_h + (w.kh - 1) * task.dilation_h + 1 - f.pad_top - f.height
        )
        right = (
            (o.width - 1) * task.stride_w + (w.kw - 1) * task.dilation_w + 1 - f.pad_left - f.width
        )
        pads = ((f.pad_top, max(below, 0)), (f.pad_left, max(right, 0)), (0, 0))
        x = np.pad(x, pads, constant_values=f.pad_value)
        weights = self.unpack(task)
        real = o.channels_real
        acc = np.zeros((o.height, o.width, real), I64)
        window = np.zeros((o.height, o.width, real), I64)
        for ky in range(w.kh):
            for kx in range(w.kw):
                y0, x0 = ky * task.dilation_h, kx * task.dilation_w
                part = x[
                    y0 : y0 + (o.height - 1) * task.stride_h + 1 : task.stride_h,
                    x0 : x0 + (o.width - 1) * task.stride_w + 1 : task.stride_w,
                ]
                if task.is_depthwise:
                    acc += part[:, :, :real] * weights[ky, kx, :real]
                    window += part[:, :, :real]
                else:
                    acc += np.rint(
                        part.astype(np.float64) @ weights[:real, ky, kx].T.astype(np.float64)
                    ).astype(I64)
                    window += part.sum(axis=2, keepdims=True)
        self.stages(task, acc, window)

    def elementwise(self, task: ElementwiseTask):
        o = task.output
        x = self.rows(
            task.source,
            o.height,
            o.width,
            o.channels,
            o.width * 16,
            task.source_surface_stride_bytes,
        )
        self.stages(task, x[:, :, : o.channels_real], None)

    def stages(self, task, value, window):
        o, bs, bn, ew, oc = task.output, task.bs, task.bn, task.ew, task.out_convert
        real = o.channels_real
        alu = mul = None
        ow = 0
        if bs.alu is Source.MEMORY and bs.mul is Source.MEMORY:
            blocks = (
                self.operand(bs.operands, np.uint8, o.channels * 8).astype(np.uint8).reshape(-1, 64)
            )
            alu = np.ascontiguousarray(blocks[:, :32]).view("<i4").ravel().astype(I64)[:real]
            ow = np.ascontiguousarray(blocks[:, 32:48]).view("<i2").ravel().astype(I64)[:real]
            mul = np.ascontiguousarray(blocks[:, 48:]).view("<i2").ravel().astype(I64)[:real]
        elif bs.alu is Source.MEMORY:
            alu = self.operand(bs.operands, "<i4", o.channels)[:real]
        elif bs.alu is Source.REGISTER:
            alu = bs.alu_operand
        if bs.ow is Source.REGISTER:
            ow = bs.ow_operand
        if window is not None:
            value = value + ow * window
        value = fits_int32(value + (0 if alu is None else alu))
        if bs.mul is Source.REGISTER:
            mul = bs.mul_operand
        if mul is not None:
            assert np.abs(mul).max() < 2**15
            product = value * mul
            value = fits_int32(
                np.where(
                    product >= 0,
                    half_even(product, bs.shift),
                    half_even(product, bs.shift_negative),
                )
            )
        value = self.clamp(value, bs)
        if bn.alu_operand is not None:
            value = value + bn.alu_operand
        if bn.mul is not Source.OFF:
            factor = bn.mul_operand
            if bn.mul is Source.MEMORY:
                factor = self.operand(bn.operands, "<i2", o.channels)[:real]
            assert np.abs(factor).max() < 2**15
            product = value * factor
            value = fits_int32(
                np.where(
                    product >= 0,
                    half_even(product, bn.shift),
                    half_even(product, bn.shift_negative),
                )
            )
        value = self.clamp(value, bn)
        if ew is not None and ew.operand is None:
            value = self.clamp(fits_int32(value + ew.register_operand), ew)
        elif ew is not None and ew.per_channel:
            kind = np.int8 if ew.operand_bytes == 1 else np.int16
            channel = self.operand(ew.operand, kind, o.channels)[:real]
            if ew.multiplies:
                value = fits_int32(value * channel)
            else:
                value = fits_int32(value + half_even((channel + ew.offset) * ew.scale, ew.shift))
            value = self.clamp(value, ew)
        elif ew is not None:
            operand = self.rows(
                ew.operand, o.height, o.width, o.channels, o.width * 16, ew.surface_stride_bytes
            )
            value = fits_int32(
                value + half_even((operand[:, :, :real] + ew.offset) * ew.scale, ew.shift)
            )
            value = self.clamp(value, ew)
        product = value * oc.scale
        assert abs(oc.scale) < 2**15
        assert 0 <= oc.shift <= 63
        rounded = half_away(product, oc.shift) if oc.ties_away else half_even(product, oc.shift)
        if o.element_bytes == 4:
            assert isinstance(task, ConvTask)
            assert bs.ow is Source.OFF, "int32 results exclude the sum of the inputs"
            self.store(o, fits_int32(rounded + oc.offset).astype("<i4"))
            return
        out = np.clip(rounded + oc.offset, -128, 127).astype(np.int8)
        self.store(o, out)

    @staticmethod
    def clamp(value, stage):
        if stage.relu:
            value = np.maximum(value, 0)
        if stage.relux_max is not None:
            assert 0 <= stage.relux_max < 2**31
            value = np.minimum(value, stage.relux_max)
        return value

    def store(self, o, out):
        memory = self.memory[o.target.buffer]
        lanes = 16 // out.itemsize
        for s in range(o.channels // lanes):
            plane = np.full((o.height * o.width, 16), 0x2A, np.uint8)
            part = out[:, :, s * lanes : s * lanes + lanes].reshape(o.height * o.width, -1)
            content = np.ascontiguousarray(part).view(np.uint8)
            plane[:, : content.shape[1]] = content
            line = o.line_stride_bytes or o.width * 16
            for y, row in enumerate(plane.reshape(o.height, o.width * 16)):
                start = o.target.offset + s * o.surface_stride_bytes + y * line
                assert start >= 0
                assert start + row.size <= memory.size
                memory[start : start + row.size] = row


__all__ = ["BufferId", "Machine"]
