"""Judge the outputs of whole models by the reference kernels, where inner tensors must not be seen:
coarsely, since every operator may be a step off, and a step grows in the next one.

What is computed of other elements than the model says is as far off as values are from one another.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from delegate.model.graph import DType
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.generated.judge import BrokenContractError
from rk3588_conformance.generated.run import Array, Run

MOST_STEPS = 8
"""Steps, of 255 between an output's ends, that operators behind one another come to."""
MOST_SHARE = 0.1
"""The share of elements that may be further off."""
_LEVELS = LIMITS[DType.UINT8][1]


def judge_whole(
    model: bytes, inferences: Sequence[Mapping[int, Array]], options: Mapping[str, str]
) -> dict[str, int]:
    """Run ``inferences`` and compare; counts of what was compared. Raises BrokenContractError."""
    ours = Run(model, is_delegated=True, options=options)
    for failure in ours.failures:
        raise BrokenContractError(f"the compiler failed: {failure}")
    theirs = Run(model, is_delegated=False)
    compared = 0
    for number, feeds in enumerate(inferences):
        results = ours.run(feeds)
        for tensor, wanted in theirs.run(feeds).items():
            share = _share_of_far(results[tensor], wanted)
            compared += 1
            if share > MOST_SHARE:
                raise BrokenContractError(
                    f"inference {number}: {share:.0%} of output {tensor} are not near"
                )
    counts = {"models": 1, "delegated_nodes": ours.delegated_nodes}
    return {**counts, "outputs_compared": compared}


def _share_of_far(ours: Array, theirs: Array) -> float:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return 1.0
    if not np.issubdtype(ours.dtype, np.number):
        return float((ours != theirs).mean()) if ours.size else 0.0
    first, second = (np.nan_to_num(values.astype(np.float64)) for values in (ours, theirs))
    step = 1.0
    if np.issubdtype(ours.dtype, np.floating):
        step = max(float(np.abs(second).max(initial=0.0)), 1e-30) * 2 / _LEVELS
    return float((np.abs(first - second) > MOST_STEPS * step).mean()) if ours.size else 0.0
