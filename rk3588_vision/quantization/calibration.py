"""The ranges of a float model's tensors that give the best int8 model, over pictures.

In: a prepared float model and pictures. Out: ranges that hold all pictures, or all but the most
extreme ones. One odd picture can stretch all ranges and so coarsen every other picture's steps;
for other models each extreme counts. Both kinds are made and measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rk3588_vision.quantization.float_model import FloatModel
from rk3588_vision.quantization.layer_errors import compare_layers, spread
from rk3588_vision.quantization.picture_input import PictureInput
from rk3588_vision.quantization.quantizer_package import quantize
from rk3588_vision.quantization.ranges import Range, measure_extremes, ranges_of

_MOST_PICTURES = 64
SHARES = (1.0, 0.97, 0.9, 0.75)
"""The shares of pictures whose extremes a range holds at either end; the first of equals wins."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The ranges, and the share of the pictures whose extremes they hold."""

    ranges: dict[int, Range]
    share: float


def steps(pictures: int) -> int:
    """Return how often ``calibrate`` calls ``done``."""
    return pictures + len(SHARES)


def calibrate(
    model: FloatModel,
    pictures: Sequence[Path],
    prepared: PictureInput,
    *,
    done: Callable[[], None] = lambda: None,
) -> Calibration:
    """Measure the model's ranges. Raises ModelError, UsageError, DelegateError."""
    samples = [partial(prepared.sample, picture) for picture in pictures]
    extremes = measure_extremes(model, samples, done=done)
    found: list[tuple[float, Calibration]] = []
    for share in SHARES:
        ranges = ranges_of(model.graph, extremes, prepared.pixel_range(), share)
        seen = spread(pictures, _MOST_PICTURES)
        level = compare_layers(model, quantize(model, ranges), seen, prepared, with_layers=False)
        found.append((level.mean_db, Calibration(ranges, share)))
        done()
    return max(found, key=lambda pair: pair[0])[1]
