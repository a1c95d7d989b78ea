"""RESIZE_BILINEAR in fp16: the border is copied byte by byte, what is between pixels is a
transposed convolution. Imported for float models only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from delegate.chip.limits import surfaces_of
from delegate.lower.constants import ConstantPool
from delegate.lower.convolution import operand_channels, tile_tasks
from delegate.lower.half.bound import sum_bound
from delegate.lower.half.stages import half_conv_stages
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.operation import Memory
from delegate.lower.task import Layer, Task
from delegate.lower.weights import depthwise_channels
from delegate.model.graph import Activation, Padding
from delegate.ops.resize_bilinear import QUARTERS, BilinearPlan, Stencil
from delegate.ops.shared import half
from delegate.ops.shared.convolution import ConvolutionOptions

_TAPS = 16
"""At most, of which four meet pixels."""


class HalfBilinearPlan(BilinearPlan):
    """Image by image, depthwise: what is in a channel never meets another."""

    @property
    def footprint(self) -> Footprint:
        operation, chip = self.operation, self.planning.chip
        channels = self.planning.tensor(operation.result).view.channels
        read = surfaces_of(depthwise_channels(channels, chip.groups))
        return replace(
            super().footprint,
            reads=((operation.operands[0], read),),
            writes=chip.groups.surfaces_written(channels, is_depthwise=True),
        )

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        bound = sum_bound(_TAPS).text
        return replace(super().lower(memory), choice=f"fp16, {bound}")

    def interpolated(
        self,
        source: DeviceTensor,
        target: DeviceTensor,
        rows: Stencil,
        columns: Stencil,
        constants: ConstantPool,
    ) -> Iterable[Task]:
        """See ``BilinearPlan``: weights are sixteenths, which fp16 holds."""
        channels = target.elements.channels
        taps = np.outer(rows.weights, columns.weights) / (QUARTERS * QUARTERS)
        plain = ConvolutionOptions(Padding.VALID, 1, 1, 1, 1, Activation.NONE)
        conv = replace(
            half.half_convolution(
                self.planning,
                self.operation,
                plain,
                np.repeat(taps[:, :, np.newaxis], channels, axis=2),
                np.zeros(channels, np.float32),
                (rows.padding, columns.padding),
                target.elements,
                is_depthwise=True,
            ),
            source=source,
            target=target,
            input_view=source.elements,
            spread_h=rows.spread,
            spread_w=columns.spread,
        )
        stages = half_conv_stages(conv, operand_channels(conv), constants)
        return tile_tasks(conv, stages, constants)
