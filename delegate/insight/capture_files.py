"""Compiled partitions as captures on disk, with what TensorFlow Lite expects of them.

In: a compiled model and one input for it. Out: ``partition_<n>.npz`` per partition (npu-capture-1).
The partition's inputs and the expected outputs are TensorFlow Lite's own tensors by its reference
kernels; a check's bounds are what the simulator reached on them, since the roundings of the layers
of a partition add up. All files are written or none.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from delegate.errors import CaptureError
from delegate.host.delegated import ReferenceModel
from delegate.host.samples import Details, Sample
from delegate.host.tally import Tally
from delegate.model.tensor_details import tensor_details

if TYPE_CHECKING:
    from delegate.compile.compiler import CompiledPartition, CompileResult
    from delegate.insight.capture import Capture

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
    from delegate.insight.capture import save_capture

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
    from delegate.insight.program_capture import capture_of_program
    from delegate.npu.program_reader import parse

    program = parse(compiled.program)
    inputs = [reference.tensor(binding.tensor) for binding in program.inputs]
    expected = [reference.tensor(binding.tensor) for binding in program.outputs]
    reached = []
    outputs = dict.fromkeys(binding.tensor for binding in program.outputs)
    wanted = map(reference.tensor, outputs)
    for ours, theirs in zip(Executable(compiled.program, _DEVICE).run(inputs), wanted, strict=True):
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
