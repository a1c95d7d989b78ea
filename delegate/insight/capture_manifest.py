"""The manifest of a capture: its JSON object as typed records, checked in every number.

Comes in: the bytes of the ``manifest`` array. Goes out: :class:`Manifest`. Refuses with
:class:`~delegate.errors.CaptureError`: wrong types, numbers out of range, buffers that overlap,
tasks and checks outside the buffers.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from delegate.chip.chips import DEFAULT
from delegate.chip.names import NAMES
from delegate.errors import CaptureError

FORMAT = "npu-capture-1"

_ATOM_BYTES = 16
PLAIN = "plain"
"""The layout of a matrix: no surfaces."""
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
    ``min_equal`` is the least share of equal elements. Layout NC1HWC2 with ``c2`` channels an atom,
    or "plain": elements follow each other in the order of ``shape_nchw``, of any rank.
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
        return math.prod(self.shape_nchw)

    @property
    def end(self) -> int:
        """The first byte behind the tensor in its buffer."""
        if self.layout == PLAIN:
            return self.offset + self.elements * np.dtype(self.dtype).itemsize
        _, channels, height, width = self.shape_nchw
        surfaces = -(-channels // self.c2)
        return self.offset + ((surfaces - 1) * self.surface_pixels + height * width) * _ATOM_BYTES


Record = TypeVar("Record", CaptureBuffer, CaptureTask, CaptureCheck)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of the file as JSON. ``chip``: the chip of the commands; files of other drivers
    name none and are the default's.
    """

    name: str
    source: str
    chained: bool
    buffers: tuple[CaptureBuffer, ...]
    jobs: tuple[CaptureJob, ...]
    checks: tuple[CaptureCheck, ...]
    inputs: tuple[Mapping[str, Any], ...] = ()
    chip: str = DEFAULT.name

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
    if check.layout not in ("NC1HWC2", PLAIN):
        raise CaptureError(
            f"{what}: layout {check.layout!r} is not known; known are NC1HWC2 and plain"
        )
    if check.dtype not in ("int8", "uint8", "int16", "float16", "int32", "float32"):
        raise CaptureError(f"{what}: element type {check.dtype!r} is not known")
    _validate_place(check, what)
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


def _validate_place(check: CaptureCheck, what: str) -> None:
    shape = check.shape_nchw
    if any(size <= 0 for size in shape) or check.offset < 0:
        raise CaptureError(f"{what}: shape_nchw {list(shape)} at {check.offset} is no tensor")
    if check.layout == PLAIN:
        return
    if check.c2 * np.dtype(check.dtype).itemsize != _ATOM_BYTES:
        raise CaptureError(f"{what}: {check.c2} elements of {check.dtype} are not 16 bytes")
    if len(shape) != 4 or shape[0] != 1:
        raise CaptureError(f"{what}: shape_nchw {list(shape)} is not [1, C, H, W]")
    if check.surface_pixels < shape[2] * shape[3]:
        raise CaptureError(
            f"{what}: {check.surface_pixels} pixels per surface are fewer than "
            f"{shape[2]}x{shape[3]}"
        )


_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "int": (int, "an integer"),
    "float": ((int, float), "a number"),
    "str": (str, "a string"),
    "bool": (bool, "true or false"),
    "list": (list, "a list"),
    "tuple[int, ...]": (list, "a list"),
}
"""The types in JSON of the types of records' fields, and their names in messages."""


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CaptureError(f"{what} is not a JSON object")
    return value


def _member(item: dict[str, Any], what: str, key: str, kind: str, default: object = None) -> Any:
    """One of an object, of a kind of _KINDS."""
    types, name = _KINDS[kind]
    value = item.get(key, default)
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
        raise CaptureError(f"{what}: {key} is missing or not {name}")
    if isinstance(value, list) and len(value) > _MAX_ITEMS:
        raise CaptureError(f"{what}: {key} has {len(value)} entries")
    return value


def _record(kind: type[Record], value: object, what: str) -> Record:
    """An object as one of the records above, by the names and types of its fields."""
    item = _object(value, what)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        assert isinstance(field.type, str)
        default = None if field.default is dataclasses.MISSING else field.default
        content = _member(item, what, field.name, field.type, default)
        if isinstance(content, list):
            if not all(isinstance(size, int) and not isinstance(size, bool) for size in content):
                raise CaptureError(f"{what}: {field.name} holds something that is no integer")
            content = tuple(content)
        found[field.name] = float(content) if field.type == "float" else content
    return kind(**found)


def manifest_from_json(text: bytes) -> Manifest:
    """Parses the JSON and checks types; :meth:`Manifest.validate` checks ranges.

    Raises CaptureError.
    """
    what = "the manifest"
    try:
        top = _object(json.loads(text), what)
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"its manifest is no JSON: {error}") from None
    found = _member(top, what, "format", "str", "")
    if found != FORMAT:
        raise CaptureError(f"its format is {found!r}; known is {FORMAT!r}")
    buffers = tuple(
        _record(CaptureBuffer, item, f"buffer {i}")
        for i, item in enumerate(_member(top, what, "buffers", "list"))
    )
    jobs = []
    for i, item in enumerate(_member(top, what, "jobs", "list")):
        tasks = _member(_object(item, f"job {i}"), f"job {i}", "tasks", "list")
        records = (_record(CaptureTask, t, f"job {i} task {k}") for k, t in enumerate(tasks))
        jobs.append(CaptureJob(tuple(records)))
    checks = []
    for i, item in enumerate(_member(top, what, "checks", "list", [])):
        given = {"offset": 0, **_object(item, f"check {i}")}
        if given.get("layout") == PLAIN:
            given.setdefault("surface_pixels", 0)
        checks.append(_record(CaptureCheck, given, f"check {i}"))
    inputs = _member(top, what, "inputs", "list", [])
    if not all(isinstance(item, dict) for item in inputs):
        raise CaptureError("the manifest: inputs holds something that is no JSON object")
    chip = _member(top, what, "chip", "str", DEFAULT.name)
    if chip not in NAMES:
        raise CaptureError(f"its chip is {chip!r}; known are {', '.join(NAMES)}")
    return Manifest(
        name=_member(top, what, "name", "str", ""),
        source=_member(top, what, "source", "str", ""),
        chained=_member(top, what, "chained", "bool", False),
        buffers=buffers,
        jobs=tuple(jobs),
        checks=tuple(checks),
        inputs=tuple(inputs),
        chip=chip,
    )


def manifest_to_json(manifest: Manifest) -> dict[str, Any]:
    """The JSON object of a manifest, as the file holds it: without what is unknown of a task."""
    document = {"format": FORMAT, **dataclasses.asdict(manifest)}
    for job in document["jobs"]:
        job["tasks"] = [{k: v for k, v in t.items() if v or k == "regcmd"} for t in job["tasks"]]
    return document
