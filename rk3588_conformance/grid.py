"""Families of cases as tables: axes of values, and a function that makes a case of a choice.

Names spell out a product of values: "input_size_3_stride_2_...". They are enumerated as gtest's
Combine does when the name starts with the last parameter: the first axis runs fastest.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Padding, Quantization
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.builder.reals import DRAWS
from rk3588_conformance.case import Case
from rk3588_conformance.random_layers import Numbers
from rk3588_conformance.reference.exact_graph import outside
from rk3588_conformance.tolerance import LOWER_CLAMP, NONE, PER_CHANNEL

TYPES = ("uint8", "int8", "per_channel")
EIGHT_BITS = ("uint8", "int8")
HALF = "fp16_"
"""Reals that run in fp16; the word of ``DRAWS`` follows."""
HALF_TYPES = ("fp16_plain", "fp16_wide", "fp16_ends")
MOVED_TYPES = (*EIGHT_BITS, "fp16_plain", "fp16_any")
"""Types of values that only move."""
PADDINGS = {"same": Padding.SAME, "valid": Padding.VALID}

Value = int | str
Axes = Mapping[str, Sequence[int] | Sequence[str]]
Outputs = int | Sequence[int]
Body = Callable[[Net, "Values"], Outputs]
Arrays = Sequence[npt.NDArray[np.generic]]


def shape_of(text: str) -> tuple[int, ...]:
    """ "1x5x3" as (1, 5, 3)."""
    return tuple(int(part) for part in text.split("x"))


def pair(text: str) -> tuple[int, int]:
    """ "5x3" as (5, 3)."""
    first, second = shape_of(text)
    return first, second


def number(text: str) -> float:
    """ "0_25" as 0.25."""
    return float(text.replace("_", "."))


class Values(SimpleNamespace):
    """A case's values by axis; what its family has no axis for is as it stands here."""

    type: str = "int8"
    """One of TYPES, HALF_TYPES or MOVED_TYPES."""
    activation: str = "NONE"
    shape: str = ""
    images: int = 1
    batch: int = 1
    size: str = "1x1"
    channels: Any = 1
    groups: int = 1
    """Each of so many inputs and outputs."""
    inputs: int = 1
    outputs: int = 1
    input_channels: int = 0
    output_channels: int = 0
    multiplier: int = 1
    bias: str = "drawn"
    keep_num_dims: int = 0
    keep_dims: int = 0
    kernel: Any = "3x3"
    stride: Any = "1x1"
    dilation: str = "1x1"
    padding: str = "same"
    window: str = "3x2"
    """The window of a pool, unless it has a ``form``."""
    form: str = ""
    spread: str = "plain"
    """The magnitudes of values in fp16."""

    @property
    def is_half(self) -> bool:
        return self.type.startswith(HALF)

    @property
    def dtype(self) -> DType:
        if self.is_half:
            return DType.FLOAT32
        return DType.UINT8 if self.type == "uint8" else DType.INT8

    @property
    def is_per_channel(self) -> bool:
        return self.type == "per_channel"

    @property
    def layer_numbers(self) -> Numbers:
        """Return Teflon's numbers."""
        return Numbers(per_channel=self.is_per_channel)

    @property
    def clamp(self) -> Activation:
        return Activation[self.activation.upper()]

    @property
    def kernel_window(self) -> Window:
        sides = (*pair(self.kernel), *pair(self.stride), *pair(self.dilation))
        return Window(*sides, PADDINGS[self.padding])

    def quantization(self, net: Net) -> Quantization | None:
        """Draw the quantisation of a feature map; reals have none."""
        return None if self.is_half else net.drawn(self.dtype)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the ``shape``, or that of the images."""
        return shape_of(self.shape) if self.shape else self.map_shape(self.channels)

    def map_shape(self, channels: int) -> tuple[int, int, int, int]:
        return (self.images * self.batch, *pair(self.size), channels)

    @property
    def has_output(self) -> bool:
        """Return whether the window fits into the image."""
        return self.fits(*pair(self.size))

    def fits(self, h: int, w: int) -> bool:
        window = self.kernel_window
        reach = (window.kh - 1) * window.dh, (window.kw - 1) * window.dw
        return window.padding is Padding.SAME or (reach[0] < h and reach[1] < w)

    @property
    def levels(self) -> npt.NDArray[np.generic]:
        """Return all 256 values of the type, ascending."""
        low, high = LIMITS[self.dtype]
        return np.arange(low, high + 1).astype(self.dtype.element.dtype)


def always(_: Values) -> bool:
    """Leaves no combination out."""
    return True


@dataclass(frozen=True, slots=True)
class Grid:
    """``make`` builds the case of a name and values; ``is_in`` leaves combinations out. ``fixed``:
    values that all cases have. Names do not tell an axis that begins with "_".

    Values are integers (non-negative) or words of letters, digits and underscores.
    """

    prefix: str
    axes: Axes
    make: Callable[[str, Values], Case]
    is_in: Callable[[Values], bool]
    fixed: Mapping[str, Value]

    def _chosen(self) -> Iterator[Values]:
        for values in product(*reversed([*self.axes.values()])):
            chosen = Values(**self.fixed, **dict(zip(self.axes, reversed(values), strict=True)))
            if self.is_in(chosen):
                yield chosen

    def _word(self, axis: str, value: object) -> str:
        return str(value) if axis[0] == "_" else f"{axis}_{value}"

    def parameters(self) -> Iterator[str]:
        for values in self._chosen():
            yield "_".join(self._word(axis, getattr(values, axis)) for axis in self.axes)

    def case(self, parameter: str) -> Case:
        choices = [f"({'|'.join(map(str, values))})" for values in self.axes.values()]
        pattern = "_".join(map(self._word, self.axes, choices))
        match = re.fullmatch(pattern, parameter)
        if match is None:
            raise KeyError(parameter)
        given = zip(self.axes.items(), match.groups(), strict=True)
        own = {axis: next(v for v in values if str(v) == text) for (axis, values), text in given}
        values = Values(**self.fixed, **own)
        if not self.is_in(values):
            raise KeyError(parameter)
        return self.make(self.prefix + parameter, values)


def grid(
    prefix: str,
    *,
    is_in: Callable[[Values], bool] = always,
    **axes: Sequence[int] | Sequence[str] | Value,
) -> Callable[[Callable[[str, Values], Case]], Grid]:
    """Makes a ``Grid`` of the function below it, which builds its cases. An axis of a single value
    is the same for all cases and not in their names.
    """
    fixed = {axis: given for axis, given in axes.items() if isinstance(given, (int, str))}
    varied = {axis: given for axis, given in axes.items() if not isinstance(given, (int, str))}
    return lambda make: Grid(prefix, varied, make, is_in, fixed)


def grids_of(module: ModuleType) -> Iterator[Grid]:
    """Yield the families that a module defines, alone or in tuples, in order."""
    for found in vars(module).values():
        for one in found if isinstance(found, tuple) else (found,):
            if isinstance(one, Grid):
                yield one


_OF_CASE = ("description", "differing", "input_values")


def model_case(
    name: str,
    values: Values,
    body: Body,
    label: str,
    *,
    description: str = "",
    differing: float | Callable[[Values], float] | None = None,
    input_values: Callable[[Values], Arrays] | None = None,
    input_levels: int = 256,
) -> Case:
    """A case whose model ``body`` adds, and whose outputs it returns. ``description``: of the
    model, with values in braces; ``label`` unless given. ``differing``: None for that of a
    convolution. ``input_values``: a function of the values.
    """

    def build(rng: np.random.Generator) -> bytes:
        net = Net(description.format(**vars(values)).lower() or label, rng)
        net.has_infinities = values.type == "fp16_any"
        outputs = body(net, values)
        return net.build(*((outputs,) if isinstance(outputs, int) else outputs))

    share = differing(values) if callable(differing) else differing
    if share is None:
        turns_ties = values.clamp is Activation.RELU_N1_TO_1
        share = LOWER_CLAMP if turns_ties else PER_CHANNEL if values.is_per_channel else NONE
    given = None if input_values is None else partial(input_values, values)
    if values.is_half:
        reals = DRAWS[values.type.removeprefix(HALF)]
        return Case(name, "Half", build, reals=reals, outside=outside)
    return Case(name, label, build, differing=share, inputs=given, input_levels=input_levels)


def model_grid(prefix: str, *, label: str = "", **more: Any) -> Callable[[Body], Grid]:
    """Makes a ``Grid`` of the function below it, which is the ``body`` of ``model_case``. ``more``:
    other arguments of that, and axes. Both 8-bit types are the last axis unless told.
    """
    how = {name: more.pop(name) for name in _OF_CASE if name in more}
    more.setdefault("type", EIGHT_BITS)
    what = label or prefix.partition(".")[0]

    def family(body: Body) -> Grid:
        return grid(prefix, **more)(
            lambda name, values: model_case(name, values, body, what, **how)
        )

    return family


def layer_grid(
    prefix: str,
    *,
    input_shape: Callable[[Values], Sequence[int]] = lambda v: v.input_shape,
    input_quantization: Callable[[np.random.Generator, Values], Quantization] | None = None,
    **more: Any,
) -> Callable[[Body], Grid]:
    """Makes a ``Grid`` of the function below it, which adds the only layer of its models, of
    ``net.x``. ``input_...``: functions of the values; ``more``: of ``model_grid``.
    """

    def family(layer: Body) -> Grid:
        def body(net: Net, v: Values) -> Outputs:
            shape, given = input_shape(v), input_quantization
            kind = v.quantization(net) if given is None else given(net.rng, v)
            net.x = net.input("input", shape, v.dtype, kind)
            return layer(net, v)

        return model_grid(prefix, **more)(body)

    return family
