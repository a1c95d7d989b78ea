"""Every job of random graphs cut short after every one of its tasks, in runs that follow good ones.

A device whose ``hang_ms`` is 0 ends a job early and says nothing. Only an error may follow, unless
all tasks of the job had run: then the results must be right.
"""

from __future__ import annotations

from typing import Any

from delegate.errors import DeviceError
from delegate.npu.program import parse
from tests.kernel.small_models import MODELS, programs
from tests.kernel.standin_calls import calls, set_faults
from tests.kernel.worker_life import Life
from tests.memory_graphs import memory_graph


class Cuts(Life):
    """One program on the device."""

    def __init__(self, program: bytes, device: str) -> None:
        super().__init__(device, program)
        self.executable = self.load()
        self.tasks = len(parse(program).tasks)

    def reported(self) -> tuple[int, list[str]]:
        """Cuts that gave an error, and what went wrong with the others."""
        count, wrong = 0, []
        set_faults()
        if not self.is_right(self.executable):
            return 0, ["wrong without a fault"]
        submits = calls()["SUBMIT"]
        for submit in range(1, submits + 1):
            for done in range(self.tasks + 1):
                # What an earlier run left differs from what this one computes.
                set_faults()
                self.executable.run(self.inputs[1])
                set_faults(f"SUBMIT@{submit}=hang:{done}")
                try:
                    right = self.is_right(self.executable)
                except DeviceError:
                    count += 1
                    continue
                if not right:
                    wrong.append(f"submit {submit} of {submits} after {done} tasks")
                break
        return count, wrong


def work(device: str, graphs: list[int], models: list[str]) -> dict[str, Any]:
    contents = [(name, MODELS[name]()) for name in models]
    contents += [(str(number), memory_graph(number)) for number in range(*graphs)]
    found = {"cuts": 0, "tasks": 0, "submits": 0, "programs": 0}
    wrong = []
    for name, model in contents:
        for program in programs(model):
            cuts = Cuts(program, device)
            count, failures = cuts.reported()
            found["programs"] += 1
            found["tasks"] += cuts.tasks
            found["cuts"] += count
            wrong += [f"model {name}: {failure}" for failure in failures]
            if count != cuts.tasks and not failures:
                wrong.append(f"model {name}: {count} cuts of {cuts.tasks} tasks")
    set_faults()
    return {**found, "wrong": wrong}
