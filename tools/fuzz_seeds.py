"""Seeds of the simulator's fuzzer from captures, and from the simulator's own test programs.

    python tools/fuzz_seeds.py CAPTURES OUT [--limit N] [--own]

A seed holds a capture's command streams and where its buffers lie, not their content; the format is
described in native/fuzz/fuzz_stream.cpp. --own adds programs of tests/sim, which use more features
than captures do: fp16, tables, pooling, packed pixels, transposed convolution. Captures whose
buffers are too large for a short run are left out, as are jobs behind the first.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delegate.cli.command import natural_number  # noqa: E402
from delegate.insight.capture import Capture, load_capture  # noqa: E402
from tools.script import ScriptParser, existing_folder, run_script  # noqa: E402

MAX_REGION_BYTES = 4 << 20
MAX_REGIONS = 32
MAX_TASKS = 64


def seed_of(capture: Capture) -> bytes | None:
    """Return the seed, or None if the capture is too large for one."""
    tasks = capture.jobs[0].tasks
    first = next(
        (b for b in capture.buffers if b.dma_address <= tasks[0].regcmd < b.dma_address + b.size),
        None,
    )
    if first is None or len(capture.buffers) > MAX_REGIONS or len(tasks) > MAX_TASKS:
        return None
    if any(b.size > MAX_REGION_BYTES for b in capture.buffers):
        return None
    regions = [first, *(b for b in capture.buffers if b is not first)]
    return encode(
        [(b.dma_address, b.size) for b in regions],
        [(t.regcmd, t.regcmd_count) for t in tasks],
        capture.contents[first.name].tobytes(),
        chained=capture.chained,
    )


def encode(
    regions: list[tuple[int, int]], tasks: list[tuple[int, int]], streams: bytes, *, chained: bool
) -> bytes:
    """``streams`` is the content of the first region; regions are (address, bytes), tasks (address,
    words).
    """
    parts = [b"NPU1", struct.pack("<BBH", int(chained), len(regions), len(tasks))]
    parts += [struct.pack("<II", *pair) for pair in (*regions, *tasks)]
    return b"".join((*parts, streams))


def own_seeds() -> dict[str, bytes]:
    from tests.sim.seed_programs import PROGRAMS

    seeds = {}
    for name, program in PROGRAMS.items():
        memory, tasks = program(np.random.default_rng(0))
        buffers = sorted(memory.regions, key=lambda region: region[0] != "regcmd")
        seeds[name] = encode(
            [(address, image.size) for _, address, image in buffers],
            [(address, words) for address, words, _ in tasks],
            memory.bytes("regcmd").tobytes(),
            chained=True,
        )
    return seeds


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("captures", type=existing_folder)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--limit", type=natural_number, default=0, help="seeds at most (default 0: all)"
    )
    parser.add_argument("--own", action="store_true", help="programs of tests/sim, too")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    written = 0
    if arguments.own:
        for name, own in own_seeds().items():
            (arguments.out / f"own_{name}.seed").write_bytes(own)
            written += 1
    for path in sorted(arguments.captures.glob("*.npz")):
        if arguments.limit and written >= arguments.limit:
            break
        seed = seed_of(load_capture(path))
        if seed is None:
            continue
        (arguments.out / f"{path.stem}.seed").write_bytes(seed)
        written += 1
    print(f"{written} seeds in {arguments.out}")
    return 0 if written else 1


if __name__ == "__main__":
    run_script(main)
