"""Makes what the native plugin hands over for a model in an interpreter, and its preview."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import delegate
from delegate.errors import DelegateError
from delegate.model.graph import Graph

Preview = Callable[[list[int]], list[tuple[list[int], list[int], list[int]]]]


def plugin_or_skip() -> ModuleType:
    """The Python side of the plugin; skips where the native part is not built."""
    try:
        delegate.library_path()
    except DelegateError as error:
        pytest.skip(str(error))
    return pytest.importorskip("delegate.compile.plugin")


def runtime_or_skip() -> ModuleType:
    from delegate.host.runtimes import find_runtime

    try:
        found = find_runtime()
    except DelegateError as error:
        pytest.skip(str(error))
    return found.module


def capture(
    model: bytes | Path,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[Preview], Any] = lambda preview: None,
) -> tuple[Graph, Any]:
    """The graph that the compiler gets from the runtime, and what ``ask`` makes of its preview.

    Constants are copied: the runtime's memory is gone when this returns.
    """
    plugin = plugin_or_skip()
    runtime = runtime_or_skip()
    found: list[tuple[Graph, Any]] = []

    def compile_context(
        graph: Graph, options: Any, preview: Preview, without: Mapping[str, str]
    ) -> Any:
        found.append((with_copied_constants(graph), ask(preview)))
        return SimpleNamespace(partitions=(), rejections=())

    monkeypatch.setattr(plugin, "compile_context", compile_context)
    plugged = runtime.load_delegate(
        delegate.library_path(), {"device": "null", "log_level": "error"}
    )
    source = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    interpreter = runtime.Interpreter(experimental_delegates=[plugged], **source)
    del interpreter
    (first, *_) = found
    return first


def with_copied_constants(graph: Graph) -> Graph:
    tensors: Iterable[Any] = (
        t if t.constant is None else dataclasses.replace(t, constant=_read_only_copy(t.constant))
        for t in graph.tensors
    )
    return Graph(tuple(tensors), graph.nodes)


def _read_only_copy(array: Any) -> Any:
    copy = array.copy()
    copy.flags.writeable = False
    return copy
