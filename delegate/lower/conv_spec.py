"""A convolution as resolved integers, what dense, depthwise and fully connected nodes become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import Element
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.task import Pair, TaskKind
from delegate.model.graph import Activation


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """One convolution, resolved. ``weights``: int8 OHWI (dense) or HWC (depthwise), zero point not
    taken off. ``element`` FP16: float16 weights and a float32 bias, and all that speaks of
    quantisation has no meaning; the sums are multiplied by two ``factors``, which are fp16 too.

    ``ratios``: real sx * sw_c / sy, one per output channel; ``rounds_once``: the kernel takes them
    as they are, see ``Graph``. ``input_view``/``output_view`` say how the convolution looks at its
    tensors: the tensors' own views, or a fully connected reading of the same bytes. ``strides`` to
    ``spread`` are of rows and of columns: ``padding`` above and on the left, ``spread`` the
    rows and columns that an input pixel takes, of which the others hold its zero point (a
    transposed convolution). ``parts``: those of an image that lie side by side as channels in
    ``input_view`` and ``output_view``, see ``image_parts``; ``are_rows``: rows of pairs, not
    sections.
    """

    chip: Chip
    node: int
    weights: npt.NDArray[Any]
    weight_zero_point: int
    bias: npt.NDArray[Any]
    ratios: npt.NDArray[np.float64]
    per_channel: bool
    activation: Activation
    output_scale: float
    output_zero_point: int
    source: DeviceTensor
    target: DeviceTensor
    input_view: View
    output_view: View
    is_depthwise: bool
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    padding: Pair = (0, 0)
    rounds_once: bool = False
    spread: Pair = (1, 1)
    element: Element = Element.INT8
    factors: tuple[float, float] = (1.0, 1.0)
    parts: Pair = (1, 1)
    are_rows: bool = False

    @property
    def kind(self) -> TaskKind:
        """Return the kind of its tasks in evidence."""
        if self.spread == (1, 1):
            return TaskKind.DEPTHWISE if self.is_depthwise else TaskKind.DENSE
        return TaskKind.SPREAD if self.is_depthwise else TaskKind.SPREAD_DENSE

    @property
    def kernel(self) -> Pair:
        """Rows and columns of the kernel."""
        kh, kw = self.weights.shape[:2] if self.is_depthwise else self.weights.shape[1:3]
        return kh, kw
