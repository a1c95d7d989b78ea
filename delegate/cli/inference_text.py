"""The estimate of a whole inference, as ``compile`` prints it."""

from __future__ import annotations

from typing import Any


def headline(inference: dict[str, Any]) -> list[tuple[str, object]]:
    """Return the lines of a whole inference: its range, by driver and clock, inferences per second,
    and what others measured; headings with texts.
    """
    if not inference["total_us"]:
        return []
    facts: list[tuple[str, object]] = [
        (
            "inference",
            f"{_ms(inference['range_us'])} modelled, of it {inference['cpu_us'] / 1e3:.2f} ms on "
            f"the CPU (alone {inference['cpu_alone_us'] / 1e3:.2f}; {inference['cpu']})",
        ),
        *(
            ("", f"{name} at {_mhz(found['clock_mhz'])}: {_ms(found['range_us'])}")
            for name, found in inference["by_driver"].items()
        ),
    ]
    clocks = [f"{_ms(us)} at {mhz}" for mhz, us in inference["by_clock_mhz"].items()]
    facts.append(("", f"{', '.join(clocks)} MHz"))
    rates = inference["frames_per_second"]
    each = ", ".join(f"{rate:.0f}" for rate in rates.values())
    facts.append(("", f"{each} per second in the middle, with {', '.join(rates)} interpreters"))
    if inference["once_us"]:
        facts.append(("", f"once, the first time: {inference['once_us'] / 1e3:.2f} ms on the CPU"))
    if inference["unmodelled"]:
        facts.append(("not in it", f"{', '.join(inference['unmodelled'])} on the CPU"))
    others = inference["measured_by_others"]
    if others:
        facts.append(("others", f"measured of the same network, {others[0]['network']}:"))
    for found in others:
        facts.append(("", f"{found['chip']} {_span(found['ms'])} ms: {found['conditions']}"))
    return facts


def _ms(range_us: list[float]) -> str:
    return f"{_span([us / 1e3 for us in range_us])} ms"


def _mhz(clocks: list[float]) -> str:
    least, most = clocks
    return f"{least:.0f} MHz" if least == most else f"{least:.0f} to {most:.0f} MHz"


def _span(ends: list[float]) -> str:
    """Return both ends, or the one number that they come to."""
    least, most = (f"{end:.2f}" if end < 10 else f"{end:.1f}" for end in ends)
    return least if least == most else f"{least} to {most}"
