"""Deltas against complete segments: the same registers in every task, the same bytes on the
simulator, and nothing in a delta that could be left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from delegate import _native
from delegate.capture import replay
from delegate.compiler import compile_model
from delegate.lower.task import BufferId
from delegate.npu import delta
from delegate.npu.delta import has_deltas, shorten
from delegate.npu.dump import capture_of_program
from delegate.npu.encode import encode_task
from delegate.npu.program import Program, build_program, parse, regcmd_bytes
from delegate.npu.registers import BY_ADDRESS
from delegate.options import Options
from tests.kernel.small_models import MODELS, random_inputs
from tests.npu.sample_programs import chain_partition
from tests.shared_folder import MODELS as SHARED_MODELS
from tests.shared_folder import needs_models

TAIL_WORDS = 4
# The bit of the start word that starts a block and turns its groups.
STARTS = {"CNA": 0x01, "CORE": 0x04, "DPU": 0x08, "DPU_RDMA": 0x10, "PPU": 0x20, "PPU_RDMA": 0x40}
REAL = [
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v2_1.0_224_int8_per_channel",
    "yolox_nano_320_int8_per_channel",
]

State = dict[str, dict[int, int]]


def states(program: Program, addresses: dict[BufferId, int]) -> Iterator[State]:
    """What every block of every task reads its registers from; nothing lasts longer than a job."""
    words = program.relocated(addresses)
    job = None
    for task in program.tasks:
        if task.job != job:
            job = task.job
            groups: dict[str, list[dict[int, int]]] = {block: [{}, {}] for block in STARTS}
        first = task.regcmd_offset // 8
        for word in words[first : first + task.regcmd_count - TAIL_WORDS].tolist():
            register = BY_ADDRESS[word >> 48, word & 0xFFFF]
            groups[register.block][0][register.offset] = word >> 16 & 0xFFFF_FFFF
        used = [block for block, bit in STARTS.items() if task.enable_mask & bit]
        yield {block: dict(groups[block][0]) for block in used}
        for block in used:
            groups[block].reverse()


def both(model: bytes | Path, **options: object) -> list[tuple[bytes, bytes]]:
    """The programs of every partition, complete and as deltas."""
    pair = [compile_model(model, Options(regcmd=how, **options)) for how in ("complete", "delta")]
    return [
        (complete.program, short.program)
        for complete, short in zip(pair[0].partitions, pair[1].partitions, strict=True)
    ]


def check_pair(complete_bytes: bytes, short_bytes: bytes) -> None:
    complete, short = parse(complete_bytes), parse(short_bytes)
    # No two registers may agree by chance of where buffers lie.
    addresses = {buffer: 0x1000_0000 * (1 + buffer) for buffer in BufferId}
    for i, (wanted, found) in enumerate(
        zip(states(complete, addresses), states(short, addresses), strict=True)
    ):
        assert found == wanted, complete.tasks[i]
    assert short.buffers[1:] == complete.buffers[1:]
    assert not has_deltas(complete)
    reference = _native.Executable(complete_bytes, device="simulator")
    inputs = random_inputs(reference, 0)
    expected = reference.run(inputs)
    outputs = _native.Executable(short_bytes, device="simulator").run(inputs)
    for one, other in zip(expected, outputs, strict=True):
        np.testing.assert_array_equal(one, other)
    capture = capture_of_program(short, inputs, expected, "delta")
    assert capture.chained == has_deltas(short)
    result = replay(capture, chained=True)
    assert (result.error, result.max_abs_diff, result.equal) == (None, 0, 1.0)


@pytest.mark.parametrize("name", MODELS)
def test_small_models_give_the_same_bytes(name: str) -> None:
    for complete, short in both(MODELS[name]()):
        check_pair(complete, short)


@needs_models
@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in REAL] + [(REAL[0], {"split_rows": "always"})],
)
def test_real_models_give_the_same_bytes(name: str, options: dict[str, object]) -> None:
    for complete, short in both(SHARED_MODELS / f"{name}.tflite", device="rknpu", **options):
        check_pair(complete, short)
        tasks = parse(short).tasks
        if len(tasks) > 20 and not options:
            sizes = [parse(data).buffers[BufferId.REGCMD].size_bytes for data in (complete, short)]
            assert sizes[1] < sizes[0] / 2


def test_commands_of_a_delta() -> None:
    """The first two tasks of every block are complete; an unchanged third one repeats what vendor
    streams repeat, pointers and addresses.
    """
    lowered = chain_partition()
    conv, add = lowered.layers[0].tasks[0], lowered.layers[1].tasks[0]
    full = {task: encode_task("layer", task) for task in (conv, add)}
    chain = [full[task] for task in (conv, add, conv, conv, add)]
    short = shorten(chain, [0] * 5)
    names = [
        [BY_ADDRESS[word >> 48, word & 0xFFFF].full_name for word in item.words] for item in short
    ]
    assert short[:2] == chain[:2]
    # Third: the second group of CNA and CORE is still empty, the first one of the DPU is not.
    blocks = [{block: sum(name.startswith(block + ".") for name in task) for block in STARTS}
              for task in names]  # fmt: skip
    assert blocks[2]["CNA"] == blocks[0]["CNA"]
    assert blocks[2]["CORE"] == blocks[0]["CORE"]
    assert blocks[2]["DPU"] < blocks[0]["DPU"] // 4
    assert blocks[3]["CORE"] == 0
    assert names[3][:6] == [
        "CNA.CBUF_CON0", "CNA.DCOMP_REGNUM", "CNA.DCOMP_CTRL", "CNA.CONV_CON1",
        "DPU.S_POINTER", "DPU_RDMA.RDMA_S_POINTER",
    ]  # fmt: skip
    for task, whole in zip(short, chain, strict=True):
        places = [(slot.target, task.words[slot.word]) for slot in task.addresses]
        assert places == [(slot.target, whole.words[slot.word]) for slot in whole.addresses]


def test_every_job_starts_with_nothing() -> None:
    task = encode_task("layer", chain_partition().layers[0].tasks[0])
    assert shorten([task] * 4, [0, 0, 1, 1]) == [task] * 4
    assert len(shorten([task] * 3, [0, 0, 0])[2].words) < 30


def test_jobs_of_more_than_one_kick_stay_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    task = encode_task("layer", chain_partition().layers[0].tasks[0])
    monkeypatch.setattr(delta, "MAX_CHAIN_TASKS", 3)
    chain = [task] * 4
    assert shorten(chain, [0] * 4) == chain
    assert shorten(chain, [0, 0, 0, 1]) != chain


def test_sizes() -> None:
    lowered = chain_partition()
    programs = [build_program(lowered, "test", delta=short) for short in (False, True)]
    sizes = [program.buffers[BufferId.REGCMD].size_bytes for program in programs]
    buffers = [item.size_bytes for item in programs[0].buffers]
    assert regcmd_bytes(lowered.layers, buffers) == tuple(sizes)
    assert sizes[1] < sizes[0]


# Registers that a change of shape or of scale must reach. Others may be for speed only.
NEEDED = [
    "CNA.CONV_CON3", "CNA.DATA_SIZE0", "CNA.WEIGHT_SIZE0",
    "CNA.PAD_CON0", "CORE.DATAOUT_SIZE_0", "DPU.DATA_CUBE_HEIGHT", "DPU.DST_SURF_STRIDE",
    "DPU.OUT_CVT_SCALE", "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT",
]  # fmt: skip


def test_a_delta_without_a_needed_register_is_noticed() -> None:
    """The task then has that of another: a fault or other results, never the same ones."""
    (_, short), *_ = both(MODELS["digits"]())
    program = parse(short)
    simulated = _native.Executable(short, device="simulator")
    inputs = random_inputs(simulated, 0)
    capture = capture_of_program(program, inputs, simulated.run(inputs), "delta")
    assert replay(capture).passed
    seen = set()
    for i, task in enumerate(program.tasks[2:], start=2):
        for j, word in enumerate(program.task_words(i)[:-TAIL_WORDS]):
            name = BY_ADDRESS[word >> 48, word & 0xFFFF].full_name
            if name not in NEEDED:
                continue
            seen.add(name)
            words = capture.contents["regcmd"].copy()
            words.view(np.uint64)[task.regcmd_offset // 8 + j] = 0
            contents = {**capture.contents, "regcmd": words}
            result = replay(dataclasses.replace(capture, contents=contents))
            assert result.error is not None or not result.passed, f"task {i}: {name}"
    assert len(seen) > len(NEEDED) // 2, seen


def test_the_mainline_kernel_as_it_is_runs_no_deltas() -> None:
    (complete, short), *_ = both(MODELS["digits"]())
    for content, error in ((complete, None), (short, "regcmd=complete")):
        simulated = _native.Executable(content, device="simulator")
        inputs = random_inputs(simulated, 0)
        expected = simulated.run(inputs)
        capture = capture_of_program(parse(content), inputs, expected, "delta")
        result = replay(capture, kernel="rocket")
        assert (result.error is None) == (error is None)
        assert error is None or error in str(result.error)
