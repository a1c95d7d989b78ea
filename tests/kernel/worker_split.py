"""Programs whose jobs are not what they claim to be: refused before the first submit."""

from __future__ import annotations

import dataclasses

from delegate import _native
from delegate.errors import DeviceError, ProgramError
from delegate.npu.program import Program, parse, serialize
from tests.kernel.small_models import MODELS, programs
from tests.kernel.standin_calls import arguments, calls, live, report, set_faults, take_violations


def retimed(program: Program, epochs: list[int], cores: list[int]) -> Program:
    """The tasks with other epochs and cores, the jobs as they were."""
    tasks = tuple(
        dataclasses.replace(task, epoch=epochs[task.job], core=cores[task.job])
        for task in program.tasks
    )
    return dataclasses.replace(program, tasks=tasks)


def outcome(program: Program, device: str) -> str:
    set_faults()
    try:
        _native.Executable(serialize(program), device=device)
    except (DeviceError, ProgramError) as error:
        return f"{error} SUBMITS {calls().get('SUBMIT', 0)}"
    return "accepted"


def main() -> None:
    given = arguments()
    device = given["device"]
    program = parse(programs(MODELS["digits"](), split_rows="always", cores="0,1")[0])
    jobs = 1 + program.tasks[-1].job
    answer = {
        "as compiled": outcome(program, device),
        # The same jobs one after the other, on alternating cores: right, if slow.
        "one by one": outcome(
            retimed(program, list(range(jobs)), [job % 2 for job in range(jobs)]), device
        ),
        "dependent": [],
    }
    # Every job beside the one before it.
    for job in range(1, jobs):
        epochs = [each if each < job else each - 1 for each in range(jobs)]
        cores = [int(each == job) for each in range(jobs)]
        answer["dependent"].append(outcome(retimed(program, epochs, cores), device))
    answer["live"] = live()
    answer["violations"] = take_violations()
    report(answer)


if __name__ == "__main__":
    main()
