"""MINIMUM: the smaller raw value of two feature maps, or of one and a constant."""

from __future__ import annotations

import numpy as np

from delegate.lower.numerics.pipeline import EwOperation
from delegate.ops.shared.two_values import extremum

OPERATOR = extremum("MINIMUM", EwOperation.MIN, np.minimum)
