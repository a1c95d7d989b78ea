"""The NPU's clock, where the kernel tells it. Most of it is in debugfs, which needs root."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

SLOW_MHZ = 300
"""Below it the clock is that after boot, 200 MHz; vendor kernels use no less under load."""

_LARGEST_FILE_BYTES = 1 << 20
_CLOCKS = (
    "sys/kernel/debug/clk/scmi_clk_npu/clk_rate",
    "sys/kernel/debug/clk/clk_npu_dsu0/clk_rate",
)
_CLOCK_TREE = "sys/kernel/debug/clk/clk_summary"
_TREE_ROW = re.compile(r"^ *(\S+) +\d+ +\d+ +\d+ +(\d{1,12}) .*\.npu\b", re.MULTILINE)
"""A clock's name, three counts, its rate, and further on a device that uses it: fdab0000.npu."""
_BUS_CLOCK = re.compile("aclk|hclk|pclk")
_VENDOR = ("sys/kernel/debug/rknpu/freq", "proc/rknpu/freq")


def clocks_hz(root: Path = Path("/")) -> list[int]:
    """Return the clock as a list, empty where nothing tells it."""
    clock = npu_clock_hz(root)
    return [] if clock is None else [clock]


def npu_clock_hz(root: Path = Path("/")) -> int | None:
    """Return the clock in Hz at this moment. Mainline boots at 200 MHz; a kernel that raises it
    returns there when a core has been idle for 50 ms, for all cores.
    """
    return next((hz for hz in map(_number, _texts(root)) if hz), None)


def autosuspend_ms(root: Path = Path("/")) -> int | None:
    """Return after how long a core that is idle goes to sleep, the shortest of the cores'."""
    folders = (root / "sys/bus/platform/devices").glob("*.npu")
    delays = [_number(_read(folder / "power/autosuspend_delay_ms")) for folder in folders]
    return min((delay for delay in delays if delay is not None), default=None)


def _texts(root: Path) -> Iterator[str]:
    """Yield what may be the rate, the most direct source first."""
    yield from (_read(root / place) for place in _CLOCKS)
    for name, rate in _TREE_ROW.findall(_read(root / _CLOCK_TREE)):
        if not _BUS_CLOCK.match(name):
            yield rate
    for folder in sorted((root / "sys/class/devfreq").glob("*npu*")):
        yield _read(folder / "cur_freq")
    yield from (_read(root / place) for place in _VENDOR)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*\d{1,12}\s*", text) else None


def _read(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST_FILE_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
