"""Tests that no task has what others saw hang or go wrong, see docs/hazards.md."""

import dataclasses
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from delegate.chip.element import Element
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model
from delegate.errors import EncodingError
from delegate.lower.numerics.pipeline import EwOperation, OutConvert
from delegate.lower.task import BsStage, BufferId, EwStage, Ref, Source, TableLoad
from delegate.lower.weights import pack_bn_multipliers
from delegate.npu.program import parse
from delegate.npu.regcmd import encode_task, unpack_word
from delegate.npu.rk3588 import encoder as encode_conv
from delegate.npu.rk3588.encoder import LOAD_WORDS
from delegate.options import Options
from tests.loops import for_each
from tests.npu.sample_tasks import add_task, conv_task, per_channel
from tests.ops.test_resizing import nearest

ROOT = Path(__file__).resolve().parents[2]
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


def fp16_task(operation=EwOperation.ADD, **changes):
    ew = EwStage(operand=_PLACE, operand_bytes=2, operation=operation, surface_stride_bytes=560)
    task = add_task(c=16, bs=BsStage(), ew=ew, out=OutConvert(**changes))
    cube = dataclasses.replace(task.output, element_bytes=2)
    return dataclasses.replace(task, output=cube, element=Element.FP16)


def test_fp16_has_no_offset():
    """Beside 0 a table with a negative one gives spikes."""
    assert commands(fp16_task())
    with pytest.raises(EncodingError, match="without offset"):
        commands(fp16_task(offset=-1))


@pytest.mark.parametrize(
    ("operation", "is_off"), [(EwOperation.ADD, 0), (EwOperation.MAX, 0), (EwOperation.MULTIPLY, 1)]
)
def test_the_converter_is_off_in_fp16_products_alone(operation, is_off):
    assert field(commands(fp16_task(operation)), "DPU.EW_CFG.EW_OP_CVT_BYPASS") == is_off
    ew = EwStage(operand=_PLACE, operation=operation, surface_stride_bytes=560)
    assert not field(commands(add_task(ew=ew)), "DPU.EW_CFG.EW_OP_CVT_BYPASS")


@for_each("factor", range(2, 9))
def test_other_numbers_of_pixels_apart_take_other_tasks(factor):
    """3, 5, 6 and 7 act as 1."""
    model = nearest((1, 5, 4, 33), 5 * factor, 4)
    result = compile_model(model, Options(numerics="exact"))
    assert result.rejections == ()
    (compiled,) = result.partitions
    found = [unpack_word(int(word)) for word in parse(compiled.program).words()]
    steps = [c for c in found if c.register and c.register.full_name == "CNA.CONV_CON3"]
    spreads = {c.register.field("DECONV_Y_STRIDE").decode(c.value) for c in steps}
    assert spreads == {factor if factor in (2, 4, 8) else 1}


def test_bn_has_no_multiplier_below_zero():
    with pytest.raises(ValueError, match="below 0"):
        pack_bn_multipliers(np.array([5, -1, 7]), 16)


_PAGE = ROOT / "docs" / "hazards.md"


def test_the_page_names_what_there_is():
    """Every place, and every test, and all hazards of the table."""
    text = _PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| H")]
    assert [row.split("|")[1].strip() for row in rows] == [f"H{n}" for n in range(1, 27)]
    for path, name in re.findall(r"`((?:[a-z0-9_]+/)+[a-z0-9_]+\.(?:py|cpp|h))(?:::(\w+))?`", text):
        found = next(p for p in (ROOT / path, ROOT / "tests" / path) if p.exists())
        assert not name or re.search(rf"\b{name}\b", found.read_text(encoding="utf-8")), name


def test_a_load_has_no_more_words_than_others_ran_in_a_task():
    assert LOAD_WORDS <= 1026 + 126
    assert len(encode_task(RK3588, "", _LOAD).words) <= 1026 + 126


@for_each("h, kh, stride", [(3, 3, 1), (40, 5, 2), (300, 1, 3)])
def test_a_scan_starts_with_the_rows_of_an_output_row_and_the_next_step(h, kh, stride):
    task = conv_task(h=h, w=7, c=512, kh=kh, kw=1, stride=stride, pad_top=0, pad_left=0)
    task_rows = encode_conv.feature_grains(task.feature, kh, stride)
    assert task_rows >= min(h + kh, kh + stride)
