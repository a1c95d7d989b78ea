"""A sample of the mutated compiled models; ten thousand are a command (docs/hosts.md)."""

import pytest

import delegate
from tests.aot.models import single_operator_model, two_programs_model
from tests.hosts.conftest import compiled
from tests.hosts.mutation import MUTATIONS, judge, mutants, parse, repaired

SAMPLE = 150


@pytest.mark.parametrize("make", [single_operator_model, two_programs_model])
def test_mutants_are_rejected_or_right(make, host_program, tmp_path):
    model = compiled(make())
    files = list(mutants(model, 1, SAMPLE))
    verdict = judge(host_program, delegate.library_path(), model, files, tmp_path)
    assert not verdict.wrong
    assert verdict.rejected + verdict.right == SAMPLE
    assert verdict.rejected > SAMPLE // 2


@pytest.mark.parametrize("make", [single_operator_model, two_programs_model])
def test_damaged_programs_with_valid_checksums_do_no_harm(make, host_program, tmp_path):
    model = compiled(make())
    files = list(repaired(model, 2, SAMPLE))
    verdict = judge(host_program, delegate.library_path(), model, files, tmp_path)
    assert verdict.rejected > 0


def test_mutants_depend_on_the_seed_only():
    model = compiled(single_operator_model())
    assert list(mutants(model, 3, 5)) == list(mutants(model, 3, 5))
    assert list(mutants(model, 3, 5)) != list(mutants(model, 4, 5))


def test_every_mutation_changes_the_model():
    import random

    model = compiled(two_programs_model())
    for _, mutation in MUTATIONS:
        root, rng = parse(model), random.Random(1)
        mutation(rng, root)
        assert root != parse(model), mutation.__name__
