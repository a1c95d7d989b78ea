"""Seeds of the simulator's fuzzer from captures.

    python tools/fuzz_seeds.py CAPTURES OUT [--limit N]

A seed holds a capture's command streams and where its buffers lie, not their content; the format is
described in native/fuzz/fuzz_stream.cpp. Captures whose buffers are too large for a short run are
left out, as are jobs behind the first.
"""

from __future__ import annotations

import argparse
import struct
import sys
from pathlib import Path

from delegate.capture import Capture, load_capture

MAX_REGION_BYTES = 4 << 20
MAX_REGIONS = 8
MAX_TASKS = 64


def seed_of(capture: Capture) -> bytes | None:
    """The seed, or None if the capture is too large for one."""
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
    parts = [b"NPU1", struct.pack("<BBH", int(capture.chained), len(regions), len(tasks))]
    parts += [struct.pack("<II", b.dma_address, b.size) for b in regions]
    parts += [struct.pack("<II", t.regcmd, t.regcmd_count) for t in tasks]
    parts.append(capture.contents[first.name].tobytes())
    return b"".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("captures", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--limit", type=int, default=0, help="seeds at most (default 0: all)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    written = 0
    for path in sorted(arguments.captures.glob("*.npz")):
        if arguments.limit and written == arguments.limit:
            break
        seed = seed_of(load_capture(path))
        if seed is None:
            continue
        (arguments.out / f"{path.stem}.seed").write_bytes(seed)
        written += 1
    print(f"{written} seeds in {arguments.out}")
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())
