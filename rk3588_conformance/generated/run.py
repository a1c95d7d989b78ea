"""An interpreter of a random model, with the delegate or without, and with the kernels of the CPU
where the judges need them.
"""

import logging
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

import delegate
import delegate.compile.cache
import delegate.compile.plugin  # before any fork: every case would import it anew
from delegate.errors import LoweringError
from delegate.host.delegation import collect_delegations
from delegate.host.runtimes import find_runtime
from delegate.log import get_logger
from delegate.partition.rules import PARTITION_COMPILES

Array = npt.NDArray[Any]

_LEFT_TO_CPU: list[str] = []
"""Messages of partitions that did not compile for new shapes."""


def _notice(record: logging.LogRecord) -> bool:
    if "run on the CPU" in record.msg:
        _LEFT_TO_CPU.append(record.getMessage())
    return True


get_logger().addFilter(_notice)


class Run:
    """An interpreter of one model, whose inputs change their shapes between inferences."""

    def __init__(
        self,
        model: bytes,
        *,
        is_delegated: bool,
        reference_kernels: bool = True,
        kernels_of_the_cpu: bool = False,
        options: Mapping[str, str] = {},
    ) -> None:
        """``reference_kernels``: of the nodes of the CPU; the default ones of MEAN and others are
        not always equal to them. ``kernels_of_the_cpu``: partitions are made, but no program
        of theirs is used. ``options``: of the delegate, beside those that the judge needs.
        """
        runtime = find_runtime()
        plugins = []
        if kernels_of_the_cpu:
            _use_no_programs()
        if is_delegated:
            chosen = {"device": "simulator", "log_level": "warning", "deny_ops": ""}
            plugins.append(
                runtime.load_delegate(
                    delegate.library_path(), {"cache_dir": "off", **chosen, **options}
                )
            )
        with collect_delegations() as found:
            self.interpreter: Any = runtime.interpreter(
                model, plugins, reference_kernels=reference_kernels
            )
        rejections = [r for d in found for r in d.rejections]
        self.rejected = {r.node for r in rejections}
        self.failures = [r.detail for r in rejections if r.rule == PARTITION_COMPILES.name]
        self._is_allocated = True
        self.is_on_npu = True  # whatever is delegated, with the shapes of the last inference
        self.delegated_nodes = sum(d.delegated_nodes for d in found)
        self.outputs = [int(d["index"]) for d in self.interpreter.get_output_details()]

    def attempt(self, feeds: Mapping[int, Array]) -> dict[int, Array] | None:
        """The outputs by tensor; None: these shapes are an error."""
        try:
            return self.run(feeds)
        except (RuntimeError, ValueError):
            return None

    def refuses(self, feeds: Mapping[int, Array]) -> bool:
        """Return whether these shapes are an error."""
        return self.attempt(feeds) is None

    def run(self, feeds: Mapping[int, Array]) -> dict[int, Array]:
        """One inference: the outputs by tensor."""
        shapes = {int(d["index"]): tuple(d["shape"]) for d in self.interpreter.get_input_details()}
        changed = [t for t, value in feeds.items() if shapes[t] != value.shape]
        before = len(_LEFT_TO_CPU)
        for tensor in changed:
            self.interpreter.resize_tensor_input(tensor, feeds[tensor].shape)
        if changed or not self._is_allocated:
            self.is_on_npu, self._is_allocated = True, False
            self.interpreter.allocate_tensors()
            self._is_allocated = True
        for tensor, value in feeds.items():
            self.interpreter.set_tensor(tensor, value)
        self.interpreter.invoke()
        self.is_on_npu = self.is_on_npu and len(_LEFT_TO_CPU) == before
        return {tensor: self.interpreter.get_tensor(tensor) for tensor in self.outputs}


def _use_no_programs() -> None:
    """Models are compiled to find their partitions, which then do not compile for any shapes."""
    plugin: Any = delegate.compile.plugin
    compile_context = plugin.compile_context

    def compile_once(*arguments: Any) -> Any:
        plugin.compile_context = refuse
        return compile_context(*arguments)

    def refuse(*_: Any) -> Any:
        raise LoweringError(0, PARTITION_COMPILES, "asked not to")

    plugin.compile_context = compile_once
    delegate.compile.cache.has_own_shapes = lambda *_: False
