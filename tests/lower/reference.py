"""TensorFlow Lite's reference kernels as an oracle, and the whole partition of a small model."""

import numpy as np

from delegate._native import Executable
from delegate.compile.compiler import compile_partition
from delegate.host.runtimes import find_runtime
from delegate.lower.lowered import LoweredPartition
from delegate.lower.lowering import lower_partition
from delegate.model.graph import Graph, Partition
from delegate.model.tflite_reader import read_graph
from delegate.partition.workload import workload_of


def whole_graph(graph: Graph) -> Partition:
    """All nodes as one partition."""
    produced = {t for node in graph.nodes for t in node.outputs}
    used = [t for node in graph.nodes for t in node.inputs if t >= 0]
    inputs = dict.fromkeys(
        t for t in used if t not in produced and graph.tensor(t).constant is None
    )
    return Partition(tuple(node.index for node in graph.nodes), tuple(inputs), tuple(graph.outputs))


def random_inputs(graph: Graph, tensors, rng: np.random.Generator):
    arrays = []
    for index in tensors:
        tensor = graph.tensor(index)
        limits = np.iinfo(tensor.dtype.name.lower())
        values = rng.integers(limits.min, limits.max + 1, tensor.shape)
        arrays.append(values.astype(limits.dtype))
    return arrays


def tflite_outputs(model: bytes, partition: Partition, arrays):
    module = find_runtime().module
    interpreter = module.Interpreter(
        model_content=model, experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    for index, array in zip(partition.inputs, arrays, strict=True):
        interpreter.set_tensor(index, array)
    interpreter.invoke()
    return [interpreter.get_tensor(index) for index in partition.outputs]


def lower_model(model: bytes) -> tuple[Graph, Partition, LoweredPartition]:
    graph = read_graph(model)
    partition = whole_graph(graph)
    return graph, partition, lower_partition(workload_of(graph, partition), "test")


def differences(model: bytes, rng: np.random.Generator):
    """|ours - TFLite| per output, ours on the simulator."""
    graph = read_graph(model)
    partition = whole_graph(graph)
    arrays = random_inputs(graph, partition.inputs, rng)
    expected = tflite_outputs(model, partition, arrays)
    compiled = compile_partition(graph, partition, numerics="exact")
    ours = Executable(compiled.program, "simulator").run(arrays)
    return [
        np.abs(mine.astype(np.int64) - theirs.astype(np.int64))
        for mine, theirs in zip(ours, expected, strict=True)
    ]
