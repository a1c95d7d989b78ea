"""Programs that rely on nothing that the chip would have to keep between two kicks of a job."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delegate import _native
from delegate.compile import compiler
from delegate.compile.compiler import compile_model
from delegate.errors import DelegateError
from delegate.insight.capture import Capture, read_tensor
from delegate.insight.program_capture import capture_of_program
from delegate.lower.lowered import Layer, LoweredPartition
from delegate.lower.lowering import lower_partition
from delegate.lower.task import ConvTask
from delegate.npu.program_reader import parse
from delegate.npu.rk3588.encoder import LOAD_WORDS
from delegate.options import Options
from tests.kernel.small_models import MODELS, random_inputs
from tests.shared_folder import MODELS as SHARED_MODELS
from tests.shared_folder import needs_models

REAL = [
    SHARED_MODELS / f"{name}.tflite"
    for name in (
        "mobilenet_v1_0.25_128_quant",
        "resnet8_cifar10_int8",
        "visual_wake_words_96_int8",
        "yolo_fastest_160_person_int8",
    )
]


EXACT = Options.from_mapping({"numerics": "exact"}, {})


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every task fetch its own weights."""

    def lowered(*given: Any, **named: Any) -> LoweredPartition:
        found = lower_partition(*given, **named)
        return replace(found, layers=tuple(map(with_own_weights, found.layers)))

    monkeypatch.setattr(compiler, "lower_partition", lowered)


def with_own_weights(layer: Layer) -> Layer:
    tasks = (
        replace(task, weight_reuse=False) if isinstance(task, ConvTask) else task
        for task in layer.tasks
    )
    return replace(layer, tasks=tuple(tasks))


def captures(model: bytes | Path) -> list[Capture]:
    """The model's partitions with random inputs, and the simulator's results of one run."""
    found = []
    for compiled in compile_model(model, EXACT).partitions:
        executable = _native.Executable(compiled.program, device="simulator")
        inputs = random_inputs(executable, 1)
        found.append(
            capture_of_program(parse(compiled.program), inputs, executable.run(inputs), "kicks")
        )
    return found


def results_of_a_forgetful_chip(capture: Capture) -> bool:
    """Every task on a chip that has just been reset, but for the DPU's tables, which the job's last
    load filled; whether the results are those of one run.
    """
    images = capture.memory()
    regions = [(b.name, b.dma_address, images[b.name]) for b in capture.buffers]
    for job in capture.jobs:
        kept: list[tuple[int, int, str]] = []
        for task in job.tasks:
            kick = (task.regcmd, task.regcmd_count, "")
            if task.regcmd_count == LOAD_WORDS:
                kept = [kick]
            _native.simulate(regions, [[*kept, kick]])
    return all(
        np.array_equal(read_tensor(check, images[check.buffer]), capture.expected[check.expected])
        for check in capture.checks
    )


def reuses(model: bytes | Path) -> int:
    """Tasks that take weights from CBUF."""
    result = compile_model(model, EXACT)
    return sum(
        isinstance(task, ConvTask) and task.weight_reuse
        for compiled in result.partitions
        for layer in compiled.layers
        for task in layer.tasks
    )


@pytest.mark.parametrize("name", MODELS)
def test_programs_run_where_every_kick_forgets(name, request):
    model = MODELS[name]()
    trusting = captures(model)
    request.getfixturevalue("nothing_kept")
    assert reuses(model) == 0
    for capture, other in zip(captures(model), trusting, strict=True):
        assert results_of_a_forgetful_chip(capture)
        for check, its in zip(capture.checks, other.checks, strict=True):
            np.testing.assert_array_equal(
                capture.expected[check.expected], other.expected[its.expected]
            )


@needs_models
@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_models_run_where_every_kick_forgets(path):
    assert all(results_of_a_forgetful_chip(capture) for capture in captures(path))


def test_a_forgetful_chip_is_noticed():
    """The test can fail: a program that trusts the chip does not run there."""
    model = MODELS["tiled conv"]()
    assert reuses(model) > 0
    (capture,) = captures(model)
    with pytest.raises(DelegateError, match=r"WEIGHT_REUSE"):
        results_of_a_forgetful_chip(capture)
