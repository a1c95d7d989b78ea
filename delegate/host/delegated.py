"""A model loaded into the installed runtime with the delegate, and what the delegate made of it.

TensorFlow Lite's own answer: every tensor of a model, by reference or default kernels.

A .tflite file with more outputs: inner tensors that a host wants to read after an inference.

In: the bytes of a model and tensor indices. Out: a copy whose first subgraph lists these tensors
behind its own outputs. The runtimes' own means, ``experimental_preserve_all_tensors``, is not
enough: operators that work in place (ADD, RESHAPE, ... since TensorFlow Lite 2.14) still overwrite
their input then, but never a tensor that is an output of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from delegate.errors import DelegateError, ModelError
from delegate.host.delegation import Delegation, collect_delegations, require_delegation
from delegate.host.library import library_path
from delegate.host.runtimes import Interpreter, find_runtime, invoke
from delegate.model.files import MAX_MODEL_BYTES, read_file
from delegate.model.flatbuffer_tables import write_file
from delegate.model.table_edits import open_tables
from delegate.model.tflite_reader import read_graph
from delegate.model.tflite_schema import FILE_IDENTIFIER, ModelSlot, SubGraphSlot
from delegate.options import Options

CPU = "cpu"


@dataclass(slots=True)
class LoadedModel:
    """A model in an interpreter. ``inputs``/``outputs`` are the runtime's details."""

    interpreter: Interpreter
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]

    def give(self, sample: Sequence[npt.NDArray[Any]]) -> None:
        """Set the inputs. Arrays must have their shapes and types."""
        for details, array in zip(self.inputs, sample, strict=True):
            self.interpreter.set_tensor(details["index"], array)

    def run(self, sample: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """One inference; the model's outputs. Raises DelegateError if the runtime fails."""
        self.give(sample)
        invoke(self.interpreter)
        return [self.interpreter.get_tensor(details["index"]) for details in self.outputs]


@dataclass(slots=True)
class DelegatedModel(LoadedModel):
    """``submits_per_invoke`` is None before ``run``. ``device`` is "cpu" where nothing was
    delegated.
    """

    path: Path
    delegation: Delegation
    submits_per_invoke: int | None = field(default=None)

    @property
    def device(self) -> str:
        return self.delegation.device if self.delegation.delegated_nodes else CPU

    @classmethod
    def load(
        cls,
        path: Path,
        options: Options,
        *,
        threads: int | None = None,
        reference_kernels: bool = False,
    ) -> DelegatedModel:
        """Builds an interpreter with the delegate.

        ``threads`` are for operators on the CPU; ``reference_kernels``: these run as in
        ``ReferenceModel``, so that what differs from it is the delegate's.

        Raises ModelError for a bad model, DeviceError if there is no such device, DelegateError if
        the runtime or the delegate fail, UnsupportedError under ``strict``.
        """
        from delegate._native import open_device_name

        read_graph(path)  # its errors name what is wrong with a file; the runtimes' do not
        open_device_name(
            options.device, options.strict
        )  # a runtime would wrap its error in its own words
        runtime = find_runtime()
        # Defaults stay unsaid, so that the plugin's own view of origins is the same.
        plugin = runtime.load_delegate(library_path(), options.given())
        with collect_delegations() as found:
            try:
                interpreter = runtime.interpreter(
                    path, [plugin], reference_kernels=reference_kernels, threads=threads
                )
            except ModelError:
                for facts in found:
                    require_delegation(facts, options)
                raise
        if not found:
            raise DelegateError(f"{path}: the delegate was loaded but never asked to prepare")
        # Several subgraphs (WHILE, IF) announce themselves one by one.
        total = Delegation(
            device=found[0].device,
            delegated_nodes=sum(f.delegated_nodes for f in found),
            total_nodes=sum(f.total_nodes for f in found),
            partitions=sum(f.partitions for f in found),
            rejections=tuple(r for f in found for r in f.rejections),
        )
        return cls(
            path=path,
            interpreter=interpreter,
            delegation=total,
            inputs=interpreter.get_input_details(),
            outputs=interpreter.get_output_details(),
        )

    def run(self, sample: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        from delegate._native import submit_count

        before = submit_count()
        results = LoadedModel.run(self, sample)
        self.submits_per_invoke = submit_count() - before
        return results


@dataclass(slots=True)
class ReferenceModel(LoadedModel):
    """An interpreter without the delegate."""

    @classmethod
    def load(
        cls,
        model: Path | bytes,
        *,
        reference_kernels: bool,
        tensors: Iterable[int] = (),
        threads: int | None = None,
    ) -> ReferenceModel:
        """``reference_kernels``: BUILTIN_REF, which defines the numeric contract but is slow; else
        the default kernels. ``tensors``: inner tensors that can be read after ``run``.

        Raises ModelError if the model cannot be read or the runtime refuses it.
        """
        inner = tuple(tensors)
        interpreter = find_runtime().interpreter(
            expose_tensors(model, inner) if inner else model,
            reference_kernels=reference_kernels,
            threads=threads,
        )
        count = len(read_graph(model).outputs)
        return cls(
            interpreter, interpreter.get_input_details(), interpreter.get_output_details()[:count]
        )

    def tensor(self, index: int) -> npt.NDArray[Any]:
        """A copy of tensor ``index`` after ``run``. Raises ModelError if it was not asked for."""
        try:
            return self.interpreter.get_tensor(index)
        except ValueError as error:
            raise ModelError(f"tensor {index} cannot be read: {error}") from error


def expose_tensors(model: Path | bytes, indices: Iterable[int]) -> bytes:
    """The content of ``model`` with the tensors ``indices`` as additional outputs, in that order.
    Raises ModelError for a file that cannot be read or copied.
    """
    if isinstance(model, bytes):
        root = open_tables(model, "the model")
    else:
        content = read_file(model, "file", MAX_MODEL_BYTES, error=ModelError)
        root = open_tables(content, str(model))
    subgraph = root.children(ModelSlot.SUBGRAPHS)[0]
    outputs = dict.fromkeys([*subgraph.integers(SubGraphSlot.OUTPUTS), *indices])
    subgraph.set_integers(SubGraphSlot.OUTPUTS, [*outputs])
    return write_file(root, FILE_IDENTIFIER)
