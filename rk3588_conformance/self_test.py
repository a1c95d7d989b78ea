"""Small programs that show whether an NPU computes what the simulator computes.

Comes in: options that name a device. Goes out: results case by case, from the program that asks
least of the hardware to the one that asks most. Every case is compiled in memory from a graph with
fixed random weights, runs on the device and on the simulator, and must give the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import PROVED, Chip
from delegate.errors import DelegateError, DeviceError
from delegate.insight.doctor import SelfTest, why_not
from rk3588_conformance.self_test_cases import Case, cases_of

if TYPE_CHECKING:
    from delegate.options import Options


@dataclass(frozen=True, slots=True)
class Step:
    """One case as it went; ``error`` is None for one that passed. ``forms``: names of those that
    the tasks of a self-test have; ``proofs``: what a board proves that passes it
    (``delegate.npu.evidence.proofs``).
    """

    kind: str
    name: str
    passed: bool
    tasks: int
    error: str | None = None
    forms: tuple[str, ...] = ()
    proofs: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "proofs"}


def run_case(case: Case, options: Options, chip: Chip) -> Step:
    """Runs one case twice on the device of ``options``, which is of ``chip``: the second run finds
    what the first left behind. A board keeps what came of it (``board_record``).
    """
    from delegate._native import Executable
    from delegate.compile.compiler import compile_model
    from delegate.npu.evidence import proofs
    from delegate.npu.program_reader import parse
    from delegate.options import Options as AllOptions

    tasks = 0
    error: str | None = None
    forms: tuple[str, ...] = ()
    proved: dict[str, str] = {}
    try:
        # However small the part of a case that the NPU takes.
        chosen = {"numerics": case.numerics, "float": case.float, "deny_ops": ""}
        tried = replace(chip, proved={**chip.proved, **dict.fromkeys(case.tries, PROVED)})
        result = compile_model(case.build(), AllOptions.from_mapping(chosen, {}), chip=tried)
        programs = [parse(compiled.program) for compiled in result.partitions]
        found = (name for one in programs for task in one.tasks for name in task.form.split())
        forms = tuple(dict.fromkeys(found))
        for one in programs:
            proved |= proofs(chip, one)
        for compiled in result.partitions:
            tasks += compiled.tasks
            program = compiled.program
            error = error or why_not(program, options)
            if error is not None:
                continue
            executable = Executable(program, options.device, options.timeout_ms)
            simulator = Executable(program, "simulator")
            for seed in range(2):
                rng = np.random.default_rng(seed)
                inputs = [_random(rng, shape, kind) for _, _, shape, kind in simulator.inputs]
                pairs = zip(executable.run(inputs), simulator.run(inputs), strict=True)
                for ours, expected in pairs:
                    wrong = int(np.count_nonzero(ours != expected))
                    if wrong and error is None:
                        error = f"{wrong} of {expected.size} elements differ from the simulator"
        if tasks == 0:
            error = "nothing was compiled for the NPU"
    except (DeviceError, DelegateError) as problem:
        error = str(problem)
    return Step("self-test", case.name, error is None, tasks, error, forms, proved)


def _random(
    rng: np.random.Generator, shape: tuple[int, ...], kind: np.dtype[Any]
) -> npt.NDArray[Any]:
    if kind.kind == "f":
        return rng.uniform(-1, 1, shape).astype(kind)
    ends = np.iinfo(kind)
    return rng.integers(ends.min, ends.max, shape, kind, endpoint=True)


def run_cases(options: Options, chip: Chip) -> Iterator[Step]:
    """Results in the order of ``cases_of(chip)``, ending with the first failure: what comes after
    it asks more of the hardware than what failed.
    """
    for case in cases_of(chip):
        result = run_case(case, options, chip)
        yield result
        if not result.passed:
            return


def form_table(results: Iterable[Step]) -> list[dict[str, Any]]:
    """Return what ``results`` say of every form that their tasks have: ``here`` is "agreed" if a
    case with it gave the simulator's bytes, "suspect" if all that have it failed.
    """
    cases: dict[str, list[Step]] = {}
    for step in results:
        for name in step.forms:
            cases.setdefault(name, []).append(step)
    return [
        {
            "form": name,
            "here": "agreed" if any(step.passed for step in steps) else "suspect",
            "cases": [step.name for step in steps],
        }
        for name, steps in cases.items()
    ]


def run_self_test(options: Options) -> SelfTest:
    """Run every case on the device of ``options``, about a second in all."""
    from delegate._native import open_device_name
    from delegate.host.chosen import chosen_chip

    start = time.perf_counter()
    try:
        device = open_device_name(options.device)
    except DeviceError as error:
        return SelfTest(options.device, False, 0, time.perf_counter() - start, str(error))
    if device == "null":
        return SelfTest(device, True, 0, 0.0, None)
    chip = chosen_chip(options)
    results = list(run_cases(options, chip))
    problem = next((f"{r.name}: {r.error}" for r in results if not r.passed), None)
    passed = problem is None and len(results) == len(cases_of(chip))
    seconds = time.perf_counter() - start
    forms = tuple(form_table(results))
    return SelfTest(device, passed, len(results), seconds, problem, forms)
