"""The mutation run (tools/mutate_simulator.py) fits the source it mutates."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "mutate_simulator.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate_simulator", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SCRIPT_MODULE = load()


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
