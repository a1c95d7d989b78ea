"""Tasks of several cores: what shares an epoch is independent, and what is worth it."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model, sharing_of
from delegate.errors import ProgramError
from delegate.lower.memory.footprint import accesses
from delegate.lower.tiling.bands import RowSharing, Share, bands, is_worth_it
from delegate.npu.program import parse, serialize
from delegate.npu.schedule import schedule
from delegate.options import Options
from rk3588_conformance.builder import conv_model, depthwise_model
from tests.kernel.small_models import DIGITS

SIZES = (0, 0, 1 << 22, 1 << 20, 1 << 20)


@pytest.mark.parametrize(("rows", "cores"), [(1, 3), (2, 3), (7, 3), (112, 2), (113, 3)])
def test_bands_cover_all_rows_once(rows: int, cores: int) -> None:
    found = bands(rows, cores)
    assert len(found) == min(rows, cores)
    assert found[0][0] == 0
    assert found[-1][1] == rows
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(found))
    sizes = [end - begin for begin, end in found]
    assert max(sizes) - min(sizes) <= 1


def collide(one, other) -> bool:
    """Whether a byte that one task writes is touched by the other."""
    return any(
        first < other_end and other_first < end
        for a in accesses(one)
        for b in accesses(other)
        if a.start.buffer == b.start.buffer and (a.is_write or b.is_write)
        for first, end in a.spans()
        for other_first, other_end in b.spans()
    )


@pytest.mark.parametrize("cores", ["all", "0,1"])
def test_tasks_of_a_stage_on_other_cores_are_independent(cores: str) -> None:
    options = Options.from_mapping(
        {"numerics": "exact", "split_rows": "always", "cores": cores}, {}
    )
    compiled = compile_model(DIGITS, options).partitions[0]
    tasks = schedule(compiled.layers, SIZES)
    assert len({item.task.core for item in tasks}) == (3 if cores == "all" else 2)
    assert tasks[-1].epoch > 0
    for one, other in itertools.combinations(tasks, 2):
        if one.epoch != other.epoch or one.task.core == other.task.core:
            continue
        assert not collide(one.task, other.task), (one, other)


def test_order_of_conflicting_tasks_is_that_of_the_layers() -> None:
    options = Options.from_mapping({"numerics": "exact", "split_rows": "always"}, {})
    compiled = compile_model(DIGITS, options).partitions[0]
    tasks = schedule(compiled.layers, SIZES)
    for before, after in itertools.combinations(tasks, 2):
        if before.layer <= after.layer:
            continue
        # A later layer came first: only if it needs nothing of the other, nor the other of it.
        assert not collide(before.task, after.task), (before, after)


def test_without_the_option_programs_are_for_one_core() -> None:
    compiled = compile_model(DIGITS, Options.from_mapping({"numerics": "exact"}, {})).partitions[0]
    assert compiled.sharing == ""
    assert {(task.epoch, task.core, task.job) for task in parse(compiled.program).tasks} == {
        (0, 0, 0)
    }


def test_large_layers_are_shared_and_small_ones_are_not() -> None:
    rng = np.random.default_rng(3)
    options = Options.from_mapping(
        {"numerics": "exact", "split_rows": "auto", "device": "rknpu"}, {}
    )
    large = compile_model(conv_model(rng, 160, 160, 64, 64, 3, 3), options).partitions[0]
    assert "1 of 1 layers over 3 cores" in large.sharing
    assert max(task.core for task in parse(large.program).tasks) == 2
    small = compile_model(depthwise_model(rng, 13, 9, 70, 3, 3), options).partitions[0]
    assert small.sharing.startswith("one core")
    assert max(task.core for task in parse(small.program).tasks) == 0


def test_the_same_layer_on_rocket_stays_on_one_core() -> None:
    """Every core would need copies of all buffers."""
    rng = np.random.default_rng(3)
    options = Options.from_mapping(
        {"numerics": "exact", "split_rows": "auto", "device": "rocket"}, {}
    )
    large = compile_model(conv_model(rng, 160, 160, 64, 64, 3, 3), options).partitions[0]
    assert large.sharing.startswith("one core")


def test_one_core_cannot_share() -> None:
    assert (
        sharing_of(
            Options.from_mapping({"numerics": "exact", "split_rows": "auto", "cores": "1"}, {})
        )
        is None
    )
    two = sharing_of(
        Options.from_mapping(
            {"numerics": "exact", "split_rows": "auto", "cores": "0,2", "device": "null"}
        )
    )
    assert two == RowSharing(2, rates=RK3588.rates)


def test_a_single_band_is_never_worth_it() -> None:
    alone = Share(10**9, 10)
    assert not is_worth_it(RowSharing(3, always=True, rates=RK3588.rates), alone, [alone], 10)
    assert is_worth_it(RowSharing(3, rates=RK3588.rates), alone, [Share(10**8, 4)] * 3, 10)
    assert not is_worth_it(
        RowSharing(3, rates=RK3588.rates), Share(10**4, 4), [Share(10**3, 4)] * 3, 10
    )


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [("core", 3, "for core 3 of 3"), ("epoch", 7, "another epoch"), ("core", 2, "another core")],
)
def test_impossible_stages_and_cores_are_refused(field: str, value: int, words: str) -> None:
    compiled = compile_model(
        DIGITS, Options.from_mapping({"numerics": "exact", "split_rows": "always"}, {})
    )
    program = parse(compiled.partitions[0].program)
    jobs = [task.job for task in program.tasks]
    index = next(i for i in range(1, len(jobs)) if jobs[i] == jobs[i - 1])
    changed = dataclasses.replace(program.tasks[index], **{field: value})
    tasks = (*program.tasks[:index], changed, *program.tasks[index + 1 :])
    with pytest.raises(ProgramError, match=words):
        serialize(dataclasses.replace(program, tasks=tasks))
