"""Random graphs: the reference kernels operator by operator, and the delegate as a whole.

What one partition gives differs from the reference already, and the next layer multiplies that, so
outputs are not compared element by element: each operator alone is within one step of the
reference, and the delegated model as a whole equals its tasks executed on the plain machine.
"""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

import delegate
from delegate._native import Executable, submit_count
from delegate.compile.compiler import compile_model, compile_partition
from delegate.host.delegation import collect_delegations
from delegate.host.runtimes import find_runtime
from delegate.lower.lowering import lower_partition
from delegate.model.exposed_tensors import expose_tensors
from delegate.model.partition import Partition
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.ops.operator import Lowering
from delegate.options import Options
from delegate.partition.workload import workload_of
from rk3588_conformance.tolerance import PER_CHANNEL, SUM_ALONE, most_differing
from tests.conformance.graph_strategies import Plan, build, plans
from tests.machine.task_machine import Machine

OPTIONS = Options.from_mapping({"device": "simulator", "log_level": "error", "deny_ops": ""})
ON_THE_NPU = {"CONV_2D", "DEPTHWISE_CONV_2D", "ADD"}
BESIDE_OTHERS = {"RESHAPE"}  # on the NPU where it has a neighbour there

thorough = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def reference_tensors(model: bytes, graph, array, tmp_path):
    """Every tensor that a node writes, by the reference kernels."""
    written = [node.outputs[0] for node in graph.nodes]
    path = tmp_path / "model.tflite"
    path.write_bytes(model)
    interpreter = find_runtime().interpreter(
        expose_tensors(path, written), reference_kernels=True
    )  # fmt: skip
    interpreter.set_tensor(graph.inputs[0], array)
    interpreter.invoke()
    values = {index: interpreter.get_tensor(index) for index in written}
    return {graph.inputs[0]: array, **values}


def prepared(plan: Plan, folder):
    model = build(plan)
    graph = read_graph(model)
    limits = np.iinfo(np.int8 if plan.dtype.name == "INT8" else np.uint8)
    rng = np.random.default_rng(plan.seed)
    shape = graph.tensor(graph.inputs[0]).shape
    array = rng.integers(limits.min, limits.max + 1, shape).astype(limits.dtype)
    return model, graph, array, reference_tensors(model, graph, array, folder)


def difference(ours, theirs) -> int:
    return int(np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max(initial=0))


def check_delegated(graph, delegated):
    computing = {node.index for node in graph.nodes if node.op in ON_THE_NPU}
    assert computing <= delegated
    assert {graph.node(index).op for index in delegated - computing} <= BESIDE_OTHERS


@thorough
@given(plans())
def test_every_operator_is_within_one_step(tmp_path_factory, plan):
    _, graph, _, values = prepared(plan, tmp_path_factory.mktemp("graph"))
    result = compile_model(graph, OPTIONS)
    delegated = {index for compiled in result.partitions for index in compiled.partition.nodes}
    check_delegated(graph, delegated)
    for compiled in result.partitions:
        for index in compiled.partition.nodes:
            node = graph.node(index)
            if OPERATORS[node.op].lowering is not Lowering.TASKS:
                continue  # a part of others is no program alone
            inputs = tuple(dict.fromkeys(i for i in node.inputs if i in values))
            alone = compile_partition(graph, Partition((index,), inputs, node.outputs))
            executable = Executable(alone.program, "simulator")
            (ours,) = executable.run([values[b[0]] for b in executable.inputs])
            theirs = values[node.outputs[0]]
            assert difference(ours, theirs) <= 1
            share = SUM_ALONE if node.op == "ADD" else PER_CHANNEL
            assert np.count_nonzero(ours != theirs) <= most_differing(share, ours.size)


@thorough
@given(plans())
def test_the_delegated_model_equals_its_partitions_on_the_plain_machine(tmp_path_factory, plan):
    """The runtime, the plugin, the programs and the simulator against tasks executed in NumPy."""
    model, graph, array, _ = prepared(plan, tmp_path_factory.mktemp("graph"))
    given = {"device": "simulator", "log_level": "error", "deny_ops": ""}
    plugin = find_runtime().load_delegate(delegate.library_path(), given)
    with collect_delegations() as found:
        interpreter = find_runtime().interpreter(model, [plugin])
    left = {rejection.node for rejection in found[0].rejections}
    check_delegated(graph, {node.index for node in graph.nodes} - left)
    before = submit_count()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], array)
    interpreter.invoke()
    assert submit_count() - before == found[0].partitions

    values = {graph.inputs[0]: array}
    partitions = {
        c.partition.nodes[0]: c.partition for c in compile_model(graph, OPTIONS).partitions
    }
    inside = {index for partition in partitions.values() for index in partition.nodes}
    pending = [*partitions.values(), *(node for node in graph.nodes if node.index not in inside)]
    while pending:
        item = next(i for i in pending if all(t in values for t in inputs_of(graph, i)))
        pending.remove(item)
        if isinstance(item, Partition):
            lowered = lower_partition(workload_of(graph, item), "plain")
            outputs = Machine(lowered).run([values[b.tensor] for b in lowered.inputs])
            values.update(zip((b.tensor for b in lowered.outputs), outputs, strict=True))
        else:  # keeps its input, by construction
            values[item.outputs[0]] = values[item.inputs[0]]
    for details, index in zip(interpreter.get_output_details(), graph.outputs, strict=True):
        np.testing.assert_array_equal(interpreter.get_tensor(details["index"]), values[index])


def inputs_of(graph, item):
    if isinstance(item, Partition):
        return item.inputs
    return [t for t in item.inputs if graph.tensor(t).constant is None]
