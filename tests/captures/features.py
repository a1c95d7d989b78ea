"""Finds what recorded programs make use of, and selects programs that leave nothing out.

A feature is a register field with its value (exact up to five bits, beyond that its sign), the
number of jobs and tasks, the proportions of the output, the rest of its channels by 32; all but
the split of CBUF and that rest are counted for dense and for depthwise convolutions apart.

``python -m tests.captures.features`` chooses anew from ../shared/captures, replaces the files in
``recorded`` and writes the table of its README.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from delegate.insight.capture import Capture, load_capture
from delegate.npu.regcmd import Command, unpack_word
from tests.shared_folder import RECORDED, SHARED

Feature = tuple[str, ...]

LIMIT_BYTES = 3_000_000
PAGE = RECORDED / "README.md"
BEGIN = "<!-- features: begin -->\n"
_EXACT_BITS = 5
_ROUNDS = 300


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
        elif field.width <= _EXACT_BITS:
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


def choose(having: Mapping[Path, frozenset[Feature]]) -> list[Path]:
    """The smallest selection with all features that many greedy searches find."""
    rng = random.Random(0)
    everything = frozenset[Feature]().union(*having.values())
    sizes = {path: path.stat().st_size for path in having}
    return min(
        (_greedy(having, everything, sizes, rng) for _ in range(_ROUNDS)),
        key=lambda chosen: sum(sizes[path] for path in chosen),
    )


def _greedy(
    having: Mapping[Path, frozenset[Feature]],
    everything: frozenset[Feature],
    sizes: Mapping[Path, int],
    rng: random.Random,
) -> list[Path]:
    chosen: list[Path] = []
    left = set(everything)
    taste = rng.uniform(0.5, 2)
    while left:
        worth = {
            path: (len(found & left) / sizes[path]) ** taste * rng.uniform(0.3, 1)
            for path, found in having.items()
        }
        best = max(worth, key=worth.__getitem__)
        chosen.append(best)
        left -= having[best]
    for path in sorted(chosen, key=lambda path: -sizes[path]):
        others = [having[other] for other in chosen if other != path]
        if frozenset[Feature]().union(*others) == everything:
            chosen.remove(path)
    return sorted(chosen)


def table(everyone: Mapping[Path, frozenset[Feature]], names: frozenset[str]) -> str:
    """Markdown: features that not every capture has, with how many of all and of ``names`` do.

    What is counted by the kind of convolution is left out of it, for the sake of its length.
    """
    common = frozenset.intersection(*everyone.values())
    of_all = Counter(feature for found in everyone.values() for feature in found - common)
    of_chosen = Counter(
        feature for path, found in everyone.items() if path.name in names for feature in found
    )
    rows = [
        f"| Feature | Value | Of {len(everyone)} | Of {len(names)} |",
        "| --- | --- | --- | --- |",
    ]
    for feature in sorted(of_all):
        if len(feature) == 2:
            name, value = feature
            rows.append(f"| `{name}` | {value} | {of_all[feature]} | {of_chosen[feature]} |")
    return "\n".join(rows) + "\n"


def page(everyone: Mapping[Path, frozenset[Feature]], names: frozenset[str]) -> str:
    """The README of the selection as it should be."""
    return PAGE.read_text(encoding="utf-8").split(BEGIN)[0] + BEGIN + table(everyone, names)


def main() -> None:
    """Replaces the selection and its table."""
    everyone = {path: features(path) for path in sorted((SHARED / "captures").glob("*.npz"))}
    chosen = choose(everyone)
    assert sum(path.stat().st_size for path in chosen) <= LIMIT_BYTES
    for old in RECORDED.glob("*.npz"):
        old.unlink()
    for path in chosen:
        (RECORDED / path.name).write_bytes(path.read_bytes())
    PAGE.write_text(page(everyone, frozenset(path.name for path in chosen)), encoding="utf-8")


if __name__ == "__main__":
    main()
