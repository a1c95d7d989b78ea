"""The small edition of ``campaign``: random and solved extreme channels against TensorFlow Lite."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.numerics.campaign import GENERATORS, verdicts
from tests.lower.numerics.judge import Case, Verdict, judge
from tests.shared_folder import SHARED

# Seeds among which both generators find proofs that stop at coarse channels.
FIRST, MODELS = 77_300, 300


@pytest.mark.parametrize("generator", GENERATORS)
def test_extreme_channels_are_within_one_lsb_or_refused_by_a_rule(generator):
    found = verdicts(generator, FIRST, MODELS)
    assert [v for v in found if isinstance(v, str)] == []
    judged = [v for v in found if isinstance(v, Verdict)]
    delegated = [v for v in judged if v.rule is None]
    assert max(v.worst for v in delegated) <= 1
    assert len(delegated) > MODELS / 3
    rules = {v.rule for v in judged} - {None}
    assert rules <= {"within_one_lsb", "accumulator_fits_int32"}


def test_the_coarse_channel_that_was_off_by_255():
    folder = SHARED / "regressions"
    if not folder.is_dir():
        pytest.skip("../shared/regressions is not there")
    case = Case((folder / "coarse.tflite").read_bytes(), (np.load(folder / "coarse.npy"),))
    assert judge(case).worst <= 1
