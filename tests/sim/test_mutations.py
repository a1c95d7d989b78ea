"""The mutation run (tools/mutate_simulator.py) fits the source it mutates."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "mutate_simulator.py"


SCRIPT_MODULE = SimpleNamespace(**runpy.run_path(str(SCRIPT)))


@pytest.mark.parametrize("mutation", SCRIPT_MODULE.MUTATIONS, ids=lambda m: m.name)
def test_mutation_fits(mutation):
    assert mutation.old != mutation.new
    SCRIPT_MODULE.source(mutation)


def test_required_mutations_are_there():
    names = {m.name for m in SCRIPT_MODULE.MUTATIONS}
    assert names >= {
        "rounding mode",
        "negative shift",
        "pad value",
        "halo row",
        "channel order",
        "COMB_USE addressing",
        "group persistence",
    }
