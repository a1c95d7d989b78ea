"""The small edition of ``campaign``: random and solved extreme channels against TensorFlow Lite."""

import numpy as np
import pytest

from tests.lower.numerics import drawn
from tests.lower.numerics.campaign import GENERATORS
from tests.lower.numerics.judge import Case, judge
from tests.shared_folder import SHARED

# Seeds among which both generators find proofs that stop at coarse channels.
FIRST, MODELS = 77_300, 150


@pytest.mark.parametrize("generator", GENERATORS)
def test_extreme_channels_are_within_one_lsb_or_refused_by_a_rule(generator):
    judged = [judge(GENERATORS[generator](seed)) for seed in range(FIRST, FIRST + MODELS)]
    delegated = [v for v in judged if v.rule is None]
    assert [v for v in delegated if not v.is_as_claimed] == []
    assert sum(v.claims_equality for v in delegated) > len(delegated) / 3
    assert len(delegated) > MODELS / 3
    rules = {v.rule for v in judged} - {None}
    assert rules <= {"within_one_lsb", "accumulator_fits_int32"}


@pytest.mark.parametrize(
    ("seed", "most"), [(500_377, 0), (500_529, 0), (500_871, 4), (501_096, 0)]
)  # of 8,448 elements
def test_fully_connected_multiplies_its_scales_in_float32(seed, most):
    """int8 layers whose multiplier is another one in double, at accumulators where it shows."""
    verdict = judge(drawn.draw(seed))
    assert verdict.rule is None
    assert verdict.is_as_claimed
    assert verdict.different <= most


def test_the_coarse_channel_that_was_off_by_255():
    folder = SHARED / "regressions"
    if not folder.is_dir():
        pytest.skip("the folder of regressions is not there")
    case = Case((folder / "coarse.tflite").read_bytes(), (np.load(folder / "coarse.npy"),))
    assert judge(case).worst <= 1
