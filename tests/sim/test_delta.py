"""Long chains of short tasks, as other compilers write them, and what such streams hold besides."""

import os

import numpy as np
import pytest

from delegate.errors import SimulatorFault
from tests.sim import oracle
from tests.sim import programs as p
from tests.sim import stream as s

# Registers that short tasks write even where nothing changes.
SKELETON = (s.CBUF_CON0, s.CONV_CON1, s.FC_DATA_SIZE0, s.FC_DATA_SIZE1, s.DCOMP_ADDR0,
            s.WDMA_SIZE_0, s.WDMA_SIZE_1, s.RDMA_SRC_BASE, s.BS_BASE, s.EW_BASE)  # fmt: skip
# Undocumented ones that always get zeros.
ZEROS = {0x1100: 0, 0x1104: 0, 0x1140: 0, 0x117C: 0, 0x1180: 0, 0x3030: 0, 0x40C4: 0}


def chain(count: int) -> tuple[s.Memory, list[tuple[int, int, str]], list[np.ndarray]]:
    """``count`` convolutions and copies in turn; all but the first of each group are deltas."""
    rng = np.random.default_rng(count)
    memory, program = s.Memory(), s.Program()
    dpu: list[s.Registers] = [{}, {}]  # per group, everything written so far
    cna: list[s.Registers] = [{}, {}]
    convs = 0
    expected = []
    sizes = []
    for i in range(count):
        if i % 5 == 4:
            t = p.Elementwise(c=32, h=7, w=5)
            data = p.random_elementwise(rng, t)
            now = p.elementwise_registers(t, memory, data, tag=str(i)) | {s.RDMA_SRC_DMA: 0}
            expected.append(oracle.elementwise(t, now, data))
            written = delta_of(now, dpu[i % 2], {})
            program.add(written, s.FLYING)
        else:
            t = p.Conv(c=16 if i % 3 else 32, pad=int(rng.integers(-128, 128)))
            data = p.random_tensors(rng, t)
            now = p.conv_registers(t, memory, data, tag=str(i)) | ZEROS | {s.RDMA_SRC_DMA: 0}
            expected.append(oracle.conv(t, now, data))
            written = delta_of(now, dpu[i % 2], cna[convs % 2])
            # CBUF_CON0 and CONV_CON1 come twice: first of all, and again in their place.
            prelude = {k: now[k] for k in (s.CBUF_CON0, s.CONV_CON1)}
            program.add(prelude)
            program.bodies[-1] += s.body(written, 0, rearm=False)
            cna[convs % 2] |= {k: v for k, v in now.items() if k < 0x4000}
            convs += 1
        dpu[i % 2] |= {k: v for k, v in now.items() if k >= 0x4000}
        sizes.append(len(written))
    assert min(sizes) < 20, "some tasks are short"
    return memory, program.place(memory), expected


def delta_of(now: s.Registers, dpu: s.Registers, cna: s.Registers) -> s.Registers:
    before = dpu | cna
    changed = {k: v for k, v in now.items() if before.get(k) != v}
    return changed | {k: now[k] for k in SKELETON if k in now}


@pytest.mark.parametrize("how", [{}, {"chained": True}, {"plain": True}, {"kernel": "rknpu"}])
def test_long_chain_of_deltas(how):
    memory, tasks, expected = chain(23)
    s.run(memory, tasks, **how)
    for i, wanted in enumerate(expected):
        found = p.from_surfaces(memory.bytes(f"output{i}"), 32, 7, 5, 35)
        np.testing.assert_array_equal(found, wanted, err_msg=f"task {i}")


def test_the_mainline_kernel_as_it_is_runs_no_deltas():
    """It kicks every task by itself, and registers are not known to outlive a kick."""
    memory, tasks, _ = chain(5)
    with pytest.raises(SimulatorFault, match="tasks before it wrote") as fault:
        s.run(memory, tasks, kernel="rocket")
    assert (fault.value.kind, fault.value.task) == ("NeverWrittenRegister", 2)


def test_a_chain_repeats_itself():
    """64 tasks give the same bytes again and again; RK3588_SIM_REPEATS=1000 for the long run."""
    memory, tasks, _ = chain(64)
    wanted = memory.copy()
    s.run(wanted, tasks, chained=True, threads=2)
    for _ in range(int(os.environ.get("RK3588_SIM_REPEATS", "10"))):
        again = memory.copy()
        s.run(again, tasks, chained=True, threads=2)
        for (name, _, found), (_, _, image) in zip(again.regions, wanted.regions, strict=True):
            np.testing.assert_array_equal(found, image, err_msg=name)


def test_cleared_pointer():
    """S_POINTER = 0x30 goes back to the first group, whichever was next."""
    memory, program = s.Memory(), s.Program()
    t = p.Elementwise(c=16, h=3, w=4)
    rng = np.random.default_rng(0)
    data = [p.random_elementwise(rng, t) for _ in range(4)]
    r = [p.elementwise_registers(t, memory, d, tag=str(i)) for i, d in enumerate(data)]
    r[1] |= {s.OUT_OFFSET: 77}
    program.add(r[0], s.FLYING)  # first group
    # The second group would be next, and is still empty: only addresses would not do.
    addresses = (s.DST_BASE_ADDR, s.RDMA_SRC_BASE)
    program.add({k: r[1][k] for k in (*addresses, s.OUT_OFFSET)}, s.FLYING, pointer=s.CLEAR)
    # Without ping-pong the group stays, so that its offset does, too.
    program.add({k: r[2][k] for k in addresses}, s.FLYING)
    program.add(r[3], s.FLYING)
    s.run(memory, program.place(memory), chained=True)
    r[2][s.OUT_OFFSET] = 77
    for i in range(4):
        found = p.from_surfaces(memory.bytes(f"output{i}"), 16, 3, 4, 12)
        np.testing.assert_array_equal(found, oracle.elementwise(t, r[i], data[i]), err_msg=str(i))


def test_tags_of_amounts():
    memory, tasks, expected = chain(6)
    words = memory.bytes("regcmd").view(np.uint64)
    amounts = (words >> np.uint64(48) == 0x0101) & (words & np.uint64(0xFFFF) == 0x14)
    words[amounts] |= np.uint64(0x4000_0000 << 16)
    s.run(memory, tasks, chained=True)
    found = p.from_surfaces(memory.bytes("output5"), 32, 7, 5, 35)
    np.testing.assert_array_equal(found, expected[5])
