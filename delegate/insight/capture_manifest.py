"""The manifest of a capture: its JSON object as typed records, checked in every number.

Comes in: the bytes of the ``manifest`` array. Goes out: :class:`Manifest`. Refuses with
:class:`~delegate.errors.CaptureError`: wrong types, numbers out of range, buffers that overlap,
tasks and checks outside the buffers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from delegate.errors import CaptureError

FORMAT = "npu-capture-1"

_ATOM_BYTES = 16
_WORD_BYTES = 8
_ADDRESS_SPACE = 1 << 32
# Larger than any real recording; keeps a hostile manifest from exhausting memory.
_MAX_ITEMS = 1 << 20


@dataclass(frozen=True, slots=True)
class CaptureBuffer:
    """A buffer of ``size`` bytes at device address ``dma_address``."""

    name: str
    dma_address: int
    size: int


@dataclass(frozen=True, slots=True)
class CaptureTask:
    """One task: where its command segment starts and its 64-bit words, the tail included.

    ``layer``, ``op``, ``tile`` and ``enable_mask`` are for people (0 and "" where unknown).
    """

    regcmd: int
    regcmd_count: int
    layer: str = ""
    op: str = ""
    tile: str = ""
    enable_mask: int = 0


@dataclass(frozen=True, slots=True)
class CaptureJob:
    tasks: tuple[CaptureTask, ...]


@dataclass(frozen=True, slots=True)
class CaptureCheck:
    """An output tensor and the bounds it must meet.

    ``expected`` names the array with the values; ``max_abs_diff`` bounds the difference and
    ``min_equal`` is the least share of equal elements. Layout NC1HWC2 with ``c2`` channels an atom.
    """

    buffer: str
    offset: int
    shape_nchw: tuple[int, ...]
    surface_pixels: int
    expected: str
    c2: int = 16
    dtype: str = "int8"
    layout: str = "NC1HWC2"
    max_abs_diff: int = 0
    min_equal: float = 1.0

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape_nchw:
            count *= size
        return count

    @property
    def end(self) -> int:
        """The first byte behind the tensor in its buffer."""
        _, channels, height, width = self.shape_nchw
        surfaces = -(-channels // self.c2)
        return self.offset + ((surfaces - 1) * self.surface_pixels + height * width) * _ATOM_BYTES


@dataclass(frozen=True, slots=True)
class Manifest:
    name: str
    source: str
    chained: bool
    buffers: tuple[CaptureBuffer, ...]
    jobs: tuple[CaptureJob, ...]
    checks: tuple[CaptureCheck, ...]
    inputs: tuple[Mapping[str, Any], ...] = ()

    def validate(self) -> None:
        """Raises CaptureError unless all addresses lie in buffers and all numbers are in range."""
        by_name = _validate_buffers(self.buffers)
        for job_index, job in enumerate(self.jobs):
            for task_index, task in enumerate(job.tasks):
                _validate_task(task, f"job {job_index} task {task_index}", self.buffers)
        for index, check in enumerate(self.checks):
            _validate_check(check, f"check {index}", by_name)


def _validate_buffers(buffers: tuple[CaptureBuffer, ...]) -> dict[str, CaptureBuffer]:
    by_name: dict[str, CaptureBuffer] = {}
    for buffer in buffers:
        if buffer.name in by_name:
            raise CaptureError(f"two buffers are called {buffer.name}")
        if buffer.size <= 0 or not 0 <= buffer.dma_address <= _ADDRESS_SPACE - buffer.size:
            raise CaptureError(
                f"buffer {buffer.name} at {buffer.dma_address:#x} with {buffer.size} bytes does "
                "not lie below 2^32"
            )
        by_name[buffer.name] = buffer
    ordered = sorted(buffers, key=lambda b: b.dma_address)
    for first, second in pairwise(ordered):
        if first.dma_address + first.size > second.dma_address:
            raise CaptureError(f"buffers {first.name} and {second.name} overlap")
    return by_name


def _validate_task(task: CaptureTask, what: str, buffers: tuple[CaptureBuffer, ...]) -> None:
    end = task.regcmd + task.regcmd_count * _WORD_BYTES
    inside = any(b.dma_address <= task.regcmd and end <= b.dma_address + b.size for b in buffers)
    if task.regcmd_count <= 0 or not inside:
        raise CaptureError(
            f"{what}: {task.regcmd_count} command words at {task.regcmd:#x} lie in no buffer"
        )


def _validate_check(check: CaptureCheck, what: str, buffers: Mapping[str, CaptureBuffer]) -> None:
    if check.layout != "NC1HWC2":
        raise CaptureError(f"{what}: layout {check.layout!r} is not known; known is NC1HWC2")
    if check.dtype not in ("int8", "uint8", "int16", "float16", "int32", "float32"):
        raise CaptureError(f"{what}: element type {check.dtype!r} is not known")
    if check.c2 * np.dtype(check.dtype).itemsize != _ATOM_BYTES:
        raise CaptureError(f"{what}: {check.c2} elements of {check.dtype} are not 16 bytes")
    shape = check.shape_nchw
    if len(shape) != 4 or shape[0] != 1 or any(size <= 0 for size in shape):
        raise CaptureError(f"{what}: shape_nchw {list(shape)} is not [1, C, H, W]")
    if check.surface_pixels < shape[2] * shape[3] or check.offset < 0:
        raise CaptureError(
            f"{what}: {check.surface_pixels} pixels per surface are fewer than "
            f"{shape[2]}x{shape[3]}"
        )
    if check.buffer not in buffers:
        raise CaptureError(f"{what}: there is no buffer {check.buffer}")
    if check.end > buffers[check.buffer].size:
        raise CaptureError(
            f"{what}: the tensor ends at byte {check.end} of buffer {check.buffer}, which has "
            f"{buffers[check.buffer].size}"
        )
    if check.max_abs_diff < 0 or not 0.0 <= check.min_equal <= 1.0:
        raise CaptureError(
            f"{what}: bounds {check.max_abs_diff} and {check.min_equal} make no sense"
        )


class _Fields:
    """Typed access to one JSON object; every mistake names the object and the key."""

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, dict):
            raise CaptureError(f"{what} is not a JSON object")
        self._value: dict[str, Any] = value
        self._what = what

    def _get(self, key: str, default: object, kind: type | tuple[type, ...], kind_name: str) -> Any:
        value = self._value.get(key, default)
        is_bool = isinstance(value, bool)
        if not isinstance(value, kind) or (is_bool and kind is not bool):
            raise CaptureError(f"{self._what}: {key} is missing or not {kind_name}")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        value: int = self._get(key, default, int, "an integer")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value: str = self._get(key, default, str, "a string")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value: bool = self._get(key, default, bool, "true or false")
        return value

    def share(self, key: str, default: float) -> float:
        return float(self._get(key, default, (int, float), "a number"))

    def items(self, key: str, default: list[Any] | None = None) -> list[Any]:
        value: list[Any] = self._get(key, default, list, "a list")
        if len(value) > _MAX_ITEMS:
            raise CaptureError(f"{self._what}: {key} has {len(value)} entries")
        return value


def manifest_from_json(text: bytes) -> Manifest:
    """Parses the JSON and checks types; :meth:`Manifest.validate` checks ranges.

    Raises CaptureError.
    """
    try:
        top = _Fields(json.loads(text), "the manifest")
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"its manifest is no JSON: {error}") from None
    found = top.text("format", "")
    if found != FORMAT:
        raise CaptureError(f"its format is {found!r}; known is {FORMAT!r}")
    buffers = []
    for i, item in enumerate(top.items("buffers")):
        f = _Fields(item, f"buffer {i}")
        buffers.append(CaptureBuffer(f.text("name"), f.integer("dma_address"), f.integer("size")))
    jobs = []
    for i, item in enumerate(top.items("jobs")):
        tasks = _Fields(item, f"job {i}").items("tasks")
        jobs.append(CaptureJob(tuple(_task(t, f"job {i} task {k}") for k, t in enumerate(tasks))))
    checks = tuple(_check(item, f"check {i}") for i, item in enumerate(top.items("checks", [])))
    inputs = top.items("inputs", [])
    if not all(isinstance(item, dict) for item in inputs):
        raise CaptureError("the manifest: inputs holds something that is no JSON object")
    return Manifest(
        name=top.text("name", ""),
        source=top.text("source", ""),
        chained=top.flag("chained", False),
        buffers=tuple(buffers),
        jobs=tuple(jobs),
        checks=checks,
        inputs=tuple(inputs),
    )


def _task(item: object, what: str) -> CaptureTask:
    f = _Fields(item, what)
    return CaptureTask(
        regcmd=f.integer("regcmd"),
        regcmd_count=f.integer("regcmd_count"),
        layer=f.text("layer", ""),
        op=f.text("op", ""),
        tile=f.text("tile", ""),
        enable_mask=f.integer("enable_mask", 0),
    )


def _check(item: object, what: str) -> CaptureCheck:
    f = _Fields(item, what)
    shape = f.items("shape_nchw")
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in shape):
        raise CaptureError(f"{what}: shape_nchw holds something that is no integer")
    return CaptureCheck(
        buffer=f.text("buffer"),
        offset=f.integer("offset", 0),
        shape_nchw=tuple(shape),
        surface_pixels=f.integer("surface_pixels"),
        expected=f.text("expected"),
        c2=f.integer("c2", 16),
        dtype=f.text("dtype", "int8"),
        layout=f.text("layout", "NC1HWC2"),
        max_abs_diff=f.integer("max_abs_diff", 0),
        min_equal=f.share("min_equal", 1.0),
    )


def manifest_to_json(manifest: Manifest) -> dict[str, Any]:
    """The JSON object of a manifest, as the file holds it."""
    return {
        "format": FORMAT,
        "name": manifest.name,
        "source": manifest.source,
        "chained": manifest.chained,
        "buffers": [
            {"name": b.name, "dma_address": b.dma_address, "size": b.size} for b in manifest.buffers
        ],
        "jobs": [{"tasks": [_task_to_json(t) for t in job.tasks]} for job in manifest.jobs],
        "checks": [_check_to_json(c) for c in manifest.checks],
        "inputs": [dict(item) for item in manifest.inputs],
    }


def _task_to_json(task: CaptureTask) -> dict[str, Any]:
    item: dict[str, Any] = {"regcmd": task.regcmd, "regcmd_count": task.regcmd_count}
    for key in ("layer", "op", "tile", "enable_mask"):
        value = getattr(task, key)
        if value:
            item[key] = value
    return item


def _check_to_json(check: CaptureCheck) -> dict[str, Any]:
    return {
        "buffer": check.buffer,
        "offset": check.offset,
        "layout": check.layout,
        "shape_nchw": list(check.shape_nchw),
        "c2": check.c2,
        "dtype": check.dtype,
        "surface_pixels": check.surface_pixels,
        "expected": check.expected,
        "max_abs_diff": check.max_abs_diff,
        "min_equal": check.min_equal,
    }
