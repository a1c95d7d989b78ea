"""The chain of hand-made tasks as annotated text; a change of any command shows as a readable diff.

``UPDATE_GOLDEN=1 pytest tests/npu/test_golden.py`` rewrites the file; review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

from delegate.npu.disasm import assemble, disassemble
from delegate.npu.program import build_program
from tests.npu.sample_programs import chain_partition

GOLDEN = Path(__file__).parent / "golden" / "chain.txt"


def test_the_stream_is_the_golden_one():
    program = build_program(chain_partition(), "golden")
    text = disassemble(program)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    expected = GOLDEN.read_text(encoding="utf-8")
    assert text.splitlines() == expected.splitlines()
    assert assemble(expected) == tuple(int(word) for word in program.words())
