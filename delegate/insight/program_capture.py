"""Programs as captures (npu-capture-1), so that one replay command runs ours and others' programs.

In: a Program, its input tensors and the outputs they must give. Out: a Capture with all memory,
addresses relocated, and a check per output image. The segments are complete and linked: they may
be run task by task, as the capture says, or as a chain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.element import Element
from delegate.errors import UsageError
from delegate.insight.capture import Capture, CaptureBuffer, CaptureCheck, CaptureJob, CaptureTask
from delegate.lower.lowered import TensorBinding
from delegate.lower.task import BufferId
from delegate.npu.program_types import Program
from delegate.npu.tensor_layout import ATOM_BYTES, device_values, store

FIRST_ADDRESS = 0x1000_0000
PAGE_BYTES = 4096
GUARD_BYTES = PAGE_BYTES
"""The gap between buffers: a page of nothing, so that running over an end is seen."""

Bytes = npt.NDArray[np.uint8]


def capture_of_program(
    program: Program,
    inputs: Sequence[npt.NDArray[np.generic]],
    expected: Sequence[npt.NDArray[np.generic]],
    name: str,
    *,
    max_abs_diff: int = 0,
    min_equal: float = 1.0,
) -> Capture:
    """The capture of one run.

    ``inputs`` and ``expected`` have TFLite's shapes and types, in the order of ``program.inputs``
    and ``program.outputs``, a tensor of several boxes for each; the checks hold the outputs in
    NCHW as the device does.

    Raises UsageError when a tensor does not fit its binding.
    """
    if len(inputs) != len(program.inputs) or len(expected) != len(program.outputs):
        raise UsageError(
            f"program {program.name} has {len(program.inputs)} inputs and "
            f"{len(program.outputs)} outputs; {len(inputs)} and {len(expected)} are given"
        )
    addresses = _addresses(program)
    checks: list[CaptureCheck] = []
    arrays: dict[str, npt.NDArray[Any]] = {}
    for binding, values in zip(program.outputs, expected, strict=True):
        images = device_values(binding, values)
        for n in range(binding.images):
            key = f"expected_{len(checks)}"
            arrays[key] = np.ascontiguousarray(images[n : n + 1].transpose(0, 3, 1, 2))
            checks.append(_check(binding, n, key, max_abs_diff, min_equal))
    return Capture(
        name=name,
        source=program.compiler,
        buffers=tuple(
            CaptureBuffer(_buffer_name(buffer), address, program.buffers[buffer].size_bytes)
            for buffer, address in addresses.items()
        ),
        contents=_contents(program, addresses, inputs),
        jobs=_jobs(program, addresses[BufferId.REGCMD]),
        checks=tuple(checks),
        expected=arrays,
        inputs=tuple(_input(binding) for binding in program.inputs),
        chip=program.chip,
    )


def _buffer_name(buffer: BufferId) -> str:
    return buffer.name.lower()


def _addresses(program: Program) -> dict[BufferId, int]:
    """A fixed address for every buffer that exists."""
    addresses, end = {}, FIRST_ADDRESS
    for buffer, item in zip(BufferId, program.buffers, strict=True):
        if item.size_bytes:
            addresses[buffer] = end
            pages = -(-item.size_bytes // PAGE_BYTES)
            end += pages * PAGE_BYTES + GUARD_BYTES
    return addresses


def _contents(
    program: Program,
    addresses: Mapping[BufferId, int],
    inputs: Sequence[npt.NDArray[np.generic]],
) -> dict[str, Bytes]:
    contents = {}
    for buffer in addresses:
        item = program.buffers[buffer]
        if buffer is BufferId.REGCMD:
            memory = program.relocated(addresses).view(np.uint8)
        elif buffer is BufferId.INPUT:
            memory = np.zeros(item.size_bytes, np.uint8)
            memory[: len(item.content)] = np.frombuffer(item.content, np.uint8)
            for binding, values in zip(program.inputs, inputs, strict=True):
                store(binding, device_values(binding, values), memory)
        else:
            memory = np.frombuffer(item.content, np.uint8)
        contents[_buffer_name(buffer)] = memory
    return contents


def _jobs(program: Program, regcmd: int) -> tuple[CaptureJob, ...]:
    jobs: dict[int, list[CaptureTask]] = {}
    for task in program.tasks:
        layer = program.layers[task.layer]
        jobs.setdefault(task.job, []).append(
            CaptureTask(
                regcmd=regcmd + task.regcmd_offset,
                regcmd_count=task.regcmd_count,
                layer=layer.name,
                op=layer.op,
                tile=task.tile,
                enable_mask=task.enable_mask,
            )
        )
    return tuple(CaptureJob(tuple(tasks)) for tasks in jobs.values())


def _check(
    binding: TensorBinding, image: int, key: str, max_abs_diff: int, min_equal: float
) -> CaptureCheck:
    return CaptureCheck(
        buffer=_buffer_name(binding.location.buffer),
        offset=binding.location.offset + image * binding.image_stride_bytes,
        shape_nchw=(1, binding.channels, binding.height, binding.width),
        surface_pixels=_surface_pixels(binding),
        expected=key,
        c2=binding.laid_out.lanes,
        dtype=binding.laid_out.dtype.name if binding.laid_out is Element.FP16 else "int8",
        max_abs_diff=max_abs_diff,
        min_equal=min_equal,
    )


def _surface_pixels(binding: TensorBinding) -> int:
    """Pixels from one surface to the next. With a single surface the stride may be anything."""
    return max(binding.surface_stride_bytes // ATOM_BYTES, binding.height * binding.width)


def _input(binding: TensorBinding) -> dict[str, Any]:
    optional = {"fold": binding.fold, "spread": binding.spread}
    given = {key: dataclasses.asdict(value) for key, value in optional.items() if value is not None}
    return {
        "tensor": binding.tensor,
        "name": binding.name,
        "shape": list(binding.shape),
        "dtype": binding.element.dtype.name,
        "layout": "NC1HWC2",
        "buffer": _buffer_name(binding.location.buffer),
        "offset": binding.location.offset,
        "c2": ATOM_BYTES,
        "surface_pixels": _surface_pixels(binding),
        "images": binding.images,
        "image_stride": binding.image_stride_bytes,
        "fill": binding.fill,
        **given,
    }
