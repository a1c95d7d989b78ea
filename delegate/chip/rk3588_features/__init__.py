"""The features of RK3588 that programs use, with their evidence.

"Mesa" is its driver for this chip, which runs on boards; "vendor" are programs that the vendor's
compiler made, replayed on the simulator; "others" measured on boards and published; "manual" is the
chip's register description. What nobody has run is ranked by the best of the rest.
"""

from __future__ import annotations

from typing import Final

from delegate.chip.rk3588_features.convolution import CONVOLUTION
from delegate.chip.rk3588_features.element_wise import ELEMENT_WISE
from delegate.chip.rk3588_features.half import HALF
from delegate.chip.rk3588_features.output import OUTPUT
from delegate.chip.rk3588_features.scaling import SCALING
from delegate.chip.rk3588_features.tables import TABLES

FEATURES: Final = (*CONVOLUTION, *SCALING, *ELEMENT_WISE, *TABLES, *OUTPUT, *HALF)
