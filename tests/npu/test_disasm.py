"""Disassembly shows names, fields, layers and tiles, and assembles back to the same words."""

import dataclasses

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delegate.chip.rk3588.registers import REGISTERS
from delegate.errors import ProgramError, UsageError
from delegate.npu.disasm import assemble, disassemble, disassemble_bytes
from delegate.npu.program import build_program, serialize
from delegate.npu.regcmd import pack_word
from tests.npu.sample_programs import chain_partition

WORDS = st.integers(0, (1 << 64) - 1)
REGISTER_WORDS = st.builds(
    lambda register, value: pack_word(register.target, register.offset, value),
    st.sampled_from(list(REGISTERS.by_name.values())),
    st.integers(0, (1 << 32) - 1),
)


@pytest.fixture(scope="module")
def program():
    return build_program(chain_partition(), "rk3588-delegate 0.1.0")


def test_text_names_layers_tiles_fields_and_relocations(program):
    text = disassemble(program)
    lines = text.splitlines()
    assert lines[0] == "# program chain (rk3588-delegate 0.1.0)"
    assert "# layer 0: 0 CONV_2D (CONV_2D), nodes 0" in lines
    assert any(line.startswith("# task 1, job 0, tile rows 5..7: 130 words") for line in lines)
    code = {line.split("#")[0].split("=")[0].strip(): line for line in lines if "=" in line}
    assert "CONV_MODE" not in code["CNA.CONV_CON1"]
    assert "WIDTH=6" in code["DPU.DATA_CUBE_WIDTH"]
    assert "BS_ALU_ALGO=ADD" in code["DPU.BS_CFG"]
    assert code["DPU_RDMA.RDMA_SRC_BASE_ADDR"].endswith("# SCRATCH + 0x0")
    assert "OUTPUT_MODE=MEMORY" in code["DPU.FEATURE_MODE_CFG"]


def test_a_program_assembles_back_to_its_words(program):
    assert assemble(disassemble(program)) == tuple(int(word) for word in program.words())


def test_a_serialised_program_and_bare_words_are_recognised(program):
    assert disassemble_bytes(serialize(program)) == disassemble(program)
    raw = program.words().tobytes()
    assert assemble(disassemble_bytes(raw)) == tuple(int(word) for word in program.words())
    with pytest.raises(UsageError, match="7 bytes"):
        disassemble_bytes(b"1234567")
    with pytest.raises(ProgramError):
        disassemble_bytes(serialize(program)[:-4])


@given(st.lists(st.one_of(st.just(0), WORDS, REGISTER_WORDS), max_size=40))
def test_any_words_survive_the_round_trip(words):
    assert assemble(disassemble(words)) == tuple(words)


def test_reserved_bits_are_shown():
    register = REGISTERS.by_name["CNA.PAD_CON0"]
    text = disassemble([pack_word(register.target, register.offset, 0x10021)])
    assert "PAD_LEFT=2 PAD_TOP=1 RESERVED=0x10000" in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("empty\nCNA.NOTHING = 0x1\n", r"line 2: there is no register CNA.NOTHING"),
        ("CNA.PAD_CON0 = 21", "line 1"),
        ("CNA.PAD_CON0 = 0x123456789", "line 1"),
        ("\n\nword 0x\n", "line 3"),
    ],
)
def test_text_that_is_not_understood_names_its_line(text, problem):
    with pytest.raises(UsageError, match=problem):
        assemble(text)


@given(
    st.text(max_size=60) | st.from_regex(r"(\w+\.)?\w+ *(= *)?0x[0-9a-fA-F]{1,9}", fullmatch=True)
)
@example("word 0xffffffffffffffff")
def test_arbitrary_text_is_words_or_one_error(text):
    try:
        words = assemble(text)
    except UsageError as error:
        assert "\n" not in str(error)
        return
    assert all(0 <= word < 1 << 64 for word in words)
    assert assemble(disassemble(words)) == words


def test_names_cannot_break_out_of_their_comment():
    lowered = chain_partition()
    layer = dataclasses.replace(lowered.layers[0], name="evil\nword 0x1\r\x85empty\u2028empty")
    hostile = dataclasses.replace(lowered, layers=(layer, lowered.layers[1]))
    program = build_program(hostile, "x")
    assert assemble(disassemble(program)) == tuple(int(word) for word in program.words())
