"""Some cases of every family of the suite; ``make conformance`` runs all."""

import pytest

from delegate.options import Options
from rk3588_conformance.execution import run_case
from rk3588_conformance.families import all_families
from rk3588_conformance.outcome import Status
from rk3588_conformance.skips import judge, known_skips, read_skips

FAMILIES = [family for family in all_families(None) if "Models" not in family.prefix]
EACH = {"rk3588": 2, "rk3576": 3}
"""Cases of a family; of RK3588 ``make conformance-sample`` runs a thousand more."""
LARGE = ("input_size_80", "input_size_112", "25088", "62720", "ConvManyInputs", "DenseManyInputs")
"""Parts of names of cases that take seconds."""
MODES = (("rk3588", "exact"), ("rk3588", "auto"), ("rk3576", "auto"))


@pytest.mark.parametrize(("chip", "numerics"), MODES)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.prefix.rstrip("/"))
def test_cases_of_every_family_pass(family, chip, numerics):
    names = [family.prefix + parameter for parameter in family.parameters()]
    names = [name for name in names if not any(part in name for part in LARGE)]
    step = max(1, len(names) // EACH[chip]) | 1  # odd, so that no axis stays at one value
    options = Options.from_mapping(
        {"device": "simulator", "log_level": "error", "deny_ops": "", "chip": chip,
         "numerics": numerics}
    )  # fmt: skip
    found = [
        judge(run_case(name, None, options), read_skips(), known_skips(chip, numerics))
        for name in names[::step]
    ]
    assert [one for one in found if one.status is Status.FAILED] == []


@pytest.mark.parametrize("name", ["AddQuant.Op/44", "AddQuant.Signed/75", "AddQuant.Signed/98"])
def test_additions_of_few_distinct_values_pass(name):
    """All results are alike, and all are a step off where one is."""
    options = Options.from_mapping({"device": "simulator", "deny_ops": "", "numerics": "auto"})
    assert run_case(name, None, options).status is Status.OK
