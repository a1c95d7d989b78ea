"""A program whose commands name the second core's banks: no device takes it."""

from dataclasses import replace

import numpy as np

from delegate import _native
from delegate.errors import DeviceError
from delegate.npu.program import parse, serialize
from tests.kernel.small_models import MODELS, programs

CNA = 0x0201
BANKS = 7
ENTRIES = BANKS * 1024
MORE = {0x1018: BANKS, 0x1038: BANKS + (1 << 8), 0x103C: ENTRIES, 0x1040: ENTRIES << 16 | ENTRIES}
"""By register, what programs of the vendor's compiler for the second core have more."""


def work(device: str) -> dict[str, str]:
    (content,) = programs(MODELS["residual"](), chip="rk3576")
    program = parse(content)
    commands, *others = program.buffers
    words = np.frombuffer(commands.content, np.uint64).copy()
    for offset, more in MORE.items():
        is_register = words >> np.uint64(48) == CNA
        is_register &= words & np.uint64(0xFFFF) == offset
        assert is_register.any()
        words[is_register] += np.uint64(more << 16)
    moved = replace(program, buffers=(replace(commands, content=words.tobytes()), *others))
    problem = ""
    try:
        _native.Executable(serialize(moved), device=device)
    except DeviceError as error:
        problem = str(error)
    return {"problem": problem}
