"""``disasm``: command streams to text and back."""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from delegate.cli.command import Command, answer
from delegate.cli.files import write_file
from delegate.errors import CaptureError, UsageError
from delegate.model.files import read_file

if TYPE_CHECKING:
    from delegate.insight.capture import Capture

_WORD_BYTES = 8
_MAX_FILE_BYTES = 64 << 20  # a text of a hundred times that many bytes comes out
_ZIP_MAGIC = b"PK\x03\x04"


def _run(arguments: argparse.Namespace) -> int:
    from delegate.npu.disasm import disassemble_bytes

    if arguments.assemble is not None:
        return _assemble(arguments)
    content = read_file(arguments.file, "file", _MAX_FILE_BYTES)
    if not content:
        raise UsageError(f"{arguments.file}: the file is empty")
    if content.startswith(_ZIP_MAGIC):
        from delegate.insight.capture import load_capture

        text = "".join(_capture_text(load_capture(arguments.file)))
    else:
        try:
            text = disassemble_bytes(content)
        except UsageError as error:
            raise UsageError(f"{arguments.file}: {error}") from None
    answer(arguments, {"lines": text.splitlines()}, lambda: print(text, end=""))
    return 0


def _capture_text(capture: Capture) -> Iterator[str]:
    """The tasks of a capture, each under a comment that says which one it is."""
    from delegate.chip.chips import registers_of
    from delegate.npu.disasm import disassemble

    memory = capture.memory()
    for j, job in enumerate(capture.jobs):
        for t, task in enumerate(job.tasks):
            layer = f" {task.layer}" if task.layer else ""
            yield f"# job {j} task {t}{layer}: {task.regcmd_count} words at {task.regcmd:#x}\n"
            size_bytes = task.regcmd_count * _WORD_BYTES
            for buffer in capture.buffers:
                start = task.regcmd - buffer.dma_address
                if start >= 0 and start + size_bytes <= buffer.size:
                    stream = memory[buffer.name][start : start + size_bytes].tobytes()
                    words = struct.unpack(f"<{task.regcmd_count}Q", stream)
                    yield disassemble(words, registers_of(capture.chip))
                    break
            else:
                raise CaptureError(
                    f"{capture.name}: the stream of job {j} task {t} is in no buffer"
                )


def _assemble(arguments: argparse.Namespace) -> int:
    from delegate.npu.disasm import assemble

    try:
        text = read_file(arguments.file, "file", _MAX_FILE_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{arguments.file}: not text") from None
    try:
        words = assemble(text)
    except UsageError as error:
        raise UsageError(f"{arguments.file}: {error}") from None
    write_file(arguments.assemble, struct.pack(f"<{len(words)}Q", *words))
    answer(
        arguments,
        {"words": len(words), "output": str(arguments.assemble)},
        f"wrote {len(words)} words to {arguments.assemble}",
    )
    return 0


COMMAND = Command(
    _run,
    """
disasm: Show command streams as text, or make words of such text.

file FILE:path  a program, a capture (.npz), a file of 64-bit words, or text with --assemble
--assemble OUT:path  the other way: FILE is text, its little-endian words go to OUT

disasm captures/partition_0.npz
disasm stream.bin > stream.txt
disasm stream.txt --assemble stream.bin
""",
)
