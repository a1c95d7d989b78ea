"""Keep what was found for the same numbers: planning, splitting and lowering ask the same of a
node, and so do rounds of refusals.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from delegate.lower.numerics.tflite import Target

P = ParamSpec("P")
R = TypeVar("R")

_MOST_KNOWN = 1024


def remembered(
    function: Callable[Concatenate[Target, P], R],
) -> Callable[Concatenate[Target, P], R]:
    """Return ``function``, which is asked once for the same numbers."""
    known: dict[tuple[object, ...], R] = {}

    @functools.wraps(function)
    def found(target: Target, /, *args: P.args, **kwargs: P.kwargs) -> R:
        numbers = (*target.numbers, *args, *kwargs.values())
        key = tuple(one.tobytes() if isinstance(one, np.ndarray) else one for one in numbers)
        if key not in known:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[key] = function(target, *args, **kwargs)
        return known[key]

    return found
