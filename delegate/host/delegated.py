"""A model loaded into the installed runtime with the delegate, and what the delegate made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from delegate.errors import DelegateError, ModelError
from delegate.host.delegation import Delegation, collect_delegations, require_delegation
from delegate.host.library import library_path
from delegate.host.runtimes import Interpreter, find_runtime, invoke
from delegate.model.tflite_reader import read_graph
from delegate.options import Options

CPU = "cpu"


@dataclass(slots=True)
class DelegatedModel:
    """``inputs``/``outputs`` are the runtime's details; ``submits_per_invoke`` is None before
    ``run``.

    ``device`` is "cpu" where nothing was delegated.
    """

    path: Path
    interpreter: Interpreter
    delegation: Delegation
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
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

    def run(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """One invoke. Arrays must have the inputs' shapes and types. Raises DelegateError on
        failure.
        """
        from delegate._native import submit_count

        for details, array in zip(self.inputs, inputs, strict=True):
            self.interpreter.set_tensor(details["index"], array)
        before = submit_count()
        invoke(self.interpreter)
        self.submits_per_invoke = submit_count() - before
        return [self.interpreter.get_tensor(details["index"]) for details in self.outputs]
