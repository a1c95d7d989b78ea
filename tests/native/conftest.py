"""A stand-in for the compiler.

It claims the operators it is told to and gives programs that read and write the right tensors, so
that the plugin's own behaviour is tested without register programs.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import delegate
import rk3588_conformance.builder.layers as layers
from delegate.model.graph import DType, Graph, Partition
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.ranges import random_quantization
from tests.native.program_builder import INPUT, INT8, OUTPUT, UINT8, Binding, ProgramSpec, nhwc


@pytest.fixture(scope="session")
def runtime() -> ModuleType:
    """The runtime of this environment."""
    with contextlib.suppress(ImportError):
        import ai_edge_litert.interpreter

        return ai_edge_litert.interpreter
    return pytest.importorskip("tflite_runtime.interpreter")


@pytest.fixture
def load(runtime) -> Callable[..., Any]:
    """Loads the library as a user does, on the null device."""
    return lambda **options: runtime.load_delegate(
        delegate.library_path(), {"device": "null", **options}
    )


@pytest.fixture
def delegated(runtime, load, compiler) -> Callable[..., Any]:
    """An allocated interpreter with the library, whose compiler is the stand-in."""

    def make(model: bytes, **options: str) -> Any:
        made = runtime.Interpreter(model_content=model, experimental_delegates=[load(**options)])
        made.allocate_tensors()
        return made

    return make


def program_for(graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """A program that binds the tensors and does nothing."""

    def bind(tensors: Sequence[int], buffer: int) -> list[Binding]:
        bindings, offset = [], 0
        for index in tensors:
            tensor = graph.tensors[index]
            element = UINT8 if tensor.dtype is DType.UINT8 else INT8
            bindings.append(nhwc(index, tensor.shape, buffer, element=element, offset=offset))
            offset = bindings[-1].end
        return bindings

    return ProgramSpec(bind(inputs, INPUT), bind(outputs, OUTPUT)).build()


@dataclass
class FakeCompiler:
    """``ops``: what is claimed; ``fail``: raised instead; the rest records the calls."""

    ops: tuple[str, ...] = ("CONV_2D",)
    fail: Exception | None = None
    largest_batch: int = 8
    spoil: Callable[[list[Any]], list[Any]] = lambda partitions: partitions
    graphs: list[Graph] = field(default_factory=list)
    previews: list[Any] = field(default_factory=list)

    def compile_context(
        self, graph: Graph, options: Any, preview: Any, without: Mapping[str, str]
    ) -> Any:
        self.graphs.append(graph)
        self.previews.append(preview)
        if self.fail is not None:
            raise self.fail
        wanted = [
            node.index
            for node in graph.nodes
            if node.op in self.ops and graph.tensors[node.inputs[0]].shape[0] <= self.largest_batch
        ]
        partitions = [
            SimpleNamespace(
                partition=Partition(tuple(nodes), tuple(inputs), tuple(outputs)),
                program=program_for(graph, inputs, outputs),
                bound="",
            )
            for nodes, inputs, outputs in preview(wanted)
        ]
        return SimpleNamespace(partitions=self.spoil(partitions), rejections=())


@pytest.fixture
def compiler(monkeypatch) -> FakeCompiler:
    pytest.importorskip("delegate.compile.compiler")
    import delegate.compile.plugin

    fake = FakeCompiler()
    monkeypatch.setattr(delegate.compile.plugin, "compile_context", fake.compile_context)
    return fake


@pytest.fixture
def model() -> bytes:
    """conv 3x3 -> depthwise 3x3 -> conv 1x1, uint8, H != W."""
    rng = np.random.default_rng(1)
    builder = Net("three layers", rng)
    quantization = random_quantization(rng, DType.UINT8, None, None)
    x = builder.input("x", (1, 7, 5, 3), DType.UINT8, quantization)
    x = builder.conv(x, 19, layers.Window(3, 3))
    x = builder.depthwise(x, layers.Window(3, 3))
    return builder.build(builder.conv(x, 5, layers.Window(1, 1)))
