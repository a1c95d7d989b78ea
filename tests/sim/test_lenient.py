"""The lenient mode lists what would be faults and computes the same; nothing wrong gets past it."""

from collections.abc import Callable

import numpy as np
import pytest

from delegate.errors import SimulatorFault
from tests.sim import stream as s
from tests.sim.programs import Conv, conv_registers, random_tensors
from tests.sim.test_faults import add_, drop, or_, set_


def program(change: Callable[[s.Registers], None]) -> tuple[s.Memory, list[tuple[int, int, str]]]:
    memory, stream = s.Memory(), s.Program()
    t = Conv(c=24, oc=40)
    r = conv_registers(t, memory, random_tensors(np.random.default_rng(0), t))
    change(r)
    stream.add(r)
    return memory, stream.place(memory)


# (change that leaves no doubt about what is computed, kind, register)
DOWNGRADED = [
    (or_(s.DATA_SIZE0, 1 << 31), "ReservedBits", "CNA.DATA_SIZE0"),
    (drop(s.OFFSET_PEND), "NeverWrittenRegister", "DPU.OFFSET_PEND"),
    (drop(s.CLIP_TRUNCATE), "NeverWrittenRegister", "CORE.CLIP_TRUNCATE"),
    (add_(s.FC_DATA_SIZE0, 1), "InconsistentSizes", "CNA.FC_DATA_SIZE0.DMA_HEIGHT"),
    (add_(s.FC_DATA_SIZE1, 16), "InconsistentSizes", "CNA.FC_DATA_SIZE1.DMA_CHANNEL"),
    (add_(s.DATA_SIZE1, 16 << 16), "InconsistentSizes", "CNA.DATA_SIZE1.DATAIN_CHANNEL_REAL"),
    (add_(s.WDMA_SIZE_0, 1), "InconsistentSizes", "DPU.WDMA_SIZE_0.CHANNEL_WDMA"),
    (set_(s.DMA_CON0, 0xF0005), "InvalidValue", "CNA.DMA_CON0.DATA_BURST_LEN"),
    (set_(s.DPU_S_POINTER, 1), "InvalidValue", "DPU.S_POINTER"),
    (add_(s.RDMA_CHANNEL, 1), "InconsistentSizes", "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL.CHANNEL"),
]


@pytest.mark.parametrize(("change", "kind", "register"), DOWNGRADED)
def test_downgraded(change, kind, register):
    strict, tasks = program(change)
    with pytest.raises(SimulatorFault) as fault:
        s.run(strict, tasks)
    assert fault.value.kind == kind
    right, right_tasks = program(lambda r: None)
    assert s.run(right, right_tasks, lenient=True)["complaints"] == []
    lenient, tasks = program(change)
    complaints = s.run(lenient, tasks, lenient=True)["complaints"]
    assert complaints == [str(fault.value)]
    assert register in complaints[0]
    np.testing.assert_array_equal(lenient.bytes("output"), right.bytes("output"))


# What stays a fault: the result would be a guess, or memory would be wrong.
KEPT = [
    (set_(s.CBUF_CON0, 0xBB), "CbufOverrun"),
    (add_(s.WEIGHT_SIZE0, 32), "InconsistentSizes"),
    (set_(s.CONV_CON2, 1 << 28), "UnsupportedFeature"),
    (set_(s.FEATURE_DATA_ADDR, 0x100), "UnmappedAccess"),
    (set_(0x1004, 0xE), "ForbiddenRegister"),
    (or_(s.CONV_CON1, 0x10), "UnsupportedFeature"),
]


@pytest.mark.parametrize(("change", "kind"), KEPT)
def test_kept(change, kind):
    memory, tasks = program(change)
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, tasks, lenient=True)
    assert fault.value.kind == kind


def test_a_segment_without_pointers_and_barrier():
    memory, stream = s.Memory(), s.Program()
    t = Conv()
    r = conv_registers(t, memory, random_tensors(np.random.default_rng(0), t))
    stream.add(r, rearm=False)
    tasks = stream.place(memory)
    words = memory.bytes("regcmd").view(np.uint64)
    words[words == np.uint64(0x0041 << 48)] = 0
    with pytest.raises(SimulatorFault):
        s.run(memory.copy(), tasks)
    kinds = [c.split()[0] for c in s.run(memory, tasks, lenient=True)["complaints"]]
    assert kinds == ["MissingBarrier", "NotRearmed", "NotRearmed"]
