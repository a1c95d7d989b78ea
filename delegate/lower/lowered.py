"""The result of lowering a partition: its layers, its buffers, and the tensors at its edges, which
the host converts.

The form of a bound of results in fp16; ``delegate.lower.half.stages`` derives them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import Element
from delegate.lower.numerics.pipeline import Difference
from delegate.lower.task import BufferId, Ref, Task


@dataclass(frozen=True, slots=True)
class Layer:
    """One NPU operation and the TFLite nodes it computes. ``name`` is what errors and traces show,
    ``choice`` why it is tiled as it is. ``told`` gives ``difference``, which only reports ask
    for; None: as the numeric contract says. ``bound``: how far its results are from
    exact ones; None: they are integers.
    """

    name: str
    op: str
    nodes: tuple[int, ...]
    tasks: tuple[Task, ...]
    choice: str = ""
    told: Callable[[], Difference] | None = None
    bound: HalfBound | None = None

    @property
    def difference(self) -> Difference | None:
        """Return how far the results of several nodes in one task are from TensorFlow Lite's."""
        return None if self.told is None else self.told()

    def within(self, bound: HalfBound | None) -> Layer:
        """Return the layer with the bound of its results, also in words; None: as it is."""
        if bound is None:
            return self
        note = f"fp16, {bound.text}" + (", " if self.choice else "")
        return replace(self, choice=note + self.choice, bound=bound)


@dataclass(frozen=True, slots=True)
class Fold:
    """The host's step from windows of pixels to channels while it converts an input.

    Lane ``(dy * window_w + dx) * channels + c`` of device pixel (y, x) is the host's pixel
    ``(y * step_h + dy - top, x * step_w + dx - left)``, channel c; ``fill`` outside the image.
    ``height``, ``width`` and ``channels`` are those of one host image.
    """

    height: int
    width: int
    channels: int
    window_h: int
    window_w: int
    step_h: int
    step_w: int
    top: int
    left: int

    @property
    def lanes(self) -> int:
        return self.window_h * self.window_w * self.channels


@dataclass(frozen=True, slots=True)
class Affine:
    """float32 on the host for the device's integers: ``scale * (q - zero_point)``, q of type
    ``element``. The host converts as TensorFlow Lite's kernels of QUANTIZE and DEQUANTIZE do.
    """

    scale: float
    zero_point: int
    element: Element


@dataclass(frozen=True, slots=True)
class Spread:
    """The places of a box's elements in the host's tensor: (image n, row y, column x, channel c) is
    its tensor's number ``first + n * image + y * row + x * pixel + c * channel``.
    """

    first: int
    image: int
    row: int
    pixel: int
    channel: int


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """A tensor of the model that the host converts at the partition's edge.

    ``shape`` is the TFLite shape (any rank); the device sees it as ``images`` images of height x
    width x channels. ``surfaces`` are allocated and, for inputs, filled: lanes from ``channels`` on
    with ``fill`` (int8). ``element``: the host's type. Image n lies at
    ``offset + n * image_stride_bytes``. With a ``fold`` (inputs only) height, width and channels
    are the folded ones. ``affine``: the host has float32. ``table`` (inputs only): the device's
    byte for each of the host's 256; empty: the value is the same, but for fp32, which is fp16 on
    the device. ``spread``: images to channels are those of a box of the tensor; an output has one
    binding after the other for each of its boxes, which make it whole, and so has an input that is
    packed as weights. None: all of it, in the host's order.
    """

    tensor: int
    name: str
    shape: tuple[int, ...]
    element: Element
    images: int
    height: int
    width: int
    channels: int
    surfaces: int
    surface_stride_bytes: int
    image_stride_bytes: int
    location: Ref
    fill: int = 0
    fold: Fold | None = None
    affine: Affine | None = None
    table: bytes = b""
    spread: Spread | None = None

    @property
    def is_spread(self) -> bool:
        return self.spread is not None

    @property
    def laid_out(self) -> Element:
        """The type whose layout is converted: int8 where the values are converted first, and fp16
        where the host has fp32.
        """
        if self.affine is not None or self.table:
            return Element.INT8
        return Element.FP16 if self.element is Element.FP32 else self.element


@dataclass(frozen=True, slots=True)
class LoweredPartition:
    """All that ``npu`` needs to build a Program. ``layers`` and their tasks are in execution
    order. ``constants``: the content of that buffer; what it is shorter than ``sizes_bytes`` says
    is zero. ``live_bytes``: what its inner tensors need at the same time, the least SCRATCH can be.
    ``table_atoms``: a constant and the room that loads of tables copy it to; None: no task uses
    any.
    """

    chip: Chip
    name: str
    layers: tuple[Layer, ...]
    constants: bytes
    sizes_bytes: Mapping[BufferId, int]
    inputs: tuple[TensorBinding, ...]
    outputs: tuple[TensorBinding, ...]
    live_bytes: int = 0
    table_atoms: tuple[Ref, Ref] | None = None


_TOLD_FROM: Final = 1e-6
"""Smaller parts of a bound are those of subnormal numbers."""


@dataclass(frozen=True, slots=True)
class HalfBound:
    """|result - exact| <= ``relative`` * (sum of the magnitudes of all terms, bias included) +
    ``per_input`` * (largest magnitude of an input) + ``absolute``.
    """

    relative: float
    per_input: float = 0.0
    absolute: float = 0.0

    @property
    def text(self) -> str:
        """Return the bound as one line."""
        if self == HalfBound(0.0):
            return "exact"
        parts = [f"{self.relative:.2g} of the terms' magnitudes"]
        if self.per_input:
            parts.append(f"{self.per_input:.2g} of the largest input")
        if self.absolute > _TOLD_FROM:
            parts.append(f"{self.absolute:.2g}")
        return "within " + " and ".join(parts)


EXACT: Final = HalfBound(0.0)
"""The bound of operators that select among values."""


def widest(bounds: Collection[HalfBound]) -> HalfBound:
    """Return a bound that holds where any of ``bounds``, of which there are some, does."""
    return HalfBound(
        max(bound.relative for bound in bounds),
        max(bound.per_input for bound in bounds),
        max(bound.absolute for bound in bounds),
    )
