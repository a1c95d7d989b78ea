"""Worse chips: each deviation breaks what it names, in tasks of its kind and in no others."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from delegate.errors import SimulatorFault
from tests.kernel.worse_chips import page_of
from tests.sim import stream as s
from tests.sim.worse_programs import KINDS, pure_program, worse_program
from tests.worse import DEVIATIONS

SEEDS = 64
Make = Callable[[str, int], tuple[s.Memory, list[tuple[int, int, str]]]]


@functools.cache
def program(make: Make, kind: str, seed: int) -> tuple[s.Memory, list[tuple[int, int, str]]]:
    return make(kind, seed)


def result(kind: str, seed: int, deviations: str = "", make: Make = worse_program) -> bytes | str:
    """Return what a program leaves in memory, or the fault's kind."""
    made, tasks = program(make, kind, seed)
    memory = made.copy()
    try:
        s.run(memory, tasks, deviations=deviations)
    except SimulatorFault as fault:
        return fault.kind
    return b"".join(content.tobytes() for _, _, content in memory.regions)


@functools.cache
def healthy(kind: str, seed: int) -> bytes | str:
    return result(kind, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_programs_run_on_a_healthy_chip(kind: str) -> None:
    assert not [seed for seed in range(SEEDS) if isinstance(healthy(kind, seed), str)]


def names_of(kind: str) -> list[str]:
    return [item.name for item in DEVIATIONS if item.kind == kind]


@pytest.mark.parametrize("kind", KINDS)
def test_each_breaks_something_of_its_kind(kind: str) -> None:
    unbroken = [name for name in names_of(kind) if not breaks(kind, name)]
    assert unbroken == []


def breaks(kind: str, name: str) -> bool:
    """Return whether a chip that deviates computes a program wrong, or hangs if so named."""
    for seed in range(SEEDS):
        found = result(kind, seed, name)
        if isinstance(found, str):
            # Registers of another task may be such that no chip computes anything.
            ends = found != "NeverCompletes"
            assert ":registers:" in name if ends else name.endswith("hangs"), (name, found)
            return True
        if found != healthy(kind, seed):
            assert not name.endswith("hangs"), name
            return True
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_none_breaks_tasks_of_other_kinds(kind: str) -> None:
    others = ",".join(item.name for item in DEVIATIONS if item.kind != kind)
    for seed in range(4):
        assert result(kind, seed, others, pure_program) == result(kind, seed, "", pure_program)


def test_names_are_unique_and_say_kind_and_stage() -> None:
    assert len({item.name for item in DEVIATIONS}) == len(DEVIATIONS)
    for item in DEVIATIONS:
        assert item.name == f"{item.kind}:{item.stage}:{item.way}"
        assert {item.kind for item in DEVIATIONS} == {*KINDS, "all", "pooling"}


def test_two_at_once_are_both_there() -> None:
    """In whatever order they are named, and however often."""
    first, second = "dense:bs:multiplier_ignored", "dense:out:offset_ignored"
    for seed in range(SEEDS):
        both = result("dense", seed, f"{first},{second}")
        assert both == result("dense", seed, f"{second},{first},{second}")
        single = {result("dense", seed, name) for name in ("", first, second)}
        if len(single) == 3 and both not in single:
            return
    pytest.fail("no program shows both")


@pytest.mark.parametrize(
    "name", ["ew_addition", "dense:bs", "dense:bs:at_all", "dense:task:zeros,"]
)
def test_others_are_refused_by_name(name: str) -> None:
    memory, tasks = pure_program("dense", 0)
    if name.endswith(","):
        assert result("dense", 0, name) != healthy("dense", 0)
        return
    with pytest.raises(ValueError, match=name.replace(":", ".")):
        s.run(memory, tasks, deviations=name)


def test_the_page_is_not_stale() -> None:
    page = Path(__file__).parents[2] / "docs/worse_chips.md"
    assert page.read_text(encoding="utf-8") == page_of(), "run what its third line says"
