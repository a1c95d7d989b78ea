"""What the reference kernels of a runtime compute, where runtimes differ.

Asked of the kernels themselves, with a model of one node: versions are many, and builds differ.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from delegate.host.runtimes import Runtime
from delegate.log import get_logger
from delegate.model.graph import DType, Graph
from delegate.ops import OPERATORS

logger = get_logger()


def for_runtime(graph: Graph, runtime: Runtime | None) -> Graph:
    """``graph`` with ``rounds_once`` as ``runtime`` has it, if it is of concern. None: a process
    without a runtime's Python module.
    """
    operators = (OPERATORS.get(node.op) for node in graph.nodes)
    if not any(operator is not None and operator.follows_runtime for operator in operators):
        return graph
    return replace(graph, rounds_once=runtime is not None and _rounds_once(runtime))


@functools.cache
def _rounds_once(runtime: Runtime) -> bool:
    """False where the runtime does not run the question."""
    try:
        return _of_minus_half(runtime) == -1
    except Exception as error:  # whatever a runtime may raise must not cost the model
        logger.debug("the runtime's FULLY_CONNECTED is not known: %s", error)
        return False


def _of_minus_half(runtime: Runtime) -> int:
    """Input 1 times weight -1 in units of half an output step: rounded once it is -1; the first of
    two roundings lifts it to 0.
    """
    from delegate.model.builder import Arithmetic, fully_connected_model

    arithmetic = Arithmetic(
        weight_scales=(1.0,),
        weights=np.array([[-1]], np.int8),
        has_bias=False,
        output_scale=2.0,
        output_zero_point=0,
    )
    model = fully_connected_model(
        np.random.default_rng(0),
        (1, 1),
        1,
        DType.INT8,
        arithmetic=arithmetic,
        input_scale=1.0,
        input_zero_point=0,
    )
    interpreter = runtime.interpreter(model, reference_kernels=True)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ones((1, 1), np.int8))
    interpreter.invoke()
    return int(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).item())
