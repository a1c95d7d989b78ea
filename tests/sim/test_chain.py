"""The program controller: segments, tails, links, register groups, reuse of CBUF."""

import numpy as np
import pytest

from delegate.errors import SimulatorFault
from tests.loops import for_each
from tests.sim import oracle
from tests.sim import programs as p
from tests.sim import stream as s
from tests.sim.test_faults import conv_memory, fault_of


def three_tasks() -> tuple[s.Memory, list[s.Registers], list[np.ndarray]]:
    rng = np.random.default_rng(2)
    memory = s.Memory()
    registers, expected = [], []
    for i in range(3):
        t = p.Conv()
        data = p.random_tensors(rng, t)
        registers.append(p.conv_registers(t, memory, data, tag=str(i)))
        expected.append(oracle.conv(t, registers[i], data))
    return memory, registers, expected


def program_of(*tasks: s.Registers) -> s.Program:
    program = s.Program()
    for registers in tasks:
        program.add(registers)
    return program


def assert_outputs(memory: s.Memory, expected: list[np.ndarray]) -> None:
    for i, wanted in enumerate(expected):
        found = p.from_surfaces(memory.bytes(f"output{i}"), 32, 7, 5, 35)
        np.testing.assert_array_equal(found, wanted)


def test_a_chain_with_one_listed_task_runs_to_its_end():
    memory, registers, expected = three_tasks()
    program = program_of(*registers)
    s.run(memory, program.place(memory)[:1], chained=True)
    assert_outputs(memory, expected)


def test_kicked_tasks_do_not_follow_links():
    memory, registers, expected = three_tasks()
    program = program_of(*registers)
    s.run(memory, program.place(memory)[:1], chained=False)
    assert_outputs(memory, expected[:1])
    assert (memory.bytes("output1") == 0xA5).all()


def test_the_second_task_has_a_register_group_of_its_own():
    memory, registers, _ = three_tasks()
    program = program_of(registers[0], {s.DST_BASE_ADDR: registers[1][s.DST_BASE_ADDR]})
    fault = fault_of(lambda: s.run(memory, program.place(memory)))
    assert (fault.kind, fault.task, fault.layer) == ("NeverWrittenRegister", 1, "layer1")


def stream_fault(words: list[int], **how: bool) -> SimulatorFault:
    memory = s.Memory()
    address = memory.add("regcmd", np.array(words, np.uint64))
    return fault_of(lambda: s.run(memory, [(address, len(words), "net")], **how))


def full_stream(mask: int = s.CONV) -> tuple[s.Memory, list[int]]:
    memory, registers = conv_memory(p.Conv())
    return memory, s.body(registers, mask) + s.tail(mask)


def edited_fault(edit, **how: bool) -> SimulatorFault:
    memory, words = full_stream()
    words = edit(words)
    address = memory.add("regcmd", np.array(words, np.uint64))
    return fault_of(lambda: s.run(memory, [(address, len(words), "net")], **how))


def test_words_that_are_no_commands():
    assert stream_fault([s.word(0x0201, 0x1010, 0), 1]).kind == "UnknownTarget"
    assert stream_fault([s.word(0x0301, 0x1010, 0)]).kind == "UnknownTarget"
    assert stream_fault([s.word(0x0801, 0x1010, 0)]).kind == "UnknownRegister"
    assert stream_fault([s.word(0x0041, 0, 5)]).kind == "ReservedBits"
    assert stream_fault([s.word(0x0101, 0x30, 1)]).kind == "ForbiddenRegister"
    assert stream_fault([s.word(0x0081, 8, 2)]).kind == "ReservedBits"


def test_incomplete_tails():
    assert stream_fault([0, 0, 0]).kind == "MissingEnable"
    assert stream_fault([s.word(0x0081, 8, s.CONV)]).kind == "MissingBarrier"
    assert stream_fault([s.word(0x41, 0, 0), s.word(0x81, 8, s.CONV)]).kind == "MissingTail"
    assert edited_fault(lambda w: w[:-1]).kind == "MissingEnable"
    assert edited_fault(lambda w: w[:-2] + w[-1:]).kind == "MissingBarrier"
    assert edited_fault(lambda w: [*w, w[0]]).kind == "WordsAfterEnable"
    assert edited_fault(lambda w: w[1:]).kind == "NotRearmed"
    assert edited_fault(lambda w: w[:1] + w[2:]).register == "DPU_RDMA.RDMA_S_POINTER"


def test_filler_is_allowed_anywhere():
    memory, words = full_stream()
    words = [0, *words[:20], 0, 0, *words[20:], 0, 0]
    address = memory.add("regcmd", np.array(words, np.uint64))
    s.run(memory, [(address, len(words), "net")])
    assert (memory.bytes("output") != 0xA5).any()


@for_each("mask", [0x01, 0x05, 0x08, 0x10, 0x15, 0x1C, 0x1D | 0x60, 0x20])
def test_enable_masks_that_start_nothing_known(mask):
    fault = edited_fault(
        lambda w: (
            [s.word(16385, 24580, 14), s.word(32769, 28676, 14), *w[:-1], s.word(129, 8, mask)]
        )
    )
    assert (fault.kind, fault.register) == ("BadEnableMask", "ENABLE.OPERATION_ENABLE")


def test_waiting_for_other_cores_is_named_as_unsupported():
    fault = edited_fault(lambda w: [*w[:-3], s.word(257, 20, 1 << 16), *w[-2:]])
    assert (fault.kind, fault.unit) == ("UnsupportedFeature", "PC")


def chain_fault(change) -> SimulatorFault:
    memory, registers, _ = three_tasks()
    program = program_of(*registers)
    tasks = program.place(memory)
    words = memory.bytes("regcmd").view(np.uint64)
    start = tasks[0][0]
    link = (tasks[1][0] - start) // 8 + tasks[1][1] - 4  # the second task's BASE word
    tasks = change(memory, words, link, tasks) or tasks
    return fault_of(lambda: s.run(memory, tasks, chained=True))


def test_broken_chains():
    def without_link(_memory, words, link, _tasks):
        words[link] = 0

    def elsewhere(_memory, words, link, tasks):
        words[link] = s.word(*s.PC_BASE, tasks[2][0] + 64)

    def wrong_amount(_memory, words, link, _tasks):
        words[link + 1] += np.uint64(1 << 16)

    for change in (without_link, elsewhere, wrong_amount):
        fault = chain_fault(change)
        assert (fault.kind, fault.task) == ("BrokenChain", 1)


def test_a_chain_that_loops():
    def back(_memory, words, link, tasks):
        words[link] = s.word(*s.PC_BASE, tasks[0][0])
        return tasks[:1]

    fault = chain_fault(back)
    assert (fault.kind, fault.task) == ("ChainLoop", 2)


def test_a_chain_that_leaves_its_buffer():
    def outside(memory, words, link, tasks):
        words[link] = s.word(*s.PC_BASE, memory.regions[0][1])
        return tasks[:1]

    assert chain_fault(outside).kind == "ChainLeavesBuffer"


def test_segments_must_be_aligned_and_mapped():
    memory, registers = conv_memory(p.Conv())
    program = s.Program()
    program.add(registers)
    ((address, count, layer),) = program.place(memory)
    for task, kind in (
        ((address + 8, count, layer), "MisalignedAddress"),
        ((address, count + 4096, layer), "UnmappedAccess"),
        ((0x10, count, layer), "UnmappedAccess"),
        ((address, 0, layer), "MissingEnable"),
    ):
        assert fault_of(lambda t=task: s.run(memory, [t])).kind == kind


def tiles(**second: int) -> tuple[s.Memory, s.Program]:
    """Two tasks over the same weights, the second one reusing what CBUF holds."""
    t = p.Conv(kh=1, kw=1, pad_top=0, pad_left=0)
    memory = s.Memory()
    data = p.random_tensors(np.random.default_rng(0), t)
    registers = p.conv_registers(t, memory, data)
    program = s.Program()
    program.add(registers)
    output = memory.add("second", memory.bytes("output").size)
    again = registers | {s.DST_BASE_ADDR: output}
    again[s.CBUF_CON0] |= 1 << 13
    program.add(again | {int(k[1:], 16): v for k, v in second.items()})
    return memory, program


@for_each("bits", [1 << 13, 1 << 12, 3 << 12])
def test_reuse_of_cbuf_gives_the_same_result(bits):
    memory, program = tiles(r1040=0xB1 | bits)
    s.run_all_ways(memory, program.place(memory))
    np.testing.assert_array_equal(memory.bytes("output"), memory.bytes("second"))


@pytest.mark.parametrize(
    "change",
    [
        {"r1040": 0xA1 | 1 << 13},  # other banks
        {"r1110": 0x10001010},  # other weights
        {"r1040": 0xB1 | 1 << 12, "r1070": 0x10000010},  # other features
    ],
)
def test_reuse_of_something_else_faults(change):
    memory, program = tiles(**change)
    fault = fault_of(lambda: s.run(memory, program.place(memory)))
    assert (fault.kind, fault.task) == ("ReuseMismatch", 1)


def test_weights_that_stream_cannot_be_reused():
    t = p.Conv(c=512, oc=1024, kh=1, kw=1, pad_top=0, pad_left=0, oh=7, ow=5)
    memory = s.Memory()
    registers = p.conv_registers(t, memory, p.random_tensors(np.random.default_rng(0), t))
    registers[s.CBUF_CON0] = 1 << 4 | 11
    program = s.Program()
    program.add(registers)
    s.run(memory, program.place(memory))
    program.add(registers | {s.CBUF_CON0: 1 << 13 | 1 << 4 | 11})
    fault = fault_of(lambda: s.run(memory, program.place(memory, "again")))
    assert fault.kind == "ReuseMismatch"


def test_reuse_does_not_survive_the_run():
    memory, program = tiles()
    tasks = program.place(memory)
    s.run(memory, tasks)
    fault = fault_of(lambda: s.run(memory, tasks[1:]))
    assert fault.kind == "ReuseMismatch"


def test_reuse_of_overwritten_weights_faults():
    memory, program = tiles()
    overwrite = program.bodies.pop(1)
    t = p.Elementwise(c=16, h=1, w=8)
    data = p.random_elementwise(np.random.default_rng(0), t)
    flying = p.elementwise_registers(t, memory, data, "f")
    flying[s.DST_BASE_ADDR] = next(a for n, a, _ in memory.regions if n == "weights")
    program.masks.pop()
    program.add(flying, s.FLYING)
    program.bodies.append(overwrite)
    program.masks.append(s.CONV)
    fault = fault_of(lambda: s.run(memory, program.place(memory)))
    assert fault.kind == "ReuseMismatch"
    assert "overwritten" in str(fault)
