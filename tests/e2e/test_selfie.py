"""MediaPipe's selfie segmentation in fp16: every node is as near to exact arithmetic as its result
rounded once. Nothing that holds maps in fp16 can do better, whatever the masks are.
"""

from __future__ import annotations

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.conformance.cut_model import exposed_model
from delegate.options import Options
from tests.e2e.test_mediapipe import FEW, FLOAT, MANY, photographs, pixels
from tests.generated.exact_graph import _results
from tests.shared_folder import needs_models

pytestmark = needs_models

MODEL = FLOAT / "mediapipe_selfie_segmentation.tflite"
ONCE = 1.001
"""Of the root mean square of a map's errors against those of one rounding; sums in fp32 have a
2^-13 of them.
"""
OTHERWISE = {"LOGISTIC": 1.25, "AVERAGE_POOL_2D": 1.1}
"""Half a unit of the index at the tables' steepest place, 4.7e-5, beside the rounding of numbers
from 1/4 to 1/2, 7.0e-5: their root sum of squares is 1.2 of the latter. Means of 64 rows are means
of means, whose own roundings cancel.
"""


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_every_node_is_one_rounding_from_exact(count: int) -> None:
    options = Options.from_mapping({"float": "fp16", "only_faster": "false"}, {})
    result = compile_model(exposed_model(MODEL.read_bytes()), options)
    graph = result.graph
    (made,) = result.partitions
    executable = Executable(made.program, "simulator")
    (given,) = graph.inputs
    nodes = [n for n in graph.nodes if graph.tensor(n.outputs[0]).constant is None]
    ours, once = np.zeros(len(nodes)), np.zeros(len(nodes))
    for picture in photographs(count):
        x = pixels(picture, (256, 256), 0.0)
        values = {given: x.astype(np.float16).astype(np.float64)}
        found = executable.run([x])
        for tensor, array in zip(made.partition.outputs, found, strict=True):
            values[tensor] = array.reshape(graph.tensor(tensor).shape).astype(np.float64)

        def value_of(index: int, known: dict[int, np.ndarray] = values) -> np.ndarray:
            constant = graph.tensor(index).constant
            if constant is None:
                return known[index]
            return constant if constant.dtype.kind == "i" else constant.astype(np.float64)

        for place, node in enumerate(nodes):
            (tensor,) = node.outputs
            exact = _results(graph, node, value_of)[0].reshape(graph.tensor(tensor).shape)
            ours[place] += np.square(values[tensor] - exact).sum()
            once[place] += np.square(exact.astype(np.float16) - exact).sum()
    for node, error, rounding in zip(nodes, ours, once, strict=True):
        assert error <= OTHERWISE.get(node.op, ONCE) ** 2 * rounding, graph.tensor(node.outputs[0])
