"""Shows that no task of a lowered partition destroys or misses what another one, or itself, needs.

In: the layers in execution order, with all addresses. Every 16 bytes of memory have a content: a
tensor, group padding, or nothing yet. Tasks write as ``footprint.accesses`` says. Before a layer
runs, and after it, all of its operands must be there; in the end all of the partition's outputs.
Of what a layer writes for itself, a later task of it must read some of every surface, and nothing
of one that was overwritten in part. This knows where tensors lie, but nothing of why: a mistake in
the plan, in the order or in the placement shows here and not in a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from delegate.chip.element import ATOM_BYTES, surfaces_of
from delegate.errors import LoweringError
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Access, Footprint, accesses
from delegate.lower.memory.placement import NO_WORK, MemoryPlan
from delegate.lower.memory.tensors import DeviceTensor, Place
from delegate.lower.rules import TASKS_KEEP_MEMORY
from delegate.lower.task import BufferId, ElementwiseTask, Task
from delegate.model.graph import Partition

NOTHING = -1
PADDING = -2
WORK = -3
"""Contents that are no tensor's: nobody wrote yet; padding of a group of channels; and, from
``WORK`` down, the surfaces that a layer writes for itself, one number each.
"""

_MARK = np.iinfo(np.int32).max
"""A value that memory holds only while a task's accesses are compared."""

_WRITABLE = (BufferId.SCRATCH, BufferId.INPUT, BufferId.OUTPUT)

Content = npt.NDArray[np.int32]


def check_memory(
    partition: Partition,
    footprints: Sequence[Footprint],
    layers: Sequence[Layer],
    memory: MemoryPlan,
    places: Mapping[int, Place],
    in_place: Mapping[int, int],
) -> None:
    """``in_place``: operands that results are written over. ``footprints`` belong to ``layers``,
    one to one. Raises LoweringError (rule ``tasks_keep_memory``) naming the node whose tasks would
    read or write what they must not.
    """
    checker = _Checker(memory, places, in_place, partition.inputs)
    for number, (footprint, layer) in enumerate(zip(footprints, layers, strict=True)):
        checker.run(footprint, layer, memory.work.get(number, NO_WORK))
    last = footprints[-1].node.index
    for tensor in partition.outputs:
        checker.require(tensor, last, "is gone at the end")


class _Checker:
    def __init__(
        self,
        memory: MemoryPlan,
        places: Mapping[int, Place],
        in_place: Mapping[int, int],
        given: Sequence[int],
    ) -> None:
        self._tensors = memory.tensors
        self._work = NO_WORK  # of the layer that runs
        self._in_place = in_place
        # Tensors of a group lie in one another: any of them stands for the group.
        self._names = {t: places[t].group if t in places else t for t in memory.tensors}
        sizes = memory.sizes_bytes
        self._content: dict[BufferId, Content] = {
            buffer: np.full(-(-sizes[buffer] // ATOM_BYTES), NOTHING, np.int32)
            for buffer in _WRITABLE
        }
        self._unread: dict[int, str] = {}  # tiles by the numbers of surfaces in the work area
        self._torn: dict[int, str] = {}  # who overwrote parts of them, likewise
        self._next = WORK
        # The host's buffer has content everywhere, and the host wrote the tensors that are given.
        self._content[BufferId.INPUT][:] = PADDING
        for index in given:
            for window in self._windows(self._tensors[index]):
                window[...] = self._names[index]

    def require(self, index: int, node: int, what: str) -> None:
        tensor = self._tensors[index]
        if any((window != self._names[index]).any() for window in self._windows(tensor)):
            raise _refusal(node, f"tensor {index} {what}")

    def run(self, footprint: Footprint, layer: Layer, work: range) -> None:
        node = footprint.node.index
        for tensor, _ in footprint.reads:
            self.require(tensor, node, "is not there when it is read")
        self._work = work
        area = slice(work.start // ATOM_BYTES, work.stop // ATOM_BYTES)
        self._content[BufferId.SCRATCH][area] = NOTHING
        self._unread, self._torn = {}, {}
        result = self._tensors[footprint.result]
        replaced = self._in_place.get(footprint.result)
        for task in layer.tasks:
            if replaced is not None and not _is_byte_by_byte(task):
                raise _refusal(node, f"{task.tile} overwrites bytes before it reads them")
            found = list(accesses(task))
            used = [access for access in found if access.start.buffer in _WRITABLE]
            for access in used:
                buffer = access.start.buffer
                room = self._content[buffer].size * ATOM_BYTES
                if access.start.offset < 0 or access.end > room:
                    raise _refusal(node, f"{access.what} leaves {buffer.name}")
            written = {access.start.buffer for access in used if access.is_write}
            is_near = any(a.start.buffer in written and not a.is_write for a in used)
            if is_near and self._meet(task, used):
                raise _refusal(node, f"{task.tile} writes where it reads")
            for access in found:
                if access.is_write:
                    self._write(node, task.tile, access, result)
                elif access.start.buffer in _WRITABLE:
                    self._read(node, task.tile, access)
        for tile in self._unread.values():
            raise _refusal(node, f"{tile} writes what no task reads where it lies")
        for tensor, _ in footprint.reads:
            if tensor != replaced:
                self.require(tensor, node, "is overwritten while it is read")
        self.require(footprint.result, node, "is not written as a whole")

    def _meet(self, task: Task, used: Sequence[Access]) -> bool:
        """Return whether a task writes an atom that it reads, but for the DPU alone, which may read
        and write the same atoms in the same order.
        """
        for write in (access for access in used if access.is_write):
            written = self._window(write)
            reads = [
                self._window(access)
                for access in used
                if not access.is_write
                and not (isinstance(task, ElementwiseTask) and _has_same_atoms(access, write))
            ]
            near = [read for read in reads if np.may_share_memory(written, read)]
            if near:
                content = written.copy()
                written[...] = _MARK
                is_met = any((read == _MARK).any() for read in near)
                written[...] = content
                if is_met:
                    return True
        return False

    def _read(self, node: int, tile: str, access: Access) -> None:
        window = self._window(access)
        if (window == NOTHING).any():
            raise _refusal(node, f"{access.what} of {tile} is read before it is written")
        wanted = window[: access.real]
        if access.real is not None and (wanted == PADDING).any():
            raise _refusal(node, f"{access.what} of {tile} has values that are group padding")
        if self._unread:
            for content in np.unique(wanted).tolist():
                self._unread.pop(content, None)
        if not self._torn:
            return
        for content in np.unique(window).tolist():
            if content in self._torn:
                problem = f"of which {self._torn[content]} has overwritten a part"
                raise _refusal(node, f"{access.what} of {tile} is a surface {problem}")

    def _write(self, node: int, tile: str, access: Access, result: DeviceTensor) -> None:
        buffer, first = access.start.buffer, access.start.offset
        in_work = buffer is BufferId.SCRATCH and first in self._work
        # Of a tensor up to the end of the last surface that it has room for.
        begin, last = result.location.offset, result.view.images - 1
        end = begin + last * result.image_stride_bytes + result.view.pixels * ATOM_BYTES
        end += (result.surfaces - 1) * result.surface_stride_bytes
        if in_work:
            begin, end = self._work.start, self._work.stop
        is_own = in_work or buffer is result.location.buffer
        if buffer not in _WRITABLE or not is_own or first < begin or access.end > end:
            raise _refusal(
                node,
                f"bytes {first}..{access.end - 1} of {buffer.name} are written, beyond the room of "
                f"tensor {result.index}, {begin}..{end - 1} of {result.location.buffer.name}",
            )
        window = self._window(access)
        if in_work:
            self._torn.update((c, tile) for c in np.unique(window).tolist() if c <= WORK)
        window[access.real :] = PADDING
        if not in_work:
            window[: access.real] = self._names[result.index]
            return
        for surface in window[: access.real]:
            surface[...] = self._next
            self._unread[self._next] = tile
            self._next -= 1

    def _windows(self, tensor: DeviceTensor) -> Iterable[Content]:
        """Yield the channels of a tensor, image by image."""
        row_bytes, surfaces = tensor.view.pixels * ATOM_BYTES, surfaces_of(tensor.view.channels)
        stride = tensor.surface_stride_bytes
        for image in range(tensor.view.images):
            start = tensor.location.moved(image * tensor.image_stride_bytes)
            yield self._window(
                Access("", start, row_bytes, surfaces=surfaces, surface_stride_bytes=stride)
            )

    def _window(self, access: Access) -> Content:
        content, first = self._content[access.start.buffer], access.start.offset
        # Operands may end within an atom.
        atoms = -(-(first % ATOM_BYTES + access.row_bytes) // ATOM_BYTES)
        steps = access.surface_stride_bytes, access.row_stride_bytes, ATOM_BYTES
        return np.ndarray(
            (access.surfaces, access.rows, atoms),
            np.int32,
            content,
            first // ATOM_BYTES * content.itemsize,
            tuple(step // ATOM_BYTES * content.itemsize for step in steps),
        )


def _is_byte_by_byte(task: Task) -> bool:
    """Return whether the task writes exactly the atoms, in their order, that it reads beside
    constants.
    """
    reads = (access for access in accesses(task) if not access.is_write)
    read, *others = [access for access in reads if access.start.buffer in _WRITABLE]
    (written,) = [access for access in accesses(task) if access.is_write]
    return not others and _has_same_atoms(read, written)


def _has_same_atoms(read: Access, written: Access) -> bool:
    rows = written.row_bytes if written.rows == 1 else written.row_stride_bytes
    return (
        read.start == written.start
        and read.surfaces == written.surfaces
        and (read.surfaces == 1 or read.surface_stride_bytes == written.surface_stride_bytes)
        and rows == written.row_bytes
        and read.end == written.end
    )


def _refusal(node: int, problem: str) -> LoweringError:
    return LoweringError(node, TASKS_KEEP_MEMORY, problem)
