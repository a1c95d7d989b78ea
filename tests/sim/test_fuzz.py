"""Mutated streams end in a fault or in the same result on both paths, never in anything else."""

import numpy as np
import pytest

from delegate.errors import SimulatorFault
from tests.loops import for_each
from tests.sim import stream as s
from tests.sim.seed_programs import seed_program, walk_program, wide_program

# Values at the borders of fields.
EDGES = (
    0,
    1,
    2,
    15,
    16,
    31,
    63,
    64,
    255,
    0x7FF,
    0x1FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFF0,
)


def mutate(rng: np.random.Generator, words: np.ndarray) -> None:
    """One change of one word: a bit, the value, or the whole word."""
    i, j = (int(k) for k in rng.integers(0, words.size, 2))
    value_bits = np.uint64(0xFFFFFFFF0000)
    kind = rng.integers(0, 5)
    if kind == 0:
        words[i] ^= np.uint64(1 << int(rng.integers(0, 64)))
    elif kind == 1:
        words[i] = (words[i] & ~value_bits) | np.uint64(int(rng.choice(EDGES)) << 16)
    elif kind == 2:
        near = (int(words[i] & value_bits) + (int(rng.integers(-3, 4)) << 16)) & int(value_bits)
        words[i] = (words[i] & ~value_bits) | np.uint64(near)
    elif kind == 3:
        words[i], words[j] = words[j], words[i]
    else:
        words[i] = words[j]


@pytest.mark.parametrize("program", [seed_program, walk_program, wide_program])
@for_each("seed", range(6))
def test_mutated_streams(seed, program):
    rng = np.random.default_rng(seed)
    original, tasks = program(rng)
    faults, runs = 0, 0
    for _ in range(100):
        memory = original.copy()
        for _ in range(int(rng.integers(1, 3))):
            mutate(rng, memory.bytes("regcmd").view(np.uint64))
        chained = bool(rng.random() < 0.5)
        plain = memory.copy()
        try:
            s.run(memory, tasks, chained=chained, threads=2)
        except SimulatorFault as fault:
            faults += 1
            assert "\n" not in str(fault)
            with pytest.raises(SimulatorFault) as again:
                s.run(plain, tasks, chained=chained, plain=True)
            assert str(again.value) == str(fault)
        else:
            runs += 1
            s.run(plain, tasks, chained=chained, plain=True)
        for (name, _, found), (_, _, wanted) in zip(memory.regions, plain.regions, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=name)
    assert faults > 15
    assert runs > 5
