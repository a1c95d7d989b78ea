"""The one place that knows ai-edge-quantizer, which is imported when it is needed.

In: a prepared float model, ranges of its tensors, and operators that stay in float. Out: the bytes
of a model with int8 weights (one scale per channel) and int8 tensors.
"""

import contextlib
import importlib
import io
import re
import warnings
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from delegate.errors import DelegateError
from delegate.host.runtimes import one_line
from delegate.model.graph import Graph
from rk3588_vision.quantization.float_model import FloatModel, bearing_fp16
from rk3588_vision.quantization.int8_islands import with_int8_islands
from rk3588_vision.quantization.ranges import Range, weight_bounds

INSTALL = (
    "pip install 'rk3588-delegate[quantize]' (it needs NumPy 2: in an environment without "
    "tflite-runtime 2.14)"
)
_BITS = 8
_LONGEST_SCOPE = 10_000  # characters of an operator's scope that the package keeps


def load() -> ModuleType:
    """Import the quantiser. Raises DelegateError that says what to install."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("ai_edge_quantizer.quantizer")
    except ModuleNotFoundError as error:
        missing = error.name or "ai_edge_quantizer"
        raise DelegateError(
            f"quantize needs ai-edge-quantizer ({missing} is missing): {INSTALL}"
        ) from None
    except Exception as error:  # a broken installation can raise anything while it is imported
        raise DelegateError(
            f"ai-edge-quantizer does not load: {one_line(error)}; {INSTALL}"
        ) from None


def quantize(model: FloatModel, ranges: Mapping[int, Range], floats: Collection[int] = ()) -> bytes:
    """Return the int8 model. ``floats``: nodes of ``model.graph`` that stay in float32; with some
    the model says that it may be computed in fp16.

    Raises DelegateError without the package, or with its words where it fails.
    """
    package = load()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            quantizer = package.Quantizer(model.content)
            quantizer.add_static_config(".*", "*", _BITS, _BITS)
            for node in floats:
                quantizer.update_quantization_recipe(
                    _scope(model.graph, node), "*", None, package.AlgorithmName.NO_QUANTIZE
                )
            result = quantizer.quantize(
                _statistics(model.graph, ranges),
                enable_progress_bar=False,
                enable_progress_report=False,
            )
            content = bytes(result.quantized_model)
    except MemoryError:
        raise
    except Exception as error:  # its own checks raise many types
        raise DelegateError(
            f"{model.source}: ai-edge-quantizer cannot quantise it: {one_line(error)}"
        ) from error
    stay = {model.graph.tensor(t).name for node in floats for t in model.graph.node(node).outputs}
    content = with_int8_islands(content, stay)
    return bearing_fp16(content) if floats else content


def _scope(graph: Graph, node: int) -> str:
    """Return the expression that matches one operator: the names of its results, each with ";"."""
    names = [graph.tensor(t).name for t in graph.node(node).outputs if t >= 0]
    scope = "".join(f"{name};" for name in names)[:_LONGEST_SCOPE]
    return f"^{re.escape(scope)}$"


def _statistics(graph: Graph, ranges: Mapping[int, Range]) -> dict[str, dict[str, Any]]:
    """Return the ranges as the package writes its own, by name; it may change what it is given."""
    found = {tensor: (np.array([low]), np.array([high])) for tensor, (low, high) in ranges.items()}
    for tensor, most in weight_bounds(graph, ranges).items():
        found[tensor] = (-most, most)
    return {
        graph.tensor(tensor).name: {"min": low, "max": high}
        for tensor, (low, high) in found.items()
    }
