"""Rates of a chip, and the times that its drivers take, from which time is estimated. Every value
says where it is from; where sources disagree it is a span.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A quantity that lies between ``least`` and ``most``: sources disagree, or bound one side."""

    least: float
    most: float

    @property
    def middle(self) -> float:
        return (self.least + self.most) / 2

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.most + other.most)

    def times(self, factor: float) -> Span:
        """The span of ``factor`` such quantities."""
        return Span(self.least * factor, self.most * factor)


@dataclass(frozen=True, slots=True)
class Driver:
    """A kernel's driver of the NPU. ``kick_us``: launching a task and learning that it is done;
    ``submit_us``: a submit besides its tasks; ``clock_hz``: at which clocks it runs the NPU.
    """

    name: str
    kick_us: Span
    submit_us: Span
    clock_hz: Span


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates that time is estimated from.

    Output pixels are computed ``step_pixels`` at a time and a dense group of int8 takes at least
    ``min_dense_steps`` steps of input lanes per pixel. Bytes per cycle of the NPU, in tenths where
    so named: ``bus`` of one core, ``host`` what the CPU converts. ``memory_bytes_per_us``: the
    bytes that one, two, ... cores together get from memory, whatever the clock of the NPU.
    ``kick_cycles``: what programs are tiled by, whichever driver runs them. ``drivers``: who may
    run the chip's NPU.
    """

    step_pixels: int
    min_dense_steps: int
    bus_decibytes_per_cycle: int
    memory_bytes_per_us: tuple[Span, ...]
    host_bytes_per_cycle: int
    kick_cycles: int
    clock_hz: int
    drivers: tuple[Driver, ...]

    def microseconds(self, cycles: int) -> float:
        """How long cycles take at the nominal clock."""
        return cycles * 1e6 / self.clock_hz
