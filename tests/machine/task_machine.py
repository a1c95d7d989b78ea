"""Executes lowered tasks in plain NumPy, as the text of ``delegate.lower.task`` reads them.

Shares no code with lowering, encoding or the simulator: a third opinion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from delegate.lower.lowered import Fold, LoweredPartition, TensorBinding
from delegate.lower.task import ATOM_BYTES, BufferId, ConvTask, OutputCube, Ref
from tests.machine.dpu_arithmetic import Array
from tests.machine.task_stages import TaskRun

_UNWRITTEN = 0x55


class Machine:
    """Memory and arithmetic of one partition."""

    def __init__(self, lowered: LoweredPartition) -> None:
        self._lowered = lowered
        self._memory: dict[BufferId, npt.NDArray[np.uint8]] = {}
        for spec in lowered.buffers:
            memory = np.full(spec.size_bytes, _UNWRITTEN, np.uint8)
            memory[: len(spec.content)] = np.frombuffer(spec.content, np.uint8)
            self._memory[spec.buffer] = memory

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Outputs for the partition's inputs. Raises StageOverflowError."""
        for binding, array in zip(self._lowered.inputs, arrays, strict=True):
            self._write(binding, array)
        for layer in self._lowered.layers:
            for task in layer.tasks:
                run = TaskRun(self, task)
                run.convolution(task) if isinstance(task, ConvTask) else run.elementwise(task)
        outputs: dict[int, Array] = {}
        for binding in self._lowered.outputs:
            found = outputs.setdefault(
                binding.tensor, np.zeros(binding.shape, binding.element.dtype)
            )
            self._read(binding, found.reshape(-1))
        return list(outputs.values())

    def _write(self, b: TensorBinding, array: Array) -> None:
        values = array.astype(np.int64) - b.element.offset
        if b.fold is not None:
            values = _folded(b, b.fold, values)
        if b.spread is not None:
            values = values.reshape(-1)[_host_numbers(b)]
        values = values.reshape(b.images, b.height * b.width, b.channels)
        for n in range(b.images):
            for s in range(b.surfaces):
                plane = np.full((b.height * b.width, 16), b.fill, np.int64)
                part = values[n, :, s * 16 : s * 16 + 16]
                plane[:, : part.shape[1]] = part
                start = b.location.offset + n * b.image_stride_bytes + s * b.surface_stride_bytes
                content = plane.astype(np.int8).view(np.uint8).ravel()
                self._memory[b.location.buffer][start : start + plane.size] = content

    def _read(self, b: TensorBinding, host: Array) -> None:
        out = np.zeros((b.images, b.height * b.width, b.channels), np.int64)
        for n in range(b.images):
            for c in range(b.channels):
                start = place_of(b, n, 0, c).offset
                stop = start + (b.height * b.width - 1) * 16 + 1
                out[n, :, c] = self._memory[b.location.buffer][start:stop:16].view(np.int8)
        host[_host_numbers(b)] = (out + b.element.offset).astype(b.element.dtype).ravel()

    def rows(
        self, ref: Ref, height: int, width: int, channels: int, line: int, surface: int
    ) -> Array:
        """[height, width, channels] int64 from NC1HWC2."""
        memory = self._memory[ref.buffer].view(np.int8)
        out = np.empty((height, width, channels), np.int64)
        for s in range(channels // 16):
            for y in range(height):
                start = ref.offset + s * surface + y * line
                row = memory[start : start + width * 16].reshape(width, 16)
                out[y, :, s * 16 : s * 16 + 16] = row
        return out

    def operand(self, ref: Ref | None, dtype: str, count: int) -> Array:
        """``count`` values of ``dtype`` at ``ref``, as they lie there."""
        assert ref is not None, "an operand from memory has a place"
        size = count * np.dtype(dtype).itemsize
        raw = self._memory[ref.buffer][ref.offset : ref.offset + size]
        return np.ascontiguousarray(raw).view(dtype)

    def store(self, o: OutputCube, out: Array) -> None:
        """Writes [height, width, channels_real], int8 or int32, as NC1HWC2."""
        memory = self._memory[o.target.buffer]
        lanes = ATOM_BYTES // o.element_bytes
        for s in range(o.surfaces):
            part = out[:, :, s * lanes : s * lanes + lanes].reshape(o.height * o.width, -1)
            plane = np.full((o.height * o.width, ATOM_BYTES), _UNWRITTEN, np.uint8)
            content = np.ascontiguousarray(part).view(np.uint8)
            plane[:, : content.shape[1]] = content
            line = o.width * ATOM_BYTES + o.row_gap_bytes
            for y, row in enumerate(plane.reshape(o.height, o.width * ATOM_BYTES)):
                start = o.target.offset + s * o.surface_stride_bytes + y * line
                memory[start : start + row.size] = row


def _host_numbers(b: TensorBinding) -> list[int]:
    """Of the elements of a box, as the text of ``Spread`` reads."""
    if b.spread is None:
        return list(range(b.images * b.height * b.width * b.channels))
    s = b.spread
    return [
        s.first + n * s.image + y * s.row + x * s.pixel + c * s.channel
        for n in range(b.images)
        for y in range(b.height)
        for x in range(b.width)
        for c in range(b.channels)
    ]


def place_of(b: TensorBinding, image: int, pixel: int, channel: int) -> Ref:
    """The byte of an element of a tensor at the partition's edge."""
    offset = b.location.offset + image * b.image_stride_bytes + pixel * 16
    return Ref(b.location.buffer, offset + channel // 16 * b.surface_stride_bytes + channel % 16)


def _folded(b: TensorBinding, fold: Fold, values: Array) -> Array:
    """[images, height, width, lanes] of windows, as the text of ``Fold`` reads."""
    images = values.reshape(b.images, fold.height, fold.width, fold.channels)
    out = np.full(
        (b.images, b.height, b.width, fold.window_h, fold.window_w, fold.channels), b.fill, np.int64
    )
    for y in range(b.height):
        for x in range(b.width):
            for dy in range(fold.window_h):
                for dx in range(fold.window_w):
                    row = y * fold.step_h + dy - fold.top
                    column = x * fold.step_w + dx - fold.left
                    if 0 <= row < fold.height and 0 <= column < fold.width:
                        out[:, y, x, dy, dx] = images[:, row, column]
    return out
