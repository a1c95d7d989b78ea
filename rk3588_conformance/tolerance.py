"""Limits how many elements may differ from TensorFlow Lite's; none may by more than one step.

One step of tolerance alone would let a wrong zero point pass, and nearly every wrong multiplier. So
each case has a share of elements that may differ: what is proven equal for every input has none,
the others as many as were measured over all cases of their kind, rounded up.

- NONE: layers with one scale of weights (pipelines that are proven equal to both roundings), and
  operators that only move or select.
- LARGE_SUMS: Teflon's convolutions have up to 6,400 terms; where accumulators reach 2^26, two
  factors of 15 bits leave some ends of outputs one accumulator off. Measured: 7e-6, at most.
- PER_CHANNEL: an output that begins one accumulator late, of a few channels in a million: 8 in
  yolov8n's 5,728 channels. Measured in the suite: none of 1e8.
- SUM_ALONE: both operands have scales of 15 bits and a common one; sums rarely are near a tie.
  Measured: 1.4e-5.
- SUM: graphs of several layers, whose last ones repeat what differs in those before them.
- REPEATED_SUM: sums of Teflon's large images, where a pair of operands that differs comes again and
  again. Measured: 7e-6 of all elements, 6.2e-4 of them in the worst of 5,220 cases.
- LARGE_AVERAGES: averages of images larger than a window begin an output one accumulator late, or
  early, where no setting is equal. Measured: 3.6e-5 of all, two of 1,152 cases.
- LOWER_CLAMP: RELU_N1_TO_1 turns the ties of negative values around; with a large multiplier those
  are one element in 2^7. Measured: 6e-4, most in a few cases.
- TIES: sums whose scales are simple fractions of each other make exact ties, which go either way.
  Measured: 1.4e-2 of those with scales of 1/9, 3.4e-2 in the worst case.
- SQUARES: squared differences of operands with two scales: a distance of 8 bits stands for several
  pairs. Measured: 0.10 of the pairs, 0.21 in the worst of 60 triples of scales.
- SHARES: shares of exponentials, whose factors have 8 bits. Measured: 0.04 of all, 0.30 of those of
  two classes, which are large.
- RESIZED: bilinear resizing by factors that are no powers of two: ties, which float32 leaves to
  chance, and positions in fixed point, which drift. Measured: 0.005 of all elements, 0.08 in
  the worst case.
- TWO_ROUNDINGS: bilinear resizing by two products, the first of which is rounded to 8 bits.
  Measured: 0.10 of all elements, 0.20 in the worst case of more than 100.
- ONE_ROUNDING: what ``numerics=auto``, and chips without BN's multiplier, differ in besides: one
  rounding stands for two, or 15 bits for 31. The fewer accumulators there are to a step, the more:
  half of those in which the two differ. Measured: 0.13 of the worst layer of a public model, 0.005
  of them all. What a task of several operators says of itself comes on top.

A multiplier that is off by one moves 2e-3 of the elements of a layer, a shift or a zero point
nearly all.
"""

import math

from delegate.model.graph import Graph, Node
from delegate.ops import OPERATORS
from delegate.ops.operator import record_of
from rk3588_conformance import reference
from rk3588_conformance.builder.ranges import LIMITS

NONE = 0.0
LARGE_SUMS = 1e-5
PER_CHANNEL = 1e-6
SUM_ALONE = 2e-5
SUM = 1e-4
REPEATED_SUM = 4.5e-4
LARGE_AVERAGES = 5e-5
LOWER_CLAMP = 2e-3
TIES = 2.5e-2
SQUARES = 0.25
SHARES = 0.3
RESIZED = 0.1
TWO_ROUNDINGS = 0.2
ONE_ROUNDING = 0.25

# The chance that a case fails although its share is as expected: none among 20,000 does.
_CHANCE = 1e-7


def share_of(chip: str, numerics: str) -> float:
    """Return the share that may differ of operators whose results are rounded once."""
    return 0.0 if numerics == "exact" and chip == "rk3588" else ONE_ROUNDING


def is_inexact(graph: Graph, node: Node) -> bool:
    """Return whether results of ``node`` may be a step off: not where it moves, selects or looks
    up what one value of 8 bits gives.
    """
    operator = OPERATORS.get(node.op)
    if operator is None or not operator.has_tasks or reference.selects(node):
        return False
    read = [graph.tensor(index) for index in operator.feature_inputs(node)]
    written = [graph.tensor(index) for index in node.outputs]
    changing = {tensor.index for tensor in read if tensor.constant is None}
    is_of_one_value = len(changing) == 1 and all(
        tensor.constant is None or tensor.constant.size == 1 for tensor in read
    )
    has_a_table = record_of(graph, node).function is not None and is_of_one_value
    return not (has_a_table and all(tensor.dtype in LIMITS for tensor in (*read, *written)))


def most_differing(share: float, elements: int) -> int:
    """Return how many of ``elements`` may differ if ``share`` is the expected share: the count that
    a Poisson distribution exceeds with _CHANCE.
    """
    mean = share * elements
    if mean == 0:
        return 0
    # From where nothing is left of the distribution down; 16 deviations are below 1e-50.
    count = math.ceil(mean + 16 * math.sqrt(mean) + 64)
    log_term = count * math.log(mean) - mean - math.lgamma(count + 1)
    above = math.exp(log_term)  # the chance of ``count`` and more
    while above <= _CHANCE:
        log_term += math.log(count / mean)
        count -= 1
        above += math.exp(log_term)
    return count
