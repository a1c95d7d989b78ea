"""Hostile folders and variables: refused, or the same result without them."""

import pytest

from tests.aot.models import two_programs_model
from tests.hosts.hostile_places import FOLDERS, TEXTS, places
from tests.hosts.sanitized_module import judged, load_and_run

MODEL = two_programs_model()


@pytest.fixture(scope="module")
def expected():
    text, outputs = load_and_run(MODEL, cache_dir="off")
    assert outputs, text
    return outputs


@pytest.mark.parametrize("number", range(2 * max(len(FOLDERS), len(TEXTS))))
def test_they_are_refused_or_done_without(number, expected, tmp_path):
    with places(tmp_path, number) as options:
        for _ in range(2):
            text = judged(expected, load_and_run(MODEL, **options))
            assert text == "ran" or text.startswith("refused"), text
