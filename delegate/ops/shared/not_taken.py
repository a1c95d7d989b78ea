"""Operators that the NPU does not take: why, in a sentence, and what to do in the export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Cause:
    """``sentence`` says what keeps nodes on the CPU, ``remedy`` what to change; "" if nothing."""

    sentence: str
    remedy: str = ""


SHAPES: Final = Cause(
    "The model computes shapes, or places in tensors, while it runs.",
    "Fix the batch at 1 before the conversion: keras.Input(shape, batch_size=1), or a signature "
    "without None; PyTorch without dynamic_shapes.",
)
DILATION: Final = Cause(
    "A dilated convolution is stored as SPACE_TO_BATCH_ND, convolution, BATCH_TO_SPACE_ND.",
    "Convert so that the convolution has the dilation itself (two dimensions, fixed input size).",
)
_POST_PROCESS: Final = Cause(
    "Non-maximum suppression (TFLite_Detection_PostProcess) is sorting, which the CPU does best."
)
_OF_SHAPES: Final = ("SHAPE", "GATHER_ND", "FLOOR_DIV", "FLOOR_MOD")
NOT_TAKEN: Final = {
    "CUSTOM:TFLite_Detection_PostProcess": _POST_PROCESS,
    "SPACE_TO_BATCH_ND": DILATION,
    "BATCH_TO_SPACE_ND": DILATION,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Cause(
        "The NPU has no recurrent layers.", "Use convolutions over time instead of LSTM or GRU."
    ),
    **dict.fromkeys(_OF_SHAPES, SHAPES),
}
"""The sentences about the operators that the NPU does not take."""
