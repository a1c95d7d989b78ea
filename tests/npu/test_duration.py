"""Tests how long programs take: each figure against arithmetic written out here."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.chip.chip import Chip, Driver, Span
from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model
from delegate.host.chosen import drivers_at, drivers_of
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.npu.perf import TaskWork, Work, duration, hull
from delegate.options import Options
from rk3588_conformance.builder import Net, conv_model
from tests.loops import for_each
from tests.shared_folder import MODELS, needs_models

ROCKET, RKNPU = RK3588.rates.drivers


def at(driver: Driver, megahertz: float) -> Driver:
    return replace(driver, clock_hz=Span(megahertz * 1e6, megahertz * 1e6))


def work_us(task: TaskWork, driver: Driver, *, cores: int = 1, chip: Chip = RK3588) -> list[float]:
    span = duration(chip, [Work((task,), 0)], driver, cores).work
    return [span.least, span.most]


@for_each("megahertz, us", [(200, 5000), (600, 5000 / 3), (1000, 1000)])
def test_arithmetic_takes_as_long_as_its_cycles(megahertz: float, us: float) -> None:
    assert work_us(TaskWork(10**6, 0, 0), at(ROCKET, megahertz)) == pytest.approx([us, us])


def test_memory_takes_from_what_the_port_gives_to_what_others_measured() -> None:
    """A million bytes: 23.6 a cycle at best, 9.4 a nanosecond, 17.8 for two cores, 22 for three;
    three together at best the memory's 33.8. A port at 200 MHz gives less than that.
    """
    megabyte = TaskWork(0, 0, 10**6)
    assert work_us(megabyte, at(RKNPU, 1000)) == pytest.approx([1000 / 23.6, 1000 / 9.4])
    assert work_us(megabyte, RKNPU, cores=2) == pytest.approx([2000 / 33.8, 2000 / 17.8])
    assert work_us(megabyte, RKNPU, cores=3) == pytest.approx([3000 / 33.8, 3000 / 22])
    assert work_us(megabyte, at(ROCKET, 200)) == pytest.approx([1000 / 4.72] * 2)


def test_a_task_takes_what_is_longer_and_tasks_add_up() -> None:
    tasks = (TaskWork(10**5, 0, 100), TaskWork(0, 0, 10**6))
    found = duration(RK3588, [Work(tasks, 23_600)], at(RKNPU, 1000)).work
    assert found.least == pytest.approx(100 + 1e6 / 23_600 + 1)
    assert found.most == pytest.approx(100 + (1e6 + 23_600) / 9_400)


def test_the_dpu_alone_counts_at_worst() -> None:
    assert work_us(TaskWork(0, 5000, 16), at(RKNPU, 1000)) == pytest.approx([16 / 23_600, 5])


def test_launches_and_submits_are_the_drivers() -> None:
    """Three programs of two tasks: a kick each of rocket's, a chain each of rknpu's."""
    works = [Work((TaskWork(0, 0, 0),) * 2, 0)] * 3
    rocket, rknpu = (duration(RK3588, works, driver) for driver in (ROCKET, RKNPU))
    assert (rocket.launches, rocket.submits) == (Span(300, 390), Span(0, 60))
    assert (rknpu.launches, rknpu.submits) == (Span(48, 48), Span(300, 501))
    assert rocket.total == rocket.work + rocket.launches + rocket.submits
    assert hull([rocket.total, rknpu.total]) == Span(300, 549)


@pytest.mark.parametrize(
    ("device", "names"),
    [
        ("rocket", ["rocket"]), ("rknpu", ["rknpu"]), ("/dev/accel/accel0", ["rocket"]),
        ("/dev/dri/renderD129", ["rknpu"]), ("simulator", ["rocket", "rknpu"]),
        ("null", ["rocket", "rknpu"]),
    ],
)  # fmt: skip
def test_the_device_names_the_driver_and_without_one_all_count(
    device: str, names: list[str]
) -> None:
    assert [driver.name for driver in drivers_of(device, RK3588)] == names


def test_a_clock_that_was_read_is_that_of_a_driver_alone() -> None:
    (read,) = drivers_at("rocket", RK3588, [600_000_000, 200_000_000])
    assert read == replace(ROCKET, clock_hz=Span(200e6, 600e6))
    (read,) = drivers_at("rocket", RK3588, [900_000_000])
    assert read.clock_hz == Span(900e6, 900e6)
    assert drivers_at("simulator", RK3588, [900_000_000]) == [ROCKET, RKNPU]
    assert drivers_at("rknpu", RK3588, []) == [RKNPU]


def test_work_is_that_of_the_tasks() -> None:
    """A convolution, and an addition of 5 x 7 x 24 that the DPU does alone: 48 pixels at 16 a step,
    a group of 32 channels at 8 a cycle; two operands read, a result written, 16 bytes an atom.
    """
    conv = compile_model(conv_model(np.random.default_rng(0), 4, 4, 3, 8, 3, 3), Options())
    (compiled,) = conv.partitions
    cycles = sum(task.npu_cycles for task in compiled.work.tasks)
    assert (cycles, sum(t.dpu_cycles for t in compiled.work.tasks)) == (
        compiled.estimate.npu_cycles, 0,
    )  # fmt: skip
    assert cycles > 0
    b = Net()
    scaling = Quantization((0.05,), (-3,))
    x, y = (b.input(name, (1, 5, 7, 24), DType.INT8, scaling) for name in "xy")
    z = b.result("ADD", (x, y), "z", (1, 5, 7, 24), scaling, dtype=DType.INT8)
    (compiled,) = compile_model(read_graph(b.build(z)), Options()).partitions
    (task,) = compiled.work.tasks
    assert (task.npu_cycles, task.dpu_cycles, task.bytes) == (0, 48 * 4, 3 * 35 * 2 * 16)
    assert compiled.work.command_bytes > 64 * 8


@needs_models
def test_loads_of_tables_are_tasks_too(weighs: None) -> None:
    result = compile_model(MODELS / "yolov8n_224_int8.tflite", Options())
    (compiled,) = result.partitions
    assert len(compiled.work.tasks) == compiled.tasks > sum(len(i.tasks) for i in compiled.layers)
    assert sum(task.npu_cycles for task in compiled.work.tasks) == compiled.estimate.npu_cycles


@needs_models
@pytest.mark.parametrize(("name", "ms"), [("v1_1.0_224_quant", 5.0), ("v2_1.0_224_quant", 6.8)])
def test_rk3576_takes_what_others_measured_in_one_kick(name: str, ms: float) -> None:
    """Both figures gave the rate of memory, so they agree but for a tenth, waits for arithmetic."""
    options = Options.from_mapping({"chip": "rk3576"}, {})
    result = compile_model(MODELS / f"mobilenet_{name}.tflite", options)
    works = [compiled.work for compiled in result.partitions]
    rknpu = next(driver for driver in RK3576.rates.drivers if driver.name == "rknpu")
    found = duration(RK3576, works, rknpu).total
    assert found.least / 1.1 < ms * 1000 < found.most * 1.1
