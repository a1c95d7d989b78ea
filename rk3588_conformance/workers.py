"""Runs cases in processes and gives outcomes in the order of names. A case that kills its process
or takes too long fails with what happened, and the others go on.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

from delegate.host.chosen import chosen_chip
from delegate.host.workers import Failure, in_order, spread
from delegate.options import Options
from rk3588_conformance.outcome import Outcome, Status

Work = Callable[[str], Outcome]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that a process needs to run cases. ``timeout_s``: for one case."""

    models: Path | None
    options: dict[str, str]
    timeout_s: float

    def work(self) -> Work:
        from rk3588_conformance.execution import run_case
        from rk3588_conformance.skips import judge, known_skips, read_skips

        options = Options.from_mapping(self.options)
        skips = read_skips()
        known = known_skips(chosen_chip(options).name, options.numerics)
        return lambda name: judge(run_case(name, self.models, options), skips, known)


def run_in_processes(
    names: list[str], settings: Settings, jobs: int
) -> Generator[Outcome, None, None]:
    """Outcomes in the order of ``names``. One job runs in this process."""
    if jobs == 1:
        yield from map(settings.work(), names)
        return
    found = spread(settings.work, names, min(jobs, len(names)), settings.timeout_s)
    for name, outcome in zip(names, in_order(found), strict=True):
        yield _failed(name, outcome) if isinstance(outcome, Failure) else outcome


def _failed(name: str, failure: Failure) -> Outcome:
    label = name.partition(".")[0]
    elapsed = round(failure.seconds * 1000)
    return Outcome(name, label, Status.FAILED, failure.text, milliseconds=elapsed)
