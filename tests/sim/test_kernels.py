"""Tests what the two kernel drivers do with a job."""

import numpy as np
import pytest

from delegate import _native
from delegate.errors import SimulatorFault
from tests.sim import stream as s
from tests.sim.programs import Conv, conv_registers, random_tensors, to_surfaces
from tests.sim.wide_programs import MAX, pool_registers


def conv_then_pool(last_is_pool: bool) -> tuple[s.Memory, list[tuple[int, int, str]]]:
    memory, program = s.Memory(), s.Program()
    t = Conv()
    conv = conv_registers(t, memory, random_tensors(np.random.default_rng(0), t))
    x = to_surfaces(np.ones((16, 6, 6), np.int8), 36)
    pool = pool_registers(memory, x, (16, 6, 6), (3, 3), method=MAX, kernel=(2, 2),
                          stride=(2, 2), tag="_pool")  # fmt: skip
    tasks = [(conv, s.CONV), (pool, s.POOL)]
    for registers, mask in tasks if last_is_pool else tasks[::-1]:
        program.add(registers, mask)
    return memory, program.place(memory)


@pytest.mark.parametrize("last_is_pool", [False, True])
def test_rocket_never_sees_a_pooling_task_end(last_is_pool):
    memory, tasks = conv_then_pool(last_is_pool)
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, tasks, kernel="rocket")
    assert (fault.value.kind, fault.value.task) == ("NeverCompletes", int(last_is_pool))
    memory, tasks = conv_then_pool(last_is_pool)
    s.run(memory, tasks, kernel="rknpu")


def links_cut(memory: s.Memory) -> None:
    """Clears the links of all tails, as compilers for one kick per task may."""
    words = memory.bytes("regcmd").view(np.uint64)
    words[(words >> np.uint64(48) == 0x0101) & (words & np.uint64(0xFFFF) == 0x10)] = 0


def test_rocket_kicks_every_task_and_rknpu_needs_links():
    memory, tasks = conv_then_pool(True)
    words = memory.bytes("regcmd").view(np.uint64)
    assert (words & np.uint64(0xFFFF) == 0x10).any()
    tasks = tasks[:1] * 2
    links_cut(memory)
    s.run(memory, tasks, kernel="rocket")
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, tasks, kernel="rknpu")
    assert fault.value.kind == "BrokenChain"


def test_the_limit_of_a_chain():
    """The program counter counts tasks in 12 bits."""
    memory = s.Memory()
    body = [s.word(0x4001, 0x6004, s.REARM), s.word(0x8001, 0x7004, s.REARM)]
    x = to_surfaces(np.ones((16, 1, 1), np.int8), 1)
    r = pool_registers(memory, x, (16, 1, 1), (1, 1), method=MAX, kernel=(1, 1))
    first = s.body(r, s.POOL)
    start = memory.next_address
    count = 4097
    sizes = [-(-(len(first) + 4) // 2) * 2] * 2 + [len(body) + 4] * (count - 2)
    image = np.zeros(sum(sizes), np.uint64)
    position = 0
    for i, size in enumerate(sizes):
        words = first if i < 2 else body
        next_words = len(first) if i < 1 else len(body)
        link = (start + 8 * (position + size), next_words) if i + 1 < count else (0, 0)
        segment = words + s.tail(s.POOL, *link)
        image[position : position + len(segment)] = segment
        position += size
    address = memory.add("regcmd", image)
    assert address == start
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, [(start, sizes[0], "")], kernel="rknpu")
    assert (fault.value.kind, fault.value.task) == ("BrokenChain", 4095)
    assert "4095" in str(fault.value)


def test_unknown_drivers_are_named():
    with pytest.raises(ValueError, match="rocket and rknpu"):
        _native.simulate([], [], kernel="windows")
