"""Graphs of several operators whose outputs are off by more than one step: whose fault is it?

The contract speaks of operators: each within one step, given TensorFlow Lite's own inputs. A sum of
two convolutions may be two steps off where both errors meet, once in a million elements. So each
operator is compiled alone and fed with the oracle's tensors, and the graph as a whole has to stay
below what single steps can add up to.
"""

from __future__ import annotations

from collections.abc import Collection

from delegate.chip.chips import DEFAULT, chip_named
from delegate.compile.compiler import compile_partition
from delegate.conformance import reference
from delegate.conformance.comparison import MAX_ABS_DIFF
from delegate.conformance.reference.arithmetic import Array
from delegate.errors import EncodingError, LoweringError
from delegate.host.tally import Tally
from delegate.model.graph import Graph, Node
from delegate.options import Options
from delegate.partition.functions import smallest_partition


def most_off(graph: Graph) -> int:
    """The largest difference of an output that operators within one step each can make.

    Only sums are followed: a convolution of an inexact tensor counts as one step.
    """
    steps: dict[int, float] = {}
    for node in graph.nodes:
        own = float(MAX_ABS_DIFF)
        if reference.carries_errors(node):
            output = graph.tensor(node.outputs[0]).quantization
            assert output is not None
            for index in node.inputs:
                operand = graph.tensor(index).quantization
                assert operand is not None
                own += steps.get(index, 0.0) * operand.scale / output.scale
        steps[node.outputs[0]] = own
    return max(int(steps[index]) for index in graph.outputs if index in steps)


def operators_off(
    graph: Graph, inputs: dict[int, Array], options: Options, left: Collection[int]
) -> list[str]:
    """A sentence for every operator that alone is off by more than one step. ``left``: nodes that
    stay on the CPU.
    """
    values = reference.compute_all(graph, inputs)
    return [
        f"node {node.index} ({node.op}) alone is off by {worst}"
        for node in graph.nodes
        if node.index not in left and (worst := _worst(graph, node, values, options)) > MAX_ABS_DIFF
    ]


def _worst(graph: Graph, node: Node, values: dict[int, Array], options: Options) -> int:
    from delegate._native import Executable

    chip = chip_named(options.chip)
    try:
        compiled = compile_partition(graph, smallest_partition(graph, node), chip=chip)
    except (LoweringError, EncodingError):
        if chip == DEFAULT:
            raise
        return 0  # it runs beside its neighbours only: what it adds is within the graph's sum
    executable = Executable(compiled.program, options.device, options.timeout_ms)
    tally = Tally()
    results = executable.run([values[binding[0]] for binding in executable.inputs])
    for binding, ours in zip(executable.outputs, results, strict=True):
        tally.add(ours, values[binding[0]])
    return int(tally.max_abs_diff)
