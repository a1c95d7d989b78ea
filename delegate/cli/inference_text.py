"""The estimate of a whole inference, as ``compile`` prints it."""

from __future__ import annotations

from typing import Any, Final

_MOST_OTHERS: Final = 3


def time_lines(inference: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a whole inference takes: its range, by driver and clock, inferences per second,
    and what others measured; headings with texts.
    """
    if not inference["total_us"]:
        return []
    alone = f"{inference['cpu_alone_us'] / 1e3:.2f} ms on the CPU alone"
    if inference["cpu_alone_us"] < inference["range_us"][0]:
        alone += ", which is faster"
    clocks = [f"{_ms(us)} at {mhz}" for mhz, us in inference["by_clock_mhz"].items()]
    rates = inference["frames_per_second"]
    each = ", ".join(f"{rate:.0f}" for rate in rates.values())
    facts = [
        ("time", f"{_ms(inference['range_us'])} per inference, modelled; {alone}"),
        *(
            ("", f"{name} at {_mhz(found['clock_mhz'])}: {_ms(found['range_us'])}")
            for name, found in inference["by_driver"].items()
        ),
        ("", f"{', '.join(clocks)} MHz"),
        ("", f"{each} per second in the middle, with {', '.join(rates)} interpreters"),
    ]
    if inference["once_us"]:
        facts.append(("", f"once, the first time: {inference['once_us'] / 1e3:.2f} ms on the CPU"))
    if inference["unmodelled"]:
        facts.append(("not in it", f"{', '.join(inference['unmodelled'])} on the CPU"))
    return facts + _others(inference["measured_by_others"])


def _others(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what others measured of the same network; the most that are shown, with the rest
    counted.
    """
    if not found:
        return []
    lines = [f"{one['chip']} {_span(one['ms'])} ms: {one['conditions']}" for one in found]
    if len(lines) > _MOST_OTHERS:
        more = f"and {len(lines) - _MOST_OTHERS + 1} more (--json: measured_by_others)"
        lines = [*lines[: _MOST_OTHERS - 1], more]
    return [
        ("others", f"measured of the same network, {found[0]['network']}:"),
        *(("", line) for line in lines),
    ]


def _ms(range_us: list[float]) -> str:
    return f"{_span([us / 1e3 for us in range_us])} ms"


def _mhz(clocks: list[float]) -> str:
    least, most = clocks
    return f"{least:.0f} MHz" if least == most else f"{least:.0f} to {most:.0f} MHz"


def _span(ends: list[float]) -> str:
    """Return both ends, or the one number that they come to."""
    least, most = (f"{end:.2f}" if end < 10 else f"{end:.1f}" for end in ends)
    return least if least == most else f"{least} to {most}"
