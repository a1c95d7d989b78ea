"""Collect what a measurement must say about the machine it was made on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from delegate.host.npu_clock import npu_clock_hz
from delegate.host.runtimes import Runtime
from delegate.version import __version__

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_TEMPERATURE = Path("/sys/class/thermal/thermal_zone0/temp")
_MODEL = Path("/proc/device-tree/model")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ") or None
    except OSError:
        return None


def host_facts(runtime: Runtime) -> dict[str, Any]:
    """Versions, processor count, governor, temperature: None where the machine does not tell."""
    temperature = _text(_TEMPERATURE)
    is_number = temperature is not None and temperature.lstrip("-").isdigit()
    return {
        "version": __version__,
        "runtime": runtime.name,
        "runtime_version": runtime.version,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "board": _text(_MODEL),
        "kernel": platform.release(),
        "processors": os.cpu_count(),
        "governor": _text(_GOVERNOR),
        "temperature_celsius": int(temperature) / 1000 if temperature and is_number else None,
        "npu_clock_hz": npu_clock_hz(),
    }
