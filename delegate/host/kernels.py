"""Find out what the reference kernels of a runtime compute, where runtimes differ.

Asked of the kernels themselves, with a model of one node: versions are many, and builds differ.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from delegate.host.runtimes import Runtime
from delegate.log import get_logger
from delegate.model.graph import Graph
from delegate.model.stored_options import FOLLOW_RUNTIME

logger = get_logger()


def for_runtime(graph: Graph, runtime: Runtime | None) -> Graph:
    """``graph`` with ``rounds_once`` as ``runtime`` has it, if it is of concern. None: a process
    without a runtime's Python module.
    """
    if FOLLOW_RUNTIME.isdisjoint(node.op for node in graph.nodes):
        return graph
    return replace(graph, rounds_once=runtime is not None and _rounds_once(runtime))


@functools.cache
def _rounds_once(runtime: Runtime) -> bool:
    """Return whether the reference kernel makes -1 of half an output step below zero; the first of
    two roundings lifts it to 0. False where the runtime does not run the question.
    """
    try:
        interpreter = runtime.interpreter(half_step_model(), reference_kernels=True)
        given, taken = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
        interpreter.set_tensor(given["index"], np.ones((1, 1), np.int8))
        interpreter.invoke()
        return int(interpreter.get_tensor(taken["index"]).item()) == -1
    except Exception as error:  # whatever a runtime may raise must not cost the model
        logger.debug("the runtime's FULLY_CONNECTED is not known: %s", error)
        return False


def half_step_model() -> bytes:
    """FULLY_CONNECTED, int8: one input, the weight -1, an output step of two accumulators."""
    import binascii
    import zlib

    return zlib.decompress(binascii.a2b_base64(_HALF_STEP))


# A file of 656 bytes, compressed; the tests read it.
_HALF_STEP = (
    "eNqNUj1PAkEQnfsQjrDRTSRwBZUVhYmFlCZSGQtKe0LggEvgNPGIMbGw8Jf5w1zfzM5G/Ars5WU+bua9nbmzRHR3M74k"
    "Pe/OuXFMZOEPgD78BPYEWGzX6+fJ7L6qilldzEMLRUBHvGPK4VkylFGKyOfPgZy5gBWQAptpWYXeWO1PLrbM1VYu60sy"
    "o/7ww7nQn+z0YwSXaPCiemfIcYb7rnxpi+czyGeqGdH3o/Eo3C/6dw9dzJZTTyf3p4msp2Hu0Ref6L7t1X293tXt/da9"
    "eCrK5ap+FH3e+ynP84c+7/1WtYdSY/wisRkj9vB7HAFl9bCtNbbCZ2Uvga+lO2c31v/IKzakpqHv5VupVioP0Sc0lDnb"
)
