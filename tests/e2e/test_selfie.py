"""MediaPipe's selfie segmentation in fp16: every node, and the masks, are as near to exact
arithmetic as one rounding of every tensor lets them be. Nothing that holds maps in fp16 can do
better.
"""

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from delegate.partition.half import as_computed
from rk3588_conformance.cut_model import exposed_model
from rk3588_conformance.reference.exact_graph import exact_values, node_results
from rk3588_conformance.reference.half_oracle import to_half
from tests.e2e.test_mediapipe import FEW, FLOAT, LEAST_COSINE, MANY, cosine, photographs, pixels
from tests.shared_folder import needs_models

pytestmark = needs_models

MODEL = FLOAT / "mediapipe_selfie_segmentation.tflite"
ONCE = 1.001
"""A map's errors (root mean square) over those of one rounding; sums have a 2^-13 of them."""
OTHERWISE = {"LOGISTIC": 1.25, "AVERAGE_POOL_2D": 1.1}
"""Half a unit of the index at the tables' steepest place, 4.7e-5, beside the rounding of numbers
from 1/4 to 1/2, 7.0e-5: their root sum of squares is 1.2 of the latter. Means of 64 rows are means
of means, whose own roundings cancel.
"""
MOST_OF_IDEAL = 1.25
"""The mean of the errors' ratios: tables and factors between tensors are rounded, too."""
DRAWS = 2.0
"""The distance of two draws of the same noise on a single photograph."""


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.exhaustive)])
def test_every_node_is_one_rounding_from_exact(count: int) -> None:
    options = Options.from_mapping({"numerics": "exact", "float": "fp16", "deny_ops": ""}, {})
    result = compile_model(exposed_model(MODEL.read_bytes()), options)
    graph = result.graph
    (made,) = result.partitions
    executable = Executable(made.program, "simulator")
    (given,) = graph.inputs
    nodes = [n for n in graph.nodes if graph.tensor(n.outputs[0]).constant is None]
    ours, once = np.zeros(len(nodes)), np.zeros(len(nodes))
    for picture in photographs(count):
        x = pixels(picture, (256, 256), 0.0)
        values = {given: to_half(x)}
        found = executable.run([x])
        for tensor, array in zip(made.partition.outputs, found, strict=True):
            values[tensor] = array.reshape(graph.tensor(tensor).shape).astype(np.float64)
        for place, node in enumerate(nodes):
            ((tensor, exact),) = node_results(graph, node, values).items()
            ours[place] += np.square(values[tensor] - exact).sum()
            once[place] += np.square(to_half(exact) - exact).sum()
    for node, error, rounding in zip(nodes, ours, once, strict=True):
        assert error <= OTHERWISE.get(node.op, ONCE) ** 2 * rounding, graph.tensor(node.outputs[0])


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.exhaustive)])
def test_masks_are_as_near_as_a_rounding_of_each_tensor_lets_them_be(count: int) -> None:
    """No fp16 holds selfie segmentation's masks to a hundredth, and that of every photograph to the
    cosine (``python -m benchmarks.half_limits``): beside everything in float64 but for one rounding
    of each tensor to fp16, the errors are another draw of the same noise.
    """
    graph = as_computed(read_graph(MODEL), Options(float="fp16"))
    (given,), (mask,) = graph.inputs, graph.outputs
    options = Options.from_mapping({"numerics": "exact", "float": "fp16"}, {})
    (partition,) = compile_model(MODEL, options).partitions
    npu = Executable(partition.program, "simulator")
    size = graph.tensor(given).shape[1], graph.tensor(given).shape[2]
    logarithms = []
    for photograph in photographs(count):
        inputs = {given: pixels(photograph, size, 0.0)}
        exact = exact_values(graph, inputs)[mask]
        ideal = exact_values(graph, inputs, lambda _, values: to_half(values))[mask]
        (found,) = npu.run([inputs[given]])
        ours = found.astype(np.float64).reshape(exact.shape)
        errors, least = (np.sqrt(np.mean((values - exact) ** 2)) for values in (ours, ideal))
        logarithms.append(np.log(errors / least))
        worst = max(1 - LEAST_COSINE, DRAWS * (1 - cosine(ideal, exact)))
        assert 1 - cosine(ours, exact) <= worst, photograph
    assert np.exp(np.mean(logarithms)) <= MOST_OF_IDEAL
