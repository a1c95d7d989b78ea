"""BATCH_MATMUL of int8. With a constant second operand: ranks, sizes, both orders of the matrix,
zero points and multipliers. Of two computed matrices: sizes, leading dimensions that are equal or
broadcast, orders of both, zero points at both ends.
"""

from __future__ import annotations

import numpy as np

from delegate.model.graph import DType, Quantization
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import transpose
from rk3588_conformance.builder.products import computed_product, covering, matrix_product
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import Value, grid
from rk3588_conformance.move_grid import computed
from rk3588_conformance.own_grid import layer_grid, model, shape_of
from rk3588_conformance.random_layers import draw_quantization, draw_zero_point


@layer_grid(
    "MatrixProduct.Op/",
    input_shape=lambda rows, inputs, **_: (*shape_of(rows), inputs),
    type="int8",
    rows=("1", "19", "5x1", "3x7", "2x3x5"),
    inputs=(1, 33, 257),
    outputs=(1, 17, 130),
    order=("inputs_first", "outputs_first"),
    zero=("none", "drawn"),
    percent=(25, 100, 400),
)
def _products(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, rows: str, inputs: int,
    outputs: int, order: str, zero: str, percent: int, **_: Value,
) -> int:  # fmt: skip
    ones = (1,) * int(rng.integers(0, len(shape_of(rows))))
    matrix = rng.integers(-127, 128, (*ones, inputs, outputs)).astype(np.int8)
    point = 0 if zero == "none" else draw_zero_point(rng, DType.INT8)
    return matrix_product(
        builder, x, matrix, draw_quantization(rng, DType.INT8),
        zero_point=point, multiplier=percent / 100, adj_y=order == "outputs_first",
    )  # fmt: skip


SIZES = {
    "one": (1, 1, 1), "small": (3, 16, 2), "odd": (5, 33, 17), "groups": (7, 64, 64),
    "ends": (9, 49, 31), "more": (2, 97, 34), "strided": (6, 170, 40), "wide": (33, 15, 129),
}  # fmt: skip
"""Rows, inputs, outputs."""
LEADS = {
    "none": ((), ()), "rows": ((3,), (3,)), "heads": ((2, 3), (2, 3)), "one": ((2,), (1,)),
    "shared": ((2, 3), ()), "first": ((1,), (2,)),
}  # fmt: skip
POINTS = {"none": (0, 0), "low": (-128, 5), "high": (127, -128), "second": (0, 127)}


def computed_shapes(size: str, lead: str, adj: str) -> list[tuple[int, ...]]:
    """Return the shapes of both operands; ``adj`` names those that are turned, x and y."""
    rows, inputs, outputs = SIZES[size]
    first = (inputs, rows) if "x" in adj else (rows, inputs)
    second = (outputs, inputs) if "y" in adj else (inputs, outputs)
    return [(*LEADS[lead][0], *first), (*LEADS[lead][1], *second)]


def meets(*, lead: str, adj: str, **_: Value) -> bool:
    """Return whether runtimes agree: not where a first operand is turned and leading dimensions
    differ.
    """
    return "x" not in adj or len(set(LEADS[lead])) == 1


@grid(
    "ComputedProduct.Op/",
    size=tuple(SIZES),
    lead=tuple(LEADS),
    adj=("none", "x", "y", "xy"),
    zero=tuple(POINTS),
    is_in=meets,
)
def _computed(name: str, *, size: str, lead: str, adj: str, zero: str) -> Case:
    def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
        drawn = [draw_quantization(rng, DType.INT8) for _ in range(2)]
        first, second = (
            Quantization(q.scales, (point,)) for q, point in zip(drawn, POINTS[zero], strict=True)
        )
        x, y = (
            builder.input(label, shape, DType.INT8, q)
            for label, shape, q in zip(
                "xy", computed_shapes(size, lead, adj), (first, second), strict=True
            )
        )
        output = covering(SIZES[size][1], first, second)
        return computed_product(builder, x, y, output, adj_x="x" in adj, adj_y="y" in adj)

    return Case(name, "ComputedProduct", model("computed product", body))


_ORDERS = {"swapped": ((0, 1, 3, 2), (0, 1, 3, 2)), "heads": ((0, 2, 3, 1), (0, 3, 1, 2))}
"""Axes before a product, which brings heads in front of rows and columns, and behind it."""
_HEADS = (2, 3)


@grid(
    "TurnedProduct.Op/",
    size=("odd", "groups", "ends"),
    turned=("x", "y", "xy", "result", "xresult", "yresult", "xyresult"),
    order=tuple(_ORDERS),
    adj=("none", "x", "y", "xy"),
)
def _turned(name: str, *, size: str, turned: str, order: str, adj: str) -> Case:
    """A product of heads, as attention has it, beside transposes that exchange rows and columns."""
    axes, behind = _ORDERS[order]

    def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
        numbers = {
            label: Quantization(draw_quantization(rng, DType.INT8).scales, (point,))
            for label, point in zip("xy", POINTS["low"], strict=True)
        }
        rows, inputs, outputs = SIZES[size]
        sides = {"x": (rows, inputs), "y": (inputs, outputs)}
        operands: dict[str, int] = {}
        for label in "xy":
            wanted = (*_HEADS, *(sides[label][::-1] if label in adj else sides[label]))
            shape = list(wanted)
            if label in turned:
                for axis, size_of in zip(axes, wanted, strict=True):
                    shape[axis] = size_of
            given = builder.input(label, tuple(shape), DType.INT8, numbers[label])
            made = computed(builder, rng, given)
            operands[label] = transpose(builder, made, axes) if label in turned else made
        output = covering(inputs, numbers["x"], numbers["y"])
        x, y = operands["x"], operands["y"]
        made = computed_product(builder, x, y, output, adj_x="x" in adj, adj_y="y" in adj)
        if "result" in turned:
            made = transpose(builder, made, behind)
        return computed(builder, rng, made)

    return Case(name, "TurnedProduct", model("turned product", body))


FAMILIES: tuple[Family, ...] = (_products, _computed, _turned)
