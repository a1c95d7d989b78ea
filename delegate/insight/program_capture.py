"""Programs as captures (npu-capture-1), so that one replay command runs ours and others' programs.

In: a Program, its input tensors and the outputs they must give. Out: a Capture with all memory,
addresses relocated, and a check per output image. The segments are complete and linked: they may
be run task by task, as the capture says, or as a chain.

Compiled partitions as such files, with what TensorFlow Lite expects of them: inputs and expected
outputs are its own tensors by its reference kernels, and a check's bounds are what the simulator
reached on them, since the roundings of the layers of a partition add up. All files are written or
none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from delegate.chip.element import Element
from delegate.errors import CaptureError, UsageError
from delegate.host.delegated import ReferenceModel
from delegate.host.samples import Details, Sample
from delegate.host.tally import Tally
from delegate.insight.capture import (
    Capture,
    CaptureBuffer,
    CaptureCheck,
    CaptureJob,
    CaptureTask,
    save_capture,
)
from delegate.lower.lowered import TensorBinding
from delegate.lower.task import BufferId
from delegate.model.tflite_reader import tensor_details
from delegate.npu.program_types import Program
from delegate.npu.tensor_layout import ATOM_BYTES, device_values, store

if TYPE_CHECKING:
    from delegate.compile.compiler import CompiledPartition, CompileResult

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


_DEVICE = "simulator"
_SHARE_DIGITS = 10_000  # bounds are rounded down to four decimals


def dump_partitions(
    path: Path,
    result: CompileResult,
    folder: Path,
    source: Callable[[Details], Sample],
    *,
    done: Callable[[], None] = lambda: None,
) -> list[Path]:
    """Writes the captures of all partitions of the model ``path`` and returns their paths.

    ``source`` makes the input. ``done`` is called after the reference inference and after every
    partition. Raises CaptureError if the files cannot be written, and what ``source`` raises.
    """
    sample = source([tensor_details(result.graph, index) for index in result.graph.inputs])
    if not result.partitions:
        return []
    edges = [(*c.partition.inputs, *c.partition.outputs) for c in result.partitions]
    reference = ReferenceModel.load(
        path, reference_kernels=True, tensors=[tensor for edge in edges for tensor in edge]
    )
    reference.run(sample)
    done()
    with _new_files(folder) as (workplace, finished):
        for number, compiled in enumerate(result.partitions):
            name = f"partition_{number}.npz"
            save_capture(capture_partition(compiled, reference, path.stem), workplace / name)
            finished.append(name)
            done()
    return [folder / name for name in finished]


def capture_partition(
    compiled: CompiledPartition, reference: ReferenceModel, model: str
) -> Capture:
    """The capture of one partition for the tensors that ``reference`` computed last."""
    from delegate._native import Executable
    from delegate.npu.program_reader import parse

    program = parse(compiled.program)
    inputs = [reference.tensor(binding.tensor) for binding in program.inputs]
    expected = [reference.tensor(binding.tensor) for binding in program.outputs]
    reached = []
    # Each once, whatever boxes it has.
    sides = (dict.fromkeys(b.tensor for b in side) for side in (program.inputs, program.outputs))
    given, wanted = (list(map(reference.tensor, side)) for side in sides)
    for ours, theirs in zip(Executable(compiled.program, _DEVICE).run(given), wanted, strict=True):
        tally = Tally()
        tally.add(ours, theirs)
        reached.append(tally)
    return capture_of_program(
        program,
        inputs,
        expected,
        f"{model} {program.name}",
        max_abs_diff=int(max(tally.max_abs_diff for tally in reached)),
        min_equal=min(t.equal * _SHARE_DIGITS // t.elements for t in reached) / _SHARE_DIGITS,
    )


@contextlib.contextmanager
def _new_files(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """A temporary folder inside ``folder``, and a list of the names to move out of it at the end.

    If the block fails nothing is left behind, not even ``folder`` if it was not there before.
    """
    created = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".dump-", dir=folder) as workplace:
            names: list[str] = []
            yield Path(workplace), names
            for name in names:
                os.replace(Path(workplace, name), folder / name)
        created = False
    except OSError as error:
        raise CaptureError(f"cannot write to {folder}: {error.strerror or error}") from None
    finally:
        if created:
            with contextlib.suppress(OSError):
                folder.rmdir()
