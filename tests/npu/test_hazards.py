"""What others saw hang or go wrong and no task can have, see docs/hazards.md."""

from __future__ import annotations

import itertools

import pytest

from delegate.chip.rk3588 import RK3588
from delegate.errors import EncodingError
from delegate.lower.task import BsStage, BufferId, Ref, Source, TableLoad
from delegate.npu import encode_conv, encode_elementwise
from delegate.npu.encode import encode_task
from delegate.npu.encode_table import LOAD_WORDS
from delegate.npu.regcmd import unpack_word
from tests.npu.sample_tasks import add_task, conv_task, per_channel

_PLACE = Ref(BufferId.CONSTANTS, 256)
_LOAD = TableLoad("", (bytes(256),), _PLACE, Ref(BufferId.SCRATCH, 0))
_STAGES = [
    BsStage(alu, mul=mul, ow=ow, operands=operands)
    for alu, mul, ow in itertools.product(Source, repeat=3)
    for operands in (None, _PLACE)
]


def commands(task):
    """Values by register; of what is written again, the first."""
    values = {}
    for word in encode_task(RK3588, "", task).words:
        command = unpack_word(word)
        if command.register is not None:
            values.setdefault(command.register.full_name, command)
    return values


def field(found, name):
    register, _, part = name.rpartition(".")
    command = found[register]
    return command.register.field(part).decode(command.value)


@pytest.mark.parametrize("make", [conv_task, add_task])
def test_summands_are_fetched_only_where_bs_takes_them(make):
    taken = 0
    for stage in _STAGES:
        try:
            found = commands(make(bs=stage))
        except EncodingError:
            continue
        if field(found, "DPU_RDMA.RDMA_BRDMA_CFG.BRDMA_DATA_USE"):
            taken += 1
            assert not field(found, "DPU.BS_CFG.BS_BYPASS")
            assert not field(found, "DPU.BS_CFG.BS_ALU_BYPASS")
    assert taken


@pytest.mark.parametrize("task", [add_task(c=40), _LOAD], ids=["add", "load"])
def test_the_dpu_alone_reads_whole_surfaces_of_one_map(task):
    found = commands(task)
    mode = "DPU_RDMA.RDMA_FEATURE_MODE_CFG"
    assert field(found, f"{mode}.FLYING_MODE")
    assert not field(found, f"{mode}.MRDMA_DISABLE")
    assert not field(found, f"{mode}.COMB_USE")
    cube = "DPU.DATA_CUBE_CHANNEL"
    channels = field(found, f"{cube}.CHANNEL")
    assert field(found, f"{cube}.ORIG_CHANNEL") == channels
    assert field(found, "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL.CHANNEL") == channels
    assert channels % 16 == 0


def test_operands_per_channel_are_fetched_in_whole_groups():
    found = commands(conv_task(oc=17, bs=per_channel(_PLACE)))
    assert field(found, "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL.CHANNEL") == 32


def test_every_task_writes_all_registers_of_its_blocks():
    """After a hang they hold what the task before left."""
    for tasks in (
        [conv_task(), conv_task(depthwise=True), conv_task(bs=per_channel(_PLACE), stride=2)],
        [add_task(), add_task(c=33), _LOAD],
    ):
        first, *others = [set(commands(task)) for task in tasks]
        assert all(found == first for found in others)


def test_no_task_starts_the_ppu():
    assert {encode_conv.ENABLE_MASK, encode_elementwise.ENABLE_MASK} == {0x1D, 0x18}


def test_a_load_has_no_more_words_than_others_ran_in_a_task():
    assert LOAD_WORDS <= 1026 + 126
    assert len(encode_task(RK3588, "", _LOAD).words) <= 1026 + 126


@pytest.mark.parametrize(("h", "kh", "stride"), [(3, 3, 1), (40, 5, 2), (300, 1, 3)])
def test_a_scan_starts_with_the_rows_of_an_output_row_and_the_next_step(h, kh, stride):
    task = conv_task(h=h, w=7, c=512, kh=kh, kw=1, stride=stride, pad_top=0, pad_left=0)
    task_rows = encode_conv.feature_grains(task.feature, kh, stride)
    assert task_rows >= min(h + kh, kh + stride)
