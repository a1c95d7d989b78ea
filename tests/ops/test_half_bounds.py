"""Tests what the compiler says of results in fp16, against float64: ordinary inputs, large and
small magnitudes, and the ends of the format, for every kind of node that it takes.

The suite's judge has bounds of its own; here the compiler's are held, those that users read.
"""

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.options import Options
from rk3588_conformance.execution import load_and_invoke, prepare
from rk3588_conformance.families import case_names, is_half
from rk3588_conformance.half_judge import clamped, exact_terms
from rk3588_conformance.reference.exact_graph import is_bounded

OPTIONS = Options.from_mapping({"numerics": "exact", "device": "simulator", "float": "fp16"}, {})
LARGEST = float(np.finfo(np.float16).max)
KINDS = sorted({name.split("/")[0] for name in case_names(None) if is_half(name)})
EACH = 12
"""Cases of a kind."""


def excess(name: str, shrunk: float = 1.0) -> float | None:
    """The largest error over the bound, times ``shrunk``; None: bits, or several nodes."""
    prepared = prepare(name, None)
    result = compile_model(prepared.model, OPTIONS)
    if not is_bounded(prepared.graph) or len(result.partitions) != 1:
        return None
    layers = [layer for layer in result.partitions[0].layers if layer.bound is not None]
    if len(layers) != 1:
        return None
    bound = layers[0].bound
    assert bound is not None
    (ours,), _ = load_and_invoke(prepared, OPTIONS)
    (exact, magnitude, *_), end = exact_terms(prepared.graph, prepared.inputs)
    exact, magnitude = (np.broadcast_to(np.reshape(a, -1), ours.size) for a in (exact, magnitude))
    wanted = clamped(exact, end)
    inputs = np.concatenate([np.ravel(x) for x in prepared.inputs.values()])
    most = bound.relative * np.maximum(magnitude, np.abs(exact)) + bound.absolute
    most = (most + bound.per_input * min(np.abs(inputs).max(), LARGEST)) * shrunk
    # The bound is of results that fp16 holds.
    held = np.isfinite(exact) & (np.abs(wanted) + most < LARGEST) & np.isfinite(ours.ravel())
    error = np.abs(ours.ravel().astype(np.float64) - wanted)[held]
    return float((error - most[held]).max()) if error.size else None


@pytest.mark.parametrize("kind", KINDS)
def test_the_compilers_bound_holds(kind: str) -> None:
    names = [name for name in case_names(None, kind + "/") if is_half(name)]
    step = max(1, len(names) // EACH) | 1  # odd, so that no axis stays at one value
    found = {name: excess(name) for name in names[::step]}
    assert {name: by for name, by in found.items() if by is not None and by > 0} == {}


def test_most_kinds_are_held_to_it() -> None:
    """The others only move values."""
    first = {kind: next(filter(is_half, case_names(None, kind + "/"))) for kind in KINDS}
    held = [kind for kind, name in first.items() if excess(name) is not None]
    assert len(held) > 12


def test_a_bound_that_is_too_narrow_is_noticed() -> None:
    names = list(case_names(None, "Half.Conv/"))[::17]
    by = [excess(name, shrunk=0.001) for name in names]
    assert any(one is not None and one > 0 for one in by)
