"""Counters of tasks and explanations of elements."""

import json
import resource
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import CompiledPartition, compile_model
from delegate.errors import UsageError
from delegate.insight import simulated_run as simulator
from delegate.insight.capture import Capture, CaptureBuffer, CaptureCheck, CaptureJob, CaptureTask
from delegate.insight.simulated_run import count_program
from delegate.npu.program_reader import parse
from delegate.options import Options
from rk3588_conformance.generated.campaign import in_child
from tests.loops import for_each
from tests.sim import oracle
from tests.sim import programs as p
from tests.sim import stream as s
from tests.sim.test_float_oracle import half_sigmoid
from tests.sim.test_lut import sigmoid_tables, upload
from tests.sim.wide_programs import MAX, pool_registers

MOST_WRITES = 256  # that explanations keep


def capture_of(memory: s.Memory, tasks: list[tuple[int, int, str]], shape: tuple) -> Capture:
    """A capture of the run whose check is the buffer "output"."""
    ran = memory.copy()
    s.run(ran, tasks)
    c, h, w = shape
    surfaces = ran.bytes("output").view(np.int8).reshape(-1, h * w, 16)
    nchw = np.stack([surfaces[i // 16, :, i % 16].reshape(h, w) for i in range(c)])[None]
    return Capture(
        name="test",
        buffers=tuple(CaptureBuffer(n, a, b.size) for n, a, b in memory.regions),
        contents={n: b for n, _, b in memory.regions},
        jobs=(CaptureJob(tuple(CaptureTask(a, n, layer) for a, n, layer in tasks)),),
        checks=(CaptureCheck("output", 0, (1, c, h, w), h * w, "expected_0"),),
        expected={"expected_0": nchw},
    )


CONV = p.Conv(c=40, oc=37, h=9, w=7, oh=9, ow=7, blocks=True, mul_shift=14, mul_shift_negative=14,
            fused=True, registers={s.BN_CFG: 0x12})  # fmt: skip


def conv_capture(t: p.Conv = CONV) -> tuple[Capture, oracle.Tensors, s.Registers]:
    memory, program = s.Memory(), s.Program()
    data = p.random_tensors(np.random.default_rng(6), t)
    r = p.conv_registers(t, memory, data)
    program.add(r)
    return capture_of(memory, program.place(memory), (t.oc, t.oh, t.ow)), data, r


@for_each("element", [(0, 0, 0), (20, 8, 6), (36, 4, 3)])
def test_every_stage_of_a_convolution(element):
    capture, data, r = conv_capture()
    trace = simulator.explain(capture, "expected_0", element).writes[-1]
    assert trace.element == element
    assert trace.output == capture.expected["expected_0"][(0, *element)]
    acc, sums = (x[element] for x in oracle.accumulate(CONV, data))
    assert trace.value("CORE.sum of products") == acc
    assert trace.value("CORE.sum of inputs") == sums
    finished = acc + sums * data.ow[element[0]]
    assert trace.value("CORE.accumulator") == finished
    alu = finished + data.alu[element[0]]
    assert trace.value("BS.ALU") == alu
    product = np.array([alu * data.mul[element[0]]])
    assert trace.value("BS.MUL") == oracle.sat32(oracle.half_even(product, 14))[0]
    assert trace.value("BN.RELU") == max(trace.value("BS.MUL"), 0)
    assert trace.value("EW.operand") == data.ew[element]
    assert trace.value("EW") == trace.value("BN.RELU") + trace.value("EW.converted operand")
    clipped = np.clip(trace.value("OUT_CVT.with offset"), -128, 127)
    assert clipped == trace.output
    assert trace.register("DPU.OUT_CVT_SCALE") == r[s.OUT_SCALE]
    assert dict(trace.groups) == {"CNA": 0, "CORE": 0, "DPU": 0, "DPU_RDMA": 0}


def test_text_names_task_stage_and_registers():
    capture, _, _ = conv_capture()
    explanation = simulator.explain(capture, 0, (1, 2, 3))
    text = explanation.text()
    assert "task 0 (layer0): channel 1, row 2, column 3" in text
    assert "CORE.accumulator" in text
    assert "DPU.OUT_CVT_SCALE" not in text
    assert "DPU.OUT_CVT_SCALE = 0x4abc" in explanation.text(registers=True)


def test_pooling_shows_its_window():
    x = np.random.default_rng(0).integers(-128, 128, (16, 6, 5)).astype(np.int8)
    memory, program = s.Memory(), s.Program()
    r = pool_registers(memory, p.to_surfaces(x, 30), (16, 6, 5), (3, 3), method=MAX, kernel=(2, 2),
                       stride=(2, 2), pads=(0, 0, 0, 1))  # fmt: skip
    program.add(r, s.POOL)
    capture = capture_of(memory, program.place(memory), (16, 3, 3))
    trace = simulator.explain(capture, 0, (9, 2, 2)).writes[0]
    assert trace.value("PPU.input at 4, 4") == x[9, 4, 4]
    assert trace.value("PPU.input at 5, 5 (padding)") == 0
    assert trace.output == max(x[9, 4, 4], x[9, 5, 4])


def test_unknown_tensors_and_elements():
    capture, _, _ = conv_capture()
    with pytest.raises(UsageError, match="it has: 0 \\(expected_0\\)"):
        simulator.explain(capture, "expected_9", (0, 0, 0))
    with pytest.raises(UsageError, match="9 rows, 7 columns and 37 channels"):
        simulator.explain(capture, 0, (37, 0, 0))


def test_counters_of_a_convolution():
    capture, _, _ = conv_capture()
    (task,) = simulator.count(capture)
    assert task.enable_mask == 0x1D
    assert task.macs == 63 * 9 * 48 * 38
    assert task.feature_bytes == 63 * 48
    assert task.weight_bytes == 9 * 48 * 38
    assert task.written_bytes == 63 * 64
    # BS blocks by BRDMA, even surfaces of a combined operand by MRDMA, the odd one by ERDMA.
    assert (task.brdma_bytes, task.nrdma_bytes) == (5 * 64, 0)
    assert (task.mrdma_bytes, task.erdma_bytes) == (2 * 63 * 16, 63 * 16)
    assert task.operand_bytes == 5 * 64 + 3 * 63 * 16
    assert task.cbuf_data_bytes == -(-7 * 48 // 64) * 64 * 9
    assert task.npu_cycles == 64 * 2 * (9 * 2)
    moved = task.feature_bytes + task.weight_bytes + task.written_bytes + task.operand_bytes
    assert task.ddr_cycles == -(-moved * 10 // 236)
    assert task.cycles == task.as_dict()["cycles"] == max(task.npu_cycles, task.ddr_cycles)
    assert task.data_banks + task.weight_banks == 12
    held = task.cbuf_data_bytes + task.cbuf_weight_bytes
    assert task.cbuf_fill == held / (12 * 32768)


def test_counters_of_other_tasks():
    rng = np.random.default_rng(0)
    memory, program = s.Memory(), s.Program()
    depthwise = p.Conv(c=70, depthwise=True, h=8, w=6, oh=8, ow=6)
    program.add(p.conv_registers(depthwise, memory, p.random_tensors(rng, depthwise)))
    flying = p.Elementwise(c=32, second="pixel")
    data = p.random_elementwise(rng, flying)
    program.add(p.elementwise_registers(flying, memory, data, "1"), s.FLYING)
    x = p.to_surfaces(np.zeros((16, 6, 5), np.int8), 30)
    pool = pool_registers(memory, x, (16, 6, 5), (3, 2), method=MAX, kernel=(2, 2),
                          stride=(2, 2), tag="2")  # fmt: skip
    program.add(pool, s.POOL)
    capture = capture_of(memory, program.place(memory), (70, 8, 6))
    first, second, third = simulator.count(capture)
    assert (first.macs, first.npu_cycles) == (48 * 9 * 80, 48 * 9 * 2)
    assert (second.macs, second.operand_bytes, second.written_bytes) == (0, 2 * 1120, 1120)
    assert (third.feature_bytes, third.written_bytes, third.layer) == (480, 96, "layer2")


def test_counting_computes_nothing():
    """Values do not matter: memory of zeros gives the same counters."""
    capture, _, _ = conv_capture()
    blank = replace(
        capture,
        contents={n: b if n == "regcmd" else np.zeros_like(b) for n, b in capture.contents.items()},
    )
    assert simulator.count(blank) == simulator.count(capture)


@for_each("element", [(0, 0, 0), (20, 8, 6), (36, 4, 3)])
def test_an_element_of_a_task(element):
    """The same element by the task that writes it and by its place in the output tensor."""
    capture, _, _ = conv_capture()
    assert simulator.explain_task(capture, 0, element) == simulator.explain(capture, 0, element)


def test_channels_of_padding_can_be_explained():
    capture, _, _ = conv_capture()
    (trace,) = simulator.explain_task(capture, 0, (37, 0, 0)).writes
    assert [stage for stage, _ in trace.values][-1] == "DPU.OFFSET_PEND"


@for_each(
    "task, element",
    [
        (1, (0, 0, 0)),
        (0, (64, 0, 0)),
        (0, (0, 9, 0)),
        (0, (0, 0, 7)),
        (-1, (0, 0, 0)),
        (0, (0, 0, 1 << 40)),
    ],
)
def test_unknown_elements_of_tasks(task, element):
    capture, _, _ = conv_capture()
    with pytest.raises(UsageError):
        simulator.explain_task(capture, task, element)


def repeated_capture(times: int) -> Capture:
    """One small task that runs ``times`` times."""
    capture, _, _ = conv_capture(p.Conv(c=16, oc=16, h=1, w=1, oh=1, ow=1))
    (job,) = capture.jobs
    return replace(capture, jobs=(CaptureJob(job.tasks * times),))


@for_each("times", [1, 255, 256, 257, 600])
def test_the_last_writes_of_an_element_are_kept_and_the_others_counted(times: int) -> None:
    explanation = simulator.explain(repeated_capture(times), 0, (3, 0, 0))
    kept = min(times, MOST_WRITES)
    assert [write.task for write in explanation.writes] == list(range(times - kept, times))
    assert explanation.earlier == times - kept


def test_an_explanation_takes_bounded_memory() -> None:
    """Each write has all registers of its task: without a bound that fills memory."""

    def peak_kilobytes(times: int) -> int:
        capture = repeated_capture(times)
        simulator.explain(capture, 0, (3, 0, 0))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    few, many = (in_child(partial(peak_kilobytes, times), 120).value for times in (600, 12_000))
    assert many - few < 48_000


DIGITS = Path(__file__).resolve().parents[2] / "models" / "digits" / "digits_int8.tflite"


@pytest.fixture(scope="module")
def digits() -> CompiledPartition:
    """Its layers of convolutions and additions: those give images."""
    return compile_model(DIGITS, Options(deny_ops=("10", "11"))).partitions[0]


def test_counters_of_our_own_programs_agree_with_the_compiler(digits):
    """Two independent counts of the same tasks: the compiler's from tiles, ours from registers."""
    layers = count_program(digits.program)
    joined = [(0,), (1,), (2,), (3,), (4,), (5,), (6, 7), (8,), (9,)]  # the ADD in its convolution
    assert [layer.layer.nodes for layer in layers] == joined
    for layer in layers:
        assert len(layer.counters) == len(layer.tasks)
        for task, counters in zip(layer.tasks, layer.counters, strict=True):
            assert counters.enable_mask == task.enable_mask
            assert counters.npu_cycles == task.npu_cycles
            # The compiler leaves out BS operands, which are few.
            moved = counters.feature_bytes + counters.weight_bytes + counters.written_bytes
            moved += counters.mrdma_bytes + counters.erdma_bytes
            groups = 64 if layer.layer.op == "DEPTHWISE_CONV_2D" else 32
            if layer.layer.op == "ADD":
                assert moved == task.bytes
            else:
                # It counts channels up to whole surfaces, the DPU writes whole groups of them.
                assert task.bytes <= moved <= task.bytes * groups // 16
        total = layer.total()
        assert total["macs"] == sum(c.macs for c in layer.counters)
        assert total["cycles"] == sum(c.cycles for c in layer.counters)
        assert 0 <= total["cbuf_fill"] <= 1


def test_own_programs_are_explained(digits):
    program = parse(digits.program)
    (binding,) = program.inputs
    inputs = [np.random.default_rng(4).integers(-128, 128, binding.shape).astype(np.int8)]
    (output,) = Executable(digits.program, "simulator").run(inputs)
    rng = np.random.default_rng(5)
    for _ in range(10):
        h, w, c = (int(rng.integers(0, n)) for n in output.shape[1:])
        explanation = simulator.explain(program, 0, (c, h, w), inputs=inputs)
        assert explanation.writes[-1].output == output[0, h, w, c]
        assert explanation.writes[-1].address == explanation.address
        last = explanation.writes[-1]
        again = simulator.explain_task(program, last.task, last.element, inputs=inputs)
        assert again.writes == (last,)


def test_a_program_is_not_explained_without_inputs(digits):
    with pytest.raises(UsageError, match="inputs"):
        simulator.explain(parse(digits.program), 0, (0, 0, 0))


def test_floating_point_stages_with_tables():
    """fp16: what the table gives and what OUT_CVT makes of it, also where a value is no number."""
    c, pixels = 8, 3
    x = np.array([[-2.5, 0.75, np.nan]] * c, np.float16)
    memory, program = s.Memory(), s.Program()
    le, lo = sigmoid_tables()
    upload(memory, program, le, lo)
    r, _ = half_sigmoid(memory, x.reshape(c, 1, pixels), c)
    program.add(r, s.FLYING, pointer=s.CLEAR)
    tasks = program.place(memory)
    contents = {n: b.copy() for n, _, b in memory.regions}
    s.run(memory, tasks, chained=True)
    written = memory.bytes("output").view(np.float16).reshape(pixels, c)
    capture = Capture(
        name="half",
        buffers=tuple(CaptureBuffer(n, a, b.size) for n, a, b in memory.regions),
        contents=contents,
        jobs=(CaptureJob(tuple(CaptureTask(a, n, layer) for a, n, layer in tasks)),),
    )
    for column in range(pixels):
        explanation = simulator.explain_task(capture, 1, (3, 0, column), chained=True)
        (trace,) = explanation.writes
        assert trace.output == written[column, 3]
        assert trace.value("OUT_CVT.scaled") == trace.value("EW.LUT") / 32768
        json.dumps(explanation.as_dict(), allow_nan=False)
    assert 0 < written[0, 3] < 0.1 < 0.6 < written[1, 3] < 0.7
