"""How many elements may differ from TensorFlow Lite's, beside none by more than one step.

One step of tolerance alone would let a wrong zero point pass, and nearly every wrong multiplier. So
each case has a share of elements that may differ, from the widths of the register operands:

- NONE: what is exact, as all that moves or compares data, and tables.
- PER_TENSOR: BS and BN multiply by about 30 bits together; what differs is what BS's own rounding
  decides. Measured: 1e-6.
- PER_CHANNEL: 15 bits of multiplier are off by up to 2^-16 of the result, which moves a result of
  some 60 steps across a tie in 4e-4 of all cases. Measured: 3.5e-4.
- SUM_ALONE: both operands have scales of 15 bits and a common one; sums rarely are near a tie.
  Measured: 3e-5.
- SUM: graphs of several layers, whose last ones repeat what differs in those before them.
- LOWER_CLAMP: RELU_N1_TO_1 turns the ties of negative values around; with a large multiplier those
  are one element in 2^7.
- TIES: scales that are simple fractions of each other make exact ties, which go either way.
- EXTREME: channels that give up bits of their multipliers to share one unit with others whose
  scales are many thousand times larger.

A multiplier that is off by one moves 2e-3 of the elements of a layer, a shift or a zero point
nearly all.
"""

from __future__ import annotations

import math

NONE = 0.0
PER_TENSOR = 1e-4
PER_CHANNEL = 6e-4
SUM_ALONE = 3e-4
SUM = 5e-3
LOWER_CLAMP = 8e-3
TIES = 5e-2
EXTREME = 2e-1

# Standard deviations of a binomial count, and elements that any case may have: among 20,000 cases
# none fails by chance, and a case of 8,000 elements still sees a multiplier that is off by one.
_DEVIATIONS = 5.0
_FREE = 3


def most_differing(share: float, elements: int) -> int:
    """How many of ``elements`` may differ if ``share`` is the expected share."""
    if share == NONE:
        return 0
    mean = share * elements
    return math.floor(mean + _DEVIATIONS * math.sqrt(mean)) + _FREE
