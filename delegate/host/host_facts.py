"""Collect what a measurement must say about the machine it was made on.

The NPU's clock, where the kernel tells it. Most of it is in debugfs, which needs root.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from delegate.host.runtimes import Runtime
from delegate.version import __version__

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_TEMPERATURE = Path("/sys/class/thermal/thermal_zone0/temp")
_MODEL = Path("/proc/device-tree/model")


def host_facts(runtime: Runtime) -> dict[str, Any]:
    """Versions, processor count, governor, temperature: None where the machine does not tell."""
    temperature = read_fact(_TEMPERATURE).strip()
    is_number = temperature.lstrip("-").isdigit()
    return {
        "version": __version__,
        "runtime": runtime.name,
        "runtime_version": runtime.version,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "board": read_fact(_MODEL).strip("\0\n ") or None,
        "kernel": platform.release(),
        "processors": os.cpu_count(),
        "governor": read_fact(_GOVERNOR).strip() or None,
        "temperature_celsius": int(temperature) / 1000 if is_number else None,
        "npu_clock_hz": npu_clock_hz(),
    }


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
    return next((hz for hz in map(number_in, _texts(root)) if hz), None)


def autosuspend_ms(root: Path = Path("/")) -> int | None:
    """Return after how long a core that is idle goes to sleep, the shortest of the cores'."""
    folders = (root / "sys/bus/platform/devices").glob("*.npu")
    delays = [number_in(read_fact(folder / "power/autosuspend_delay_ms")) for folder in folders]
    return min((delay for delay in delays if delay is not None), default=None)


def _texts(root: Path) -> Iterator[str]:
    """Yield what may be the rate, the most direct source first."""
    yield from (read_fact(root / place) for place in _CLOCKS)
    for name, rate in _TREE_ROW.findall(read_fact(root / _CLOCK_TREE)):
        if not _BUS_CLOCK.match(name):
            yield rate
    for folder in sorted((root / "sys/class/devfreq").glob("*npu*")):
        yield read_fact(folder / "cur_freq")
    yield from (read_fact(root / place) for place in _VENDOR)


def number_in(text: str) -> int | None:
    """Return the number that a file of the kernel's consists of; None: it does not."""
    return int(text) if re.fullmatch(r"\s*\d{1,18}\s*", text) else None


def read_fact(path: Path) -> str:
    """Return the beginning of a file of the kernel's; "" where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
