"""Read what the delegate's kernels of this process did so far, as the native part counts it.

The counters only grow, from the first delegate to the end of the process. They are of the kernels
inside interpreters: programs that commands run by themselves (``replay``, self-tests) are not
counted.
"""

from __future__ import annotations

from dataclasses import dataclass

_NS_PER_SECOND = 1e9
_COUNTED = 5
"""The counters of a program before its times."""


@dataclass(frozen=True, slots=True)
class ProgramStats:
    """One partition on one device, of all interpreters that run it.

    ``output``: the first tensor it gives, which tells models apart. ``runs`` gave results,
    ``errors`` none; ``repeats`` were done a second time because the driver had reset the NPU.
    ``cpu_runs``: its nodes on the CPU, where they do not compile for the shapes after a resize.
    ``in_place``: tensors that the device itself read or wrote in memory that others share.
    Seconds are sums over ``runs`` (``cpu_s``: over ``cpu_runs``); ``device_s`` is submit and wait.
    """

    device: str
    program: str
    output: str
    runs: int
    errors: int
    repeats: int
    cpu_runs: int
    in_place: int
    input_conversion_s: float
    device_s: float
    output_conversion_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Stats:
    """``inferences``: begun, each graph of each interpreter by itself. ``between_s``: nodes on the
    CPU, and the runtime, between the partitions of an inference; a delegate does not see what runs
    before the first and behind the last (``bench`` measures that). ``verified`` runs were compared
    with the simulator (option ``verify``), ``differences`` of them differed.
    """

    inferences: int
    between_s: float
    verified: int
    differences: int
    programs: tuple[ProgramStats, ...]

    @property
    def runs(self) -> int:
        """Return the runs of all partitions, with results."""
        return sum(program.runs for program in self.programs)

    @property
    def errors(self) -> int:
        """Return the errors of all partitions."""
        return sum(program.errors for program in self.programs)

    @property
    def repeats(self) -> int:
        """Return the repeats of all partitions: runs that a reset of the driver ended."""
        return sum(program.repeats for program in self.programs)

    @property
    def conversion_s(self) -> float:
        """Seconds in which the host laid tensors out for the device, and back."""
        return sum(p.input_conversion_s + p.output_conversion_s for p in self.programs)

    @property
    def device_s(self) -> float:
        """Seconds of submits and waits."""
        return sum(program.device_s for program in self.programs)


def take_stats() -> Stats:
    """The counters of this moment."""
    from delegate._native import run_stats

    inferences, between_ns, verified, differences, programs = run_stats()
    return Stats(
        inferences,
        between_ns / _NS_PER_SECOND,
        verified,
        differences,
        tuple(_program(*program) for program in programs),
    )


def _program(device: str, program: str, output: str, counts: tuple[int, ...]) -> ProgramStats:
    runs, errors, repeats, cpu_runs, in_place = counts[:_COUNTED]
    seconds = [time / _NS_PER_SECOND for time in counts[_COUNTED:]]
    names = device, program, output
    return ProgramStats(*names, runs, errors, repeats, cpu_runs, in_place, *seconds)
