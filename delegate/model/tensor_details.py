"""A model's inputs and outputs as the runtimes describe them, read from the file without a runtime.

So that a command can refuse a bad picture or label file before it builds an interpreter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from delegate.model.graph import Graph
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.model.tflite_reader import read_graph


def tensor_details(graph: Graph, index: int) -> dict[str, Any]:
    """One tensor with the keys of ``Interpreter.get_input_details()`` that this project uses.

    "quantization" is (0.0, 0) where there is none or more than one scale, as the runtimes give it.
    """
    tensor = graph.tensor(index)
    quantization: tuple[float, int] = (0.0, 0)
    if tensor.quantization is not None and not tensor.quantization.is_per_channel:
        quantization = (tensor.quantization.scale, tensor.quantization.zero_point)
    return {
        "name": tensor.name,
        "index": index,
        "shape": tensor.shape,
        "shape_signature": tensor.shape_signature or tensor.shape,
        "dtype": NUMPY_TYPES.get(tensor.dtype, np.dtype(np.object_)).type,
        "quantization": quantization,
    }


def model_details(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Inputs and outputs of the first subgraph of a .tflite file. Raises ModelError."""
    graph = read_graph(path)
    return (
        [tensor_details(graph, index) for index in graph.inputs],
        [tensor_details(graph, index) for index in graph.outputs],
    )
