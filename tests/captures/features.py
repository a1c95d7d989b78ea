"""Finds what recorded programs make use of.

A feature is a register field with its value (exact up to five bits, beyond that its sign), the
number of jobs and tasks, the proportions of the output, the rest of its channels by 32; all but
the split of CBUF and that rest are counted for dense and for depthwise convolutions apart.
"""

from pathlib import Path

from delegate.insight.capture import Capture, load_capture
from delegate.npu.regcmd import Command, unpack_word

Feature = tuple[str, ...]

_EXACT_BITS = 5


def features(path: Path) -> frozenset[Feature]:
    """Every feature of the programs in the capture ``path``."""
    capture = load_capture(path)
    found = _proportions(capture)
    apart: set[Feature] = set()
    for words in task_words(capture):
        for word in words:
            command = unpack_word(word)
            place = apart if command.register and command.register.name == "CBUF_CON0" else found
            place |= _fields(command, word)
    kind = "depthwise" if ("CNA.CONV_CON1.CONV_MODE", "3") in found else "dense"
    for check in capture.checks:
        apart.add(("output channels modulo 32", str(check.shape_nchw[1] % 32)))
    return frozenset(found | apart | {(*feature, kind) for feature in found})


def task_words(capture: Capture) -> list[list[int]]:
    """The command words of each task, tails included."""
    memory = capture.memory()
    streams = []
    for task in (task for job in capture.jobs for task in job.tasks):
        for buffer in capture.buffers:
            start = task.regcmd - buffer.dma_address
            if 0 <= start < buffer.size:
                data = memory[buffer.name][start : start + 8 * task.regcmd_count]
                streams.append([int(word) for word in data.view("<u8")])
    assert len(streams) == sum(len(job.tasks) for job in capture.jobs)
    return streams


def _fields(command: Command, word: int) -> set[Feature]:
    if command.register is None:
        return {("word of target", hex(word >> 48))}
    found = set()
    for field in command.register.fields:
        raw, value = (command.value & field.mask) >> field.lo, field.decode(command.value)
        if command.register.is_address:
            text = "an address"
        elif field.hi - field.lo < _EXACT_BITS:
            text = str(raw)
        else:
            text = "0" if raw == 0 else "negative" if value < 0 else "positive"
        found.add((f"{command.register.full_name}.{field.name}", text))
    return found


def _proportions(capture: Capture) -> set[Feature]:
    tasks = [len(job.tasks) for job in capture.jobs]
    found = {("jobs", "one" if len(tasks) == 1 else "several")}
    found |= {("tasks of a job", "one" if count == 1 else "several") for count in tasks}
    for check in capture.checks:
        _, _, height, width = check.shape_nchw
        found.add(("output", "square" if height == width else "wide" if width > height else "tall"))
    return found
