"""Layer normalisation in fp16: one over the deviation of each pixel's channels, whose nodes are one
operation, and what it is multiplied with. Rows have magnitudes of their own, from subnormal numbers
to the end of fp16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Graph
from delegate.ops.add import AddOptions
from delegate.ops.mul import MulOptions
from delegate.ops.shared.reductions import ReducerOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.case import Case, generator_of
from rk3588_conformance.grid import Values, grid
from rk3588_conformance.half_judge import in_half

Array = npt.NDArray[Any]

_ROUNDINGS = 10
"""The roundings to fp16 on the way, in halves of what they move the root by, and three of a table:
less than so many whole ones."""
_FP16, _SUBNORMAL = 2.0**-11, 2.0**-25
_EPSILONS = {"3em10": 2.0**-31, "1em6": 1e-6, "1em3": 1e-3, "1": 1.0}
_FORMS = ("distance", "square", "product")


def _judge(graph: Graph, inputs: Mapping[int, Array], outputs: Sequence[Array]) -> list[str]:
    """Return what is outside the bound: of one over the root of mean squares and a constant."""
    epsilon = next(
        t.constant for t in graph.tensors if t.name == "epsilon" and t.constant is not None
    )
    first, *others = (in_half(values) for values in inputs.values())
    distances = first - others[0] if others else first
    exact = 1 / np.sqrt((distances**2).mean(-1, keepdims=True) + np.float64(epsilon))
    ours = outputs[0].astype(np.float64)
    wrong = ~(np.abs(ours - exact) <= _ROUNDINGS * _FP16 * exact + _SUBNORMAL)
    # Distances that fp16 does not hold make no number of it.
    beyond = (np.abs(distances) >= 65520).any(-1, keepdims=True)
    wrong = np.where(beyond, ~np.isnan(ours), wrong)
    if not wrong.any():
        return []
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return [f"element {list(place)}: {ours[place]} instead of {exact[place]}"]


def _rows(rng: np.random.Generator, shape: Sequence[int], most: float) -> Array:
    """Draw rows of all magnitudes; in a third of them one channel is far from the others, in a
    sixth all are equal.
    """
    sizes = np.exp2(rng.uniform(-24, most, (*shape[:-1], 1)))
    kind = rng.integers(0, 6, sizes.shape)
    values = rng.normal(size=shape) * np.where(kind < 2, 2.0**-10, 1.0)
    values[..., rng.integers(shape[-1])] = 1.0
    return np.asarray(np.where(kind == 5, 1.0, values) * sizes, np.float32)


@grid(
    "Half.Deviation/",
    form=_FORMS,
    shape=("1x7x5x3", "2x3x11x33", "1x9x4x130", "1x1x6x768", "1x4x1x1"),
    epsilon=tuple(_EPSILONS),
    magnitude=("small", "large", "beyond"),
    is_in=lambda v: v.magnitude != "beyond" or v.form == "distance",
)
def _deviations(name: str, v: Values) -> Case:
    size = v.input_shape
    rows = (*size[:-1], 1)

    def build(rng: np.random.Generator) -> bytes:
        net = Net("norm", rng)
        x = net.input("x", size, DType.FLOAT32)

        def put(op: str, operands: Sequence[int], shape: Sequence[int], options: Any = None) -> int:
            return net.result(op, operands, op, shape, dtype=DType.FLOAT32, options=options)

        if v.form == "distance":
            squares = put("SQUARED_DIFFERENCE", (x, net.input("m", rows, DType.FLOAT32)), size)
        elif v.form == "square":
            squares = put("SQUARE", (x,), size)
        else:
            squares = put("MUL", (x, x), size, MulOptions())
        axis = net.constant("axis", np.array([-1], np.int32))
        mean = put("MEAN", (squares, axis), rows, ReducerOptions(True))
        small = net.constant("epsilon", np.array(_EPSILONS[v.epsilon], np.float32))
        return net.build(put("RSQRT", (put("ADD", (mean, small), rows, AddOptions()),), rows))

    def given() -> Sequence[Array]:
        rng = generator_of(name + " inputs")
        x = _rows(rng, size, {"small": 2, "large": 14, "beyond": 15.99}[v.magnitude])
        if v.form != "distance":
            return [x]
        m = x.mean(-1, keepdims=True, dtype=np.float32)
        return [x, -x[..., :1] if v.magnitude == "beyond" else m]

    return Case(name, "Half", build, inputs=given, outside=_judge)
