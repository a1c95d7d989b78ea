"""Digests of compiled programs: the same for every Python, NumPy and run of one version.

What counts is what a device gets: commands, constants, memory and relocations; how a Program is
serialised, its names and its compiler do not. So two versions can be compared, before and after a
restructuring.

    python -m benchmarks.digest MODEL...
"""

from __future__ import annotations

import hashlib
import struct
import sys
from pathlib import Path

import numpy as np

from delegate.compile.compiler import compile_model
from delegate.npu.program_reader import parse
from delegate.options import Options
from tools.script import ScriptParser, existing_file, run_script


def digest(path: Path) -> str:
    """SHA-256 over what a device gets of all programs of a model, in order."""
    found = hashlib.sha256()
    for item in compile_model(path, Options(deny_ops=())).partitions:
        program = parse(item.program)
        for buffer in program.buffers:
            found.update(struct.pack("<QQ", buffer.size_bytes, len(buffer.content)))
            found.update(buffer.content)
        for reloc in program.relocs:
            found.update(struct.pack("<QQQ", reloc.word, reloc.buffer, reloc.addend))
        for task in program.tasks:
            found.update(struct.pack("<QQQ", task.regcmd_offset, task.regcmd_count, task.job))
        for binding in (*program.inputs, *program.outputs):
            found.update(struct.pack("<QQ", binding.tensor, binding.location.offset))
    return found.hexdigest()


def main(arguments: list[str] | None = None) -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("models", type=existing_file, nargs="+", metavar="MODEL")
    chosen = parser.parse_args(arguments)
    digests = [digest(path) for path in chosen.models]
    for path, text in zip(chosen.models, digests, strict=True):
        print(f"{text}  {path.name}")
    total = hashlib.sha256("".join(digests).encode()).hexdigest()
    python = ".".join(str(part) for part in sys.version_info[:3])
    print(f"{total}  all, Python {python}, NumPy {np.__version__}")
    return 0


if __name__ == "__main__":
    run_script(main)
