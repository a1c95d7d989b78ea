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
from typing import Any

import numpy as np

from delegate.chip import NAMES
from delegate.chip.chips import DEFAULT
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


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """The content of the file as JSON. ``inputs`` describes the model's inputs for people and
    tools. ``chip``: the chip of the commands; files of other drivers name none and are the
    default's.
    """

    name: str
    buffers: tuple[CaptureBuffer, ...]
    jobs: tuple[CaptureJob, ...]
    checks: tuple[CaptureCheck, ...] = ()
    chained: bool = False
    source: str = ""
    inputs: tuple[Mapping[str, Any], ...] = ()
    chip: str = DEFAULT.name

    def manifest(self) -> str:
        """The JSON object, as the file holds it."""
        known = {field.name: getattr(self, field.name) for field in dataclasses.fields(Manifest)}
        document = {"format": FORMAT, **known}
        return json.dumps(document, sort_keys=True, separators=(",", ":"), default=_object_of)

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


def _object_of(record: Any) -> dict[str, Any]:
    """A record for JSON, without what is unknown of a task."""
    found = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    is_task = isinstance(record, CaptureTask)
    return {k: v for k, v in found.items() if v or not is_task or k == "regcmd"}


_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "int": (int, "an integer"),
    "float": ((int, float), "a number"),
    "str": (str, "a string"),
    "bool": (bool, "true or false"),
    "tuple": (list, "a list"),
}
"""The types in JSON of the types of records' fields, and their names in messages."""
_ITEMS: Mapping[str, tuple[type[Any], str]] = {
    "tuple[int, ...]": (int, "integer"),
    "tuple[Mapping[str, Any], ...]": (dict, "JSON object"),
}
"""The items of lists that hold no records, and their names in messages."""
_RECORDS: Mapping[str, type[Any]] = {
    f"tuple[{kind.__name__}, ...]": kind
    for kind in (CaptureBuffer, CaptureTask, CaptureJob, CaptureCheck)
}


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CaptureError(f"{what} is not a JSON object")
    return value


def _member(item: dict[str, Any], what: str, key: str, kind: str, default: object) -> Any:
    """One of an object, of a kind of _KINDS."""
    types, name = _KINDS[kind]
    value = item.get(key, default)
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
        raise CaptureError(f"{what}: {key} is missing or not {name}")
    if isinstance(value, list) and len(value) > _MAX_ITEMS:
        raise CaptureError(f"{what}: {key} has {len(value)} entries")
    return value


def _fields(kind: type[Any], item: dict[str, Any], what: str, within: str) -> dict[str, Any]:
    """An object as the fields of one of the records above, by their names and types. ``within``
    begins what messages call records in it.
    """
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        assert isinstance(field.type, str)
        default = None if field.default is dataclasses.MISSING else field.default
        default = [] if default == () else default
        content = _member(item, what, field.name, field.type.partition("[")[0], default)
        if field.type in _RECORDS:
            inner, names = _RECORDS[field.type], f"{within}{field.name[:-1]}"
            content = tuple(_record(inner, one, f"{names} {i}") for i, one in enumerate(content))
        elif isinstance(content, list):
            item_type, name = _ITEMS[field.type]
            if not all(isinstance(v, item_type) and not isinstance(v, bool) for v in content):
                raise CaptureError(f"{what}: {field.name} holds something that is no {name}")
            content = tuple(content)
        found[field.name] = float(content) if field.type == "float" else content
    return found


def _record(kind: type[Any], value: object, what: str) -> Any:
    item = _object(value, what)
    if kind is CaptureCheck:
        item = {"offset": 0, **item}
        if item.get("layout") == PLAIN:
            item.setdefault("surface_pixels", 0)
    return kind(**_fields(kind, item, what, f"{what} "))


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
    manifest = Manifest(**_fields(Manifest, {"name": "", **top}, what, ""))
    if manifest.chip not in NAMES:
        raise CaptureError(f"its chip is {manifest.chip!r}; known are {', '.join(NAMES)}")
    return manifest
