"""Graphs of several operators in one partition: folded PAD, residual blocks, chains, ends inside.

Every element must still be within one step. Where the errors of operators can add up, the numbers
are such that a step of an inner tensor weighs no more than a step of the output.
"""

from collections.abc import Callable
from dataclasses import replace

from delegate.model.graph import Padding
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.grid import TYPES, Outputs, Values, layer_grid, pair
from rk3588_conformance.random_layers import Numbers
from rk3588_conformance.tolerance import SUM


def _leaves_input(v: Values) -> bool:
    """Return whether no window lies wholly in the padding."""
    kh, kw = pair(v.kernel)
    top, bottom, left, right = map(int, v.amounts)
    return max(top, bottom) < kh and max(left, right) < kw


@layer_grid(
    "Padding.Op/",
    is_in=_leaves_input,
    shape="1x13x10x20",
    amounts=("1111", "0101", "1010", "2222", "2143", "0030"),
    operator=("conv", "depthwise"),
    kernel=("3x3", "3x5", "5x4"),
    stride=("1x1", "2x2", "1x2"),
    type=TYPES,
)
def _padding(net: Net, v: Values) -> int:
    """PAD before a VALID convolution, as converters write it for strides."""
    top, bottom, left, right = map(int, v.amounts)
    padded = net.pad(net.x, [[0, 0], [top, bottom], [left, right], [0, 0]], version=1)
    window = replace(v.kernel_window, padding=Padding.VALID)
    if v.operator == "conv":
        return net.conv(padded, 23, window, v.layer_numbers)
    return net.depthwise(padded, window, v.layer_numbers)


_WINDOW = Window(3, 3)


def _residual(net: Net, x: int, numbers: Numbers) -> Outputs:
    """The smallest residual block: x + conv(x)."""
    return net.add(net.conv(x, net.spec(x).shape[3], _WINDOW, numbers), x)


def _shared(net: Net, x: int, numbers: Numbers) -> Outputs:
    """One convolution of the input is an operand of ADD and an output of its own."""
    first = net.conv(x, 24, Window(), numbers, name="first")
    second = net.conv(x, 24, _WINDOW, numbers, name="second")
    return (first, net.add(first, second))


def _siblings(net: Net, x: int, numbers: Numbers) -> Outputs:
    """Three layers of one input, three outputs."""
    return (
        net.conv(x, 5, Window(3, 3, 2, 2), numbers, name="strided"),
        net.depthwise(x, Window(5, 3), numbers),
        net.conv(x, 130, Window(), numbers, name="wide"),
    )


def _same_twice(net: Net, x: int, numbers: Numbers) -> Outputs:
    """conv(x) + conv(x), the same tensor twice."""
    y = net.conv(x, 24, _WINDOW, numbers)
    return net.add(y, y)


def _sum_of_sums(net: Net, x: int, numbers: Numbers) -> Outputs:
    """(a + x) with its own output, and x twice."""
    twice = net.add(x, x, name="twice")
    y = net.conv(x, 24, Window(), numbers)
    return (twice, net.add(y, x, name="sum"))


_BODIES: dict[str, Callable[[Net, int, Numbers], Outputs]] = {
    "residual": _residual,
    "shared": _shared,
    "siblings": _siblings,
    "same_twice": _same_twice,
    "sum_of_sums": _sum_of_sums,
}


@layer_grid(
    "Graphs.Op/",
    differing=SUM,
    channels=24,
    body=tuple(_BODIES),
    size=("1x1", "7x12", "31x19"),
    type=TYPES,
)
def _graphs(net: Net, v: Values) -> Outputs:
    return _BODIES[v.body](net, net.x, v.layer_numbers)
