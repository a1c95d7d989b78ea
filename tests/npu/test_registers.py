"""The register table is consistent and agrees with the reference."""

import json

import pytest

from delegate.chip.register_model import Access, block
from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588.registers import REGISTERS
from tests.shared_folder import SHARED

REFERENCE = SHARED / "reference" / "registers.json"

# Fields that the manual calls reserved but that programs or kernels are seen to use.
OBSERVED_FIELDS = {
    ("CNA.CBUF_CON1", "DATA_ENTRIES_HIGH"),
    ("CNA.CONV_CON2", "CORE_SPLIT"),
    ("DPU.LUT_ACCESS_DATA", "LUT_ACCESS_SIGN"),
    ("PC.REGISTER_AMOUNTS", "TAG"),
    ("PC.REGISTER_AMOUNTS", "WAIT_CORES"),
    ("PC.TASK_CON", "TASK_CON_14"),
}


TABLES = pytest.mark.parametrize("table", [REGISTERS, RK3576.registers], ids=["3588", "3576"])


@TABLES
def test_names_and_addresses_are_unique(table):
    count = sum(len(block.registers) for block in table.blocks)
    assert len(table.by_name) == len(table.by_address) == count


@TABLES
def test_fields_do_not_overlap_fit_32_bits_and_say_what_they_mean(table):
    for item in table.by_name.values():
        assert item.meaning.endswith("."), item.full_name
        seen = 0
        for field in item.fields:
            assert 0 <= field.lo <= field.hi <= 31, (item.full_name, field.name)
            assert seen & field.mask == 0, (item.full_name, field.name)
            assert field.meaning, (item.full_name, field.name)
            seen |= field.mask


def test_field_decode_handles_sign_bias_and_unit():
    surf = REGISTERS.by_name["CNA.DMA_CON2"].field("SURF_STRIDE")
    assert surf.decode(0x0FFFFFFD) == -3
    assert surf.limits == (-(1 << 27), (1 << 27) - 1)
    width = REGISTERS.by_name["DPU.DATA_CUBE_WIDTH"].field("WIDTH")
    assert (width.decode(19), width.limits) == (20, (1, 8192))
    stride = REGISTERS.by_name["DPU.DST_SURF_STRIDE"].field("DST_SURF_STRIDE")
    assert stride.decode(0x1900) == 0x1900


@pytest.mark.parametrize(
    "row",
    [
        "0x0000 NAME",  # no meaning
        "0x00 NAME: Short offset.",
        "0x0000 NAME (odd): Mark of nothing.",
        "0x0000 NAME (signed): Mark of a field.",
        "0x0000 NAME: A register.\n  3:0 FIELD (host): mark of a register",
        "  3:0 FIELD: of no register",
    ],
)
def test_a_row_that_is_none_is_refused(row):
    with pytest.raises((IndexError, KeyError, TypeError, ValueError)):
        block("BLOCK", 0x0001, "A block.", row)


def test_streams_may_not_write_the_pointers_of_cna_and_core():
    assert REGISTERS.by_name["CNA.S_POINTER"].access is Access.HOST
    assert REGISTERS.by_name["CORE.S_POINTER"].access is Access.HOST
    assert REGISTERS.by_name["DPU.S_POINTER"].access is Access.STREAM


@pytest.mark.skipif(not REFERENCE.exists(), reason=f"no reference: {REFERENCE} does not exist")
def test_table_has_the_offsets_and_bits_of_the_reference():
    compared = 0
    for row in json.loads(REFERENCE.read_text())["registers"]:
        if row["block"] in {"DDMA", "SDMA", "GLOBAL"}:
            continue
        ours = REGISTERS.by_address[int(row["target"], 16), int(row["offset"], 16)]
        assert ours.full_name == f"{row['block']}.{row['name']}"
        expected = {
            (field["name"], field["hi"], field["lo"])
            for field in row["fields"]
            if not field["name"].startswith("RESERVED")
        }
        found = {
            (field.name, field.hi, field.lo)
            for field in ours.fields
            if (ours.full_name, field.name) not in OBSERVED_FIELDS
        }
        assert found == expected, ours.full_name
        compared += 1
    assert compared == 176
