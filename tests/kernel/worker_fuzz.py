"""Spoiled programs and captures on an NPU: refused, or harmless. Nothing else may reach it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from delegate import _native
from delegate.errors import DeviceError, ProgramError
from delegate.insight.capture import Capture
from delegate.insight.program_capture import capture_of_program
from delegate.npu.program import build_program, serialize
from tests.kernel.small_models import random_inputs
from tests.kernel.standin_calls import live
from tests.npu.sample_programs import chain_partition, resealed

TIMEOUT_MS = 20_000


def spoil_words(words: np.ndarray, rng: np.random.Generator) -> None:
    """Changes a few commands: a bit, the whole value, the target, or a copy of another command."""
    for _ in range(rng.integers(1, 4)):
        i = rng.integers(words.size)
        kind = rng.integers(5)
        if kind == 0:
            words[i] ^= np.uint64(1) << np.uint64(rng.integers(64))
        elif kind == 1:
            value = np.uint64(rng.integers(1 << 32)) << np.uint64(16)
            words[i] = (words[i] & ~np.uint64(0xFFFFFFFF0000)) | value
        elif kind == 2:  # nudges a number: sizes and strides that are almost right
            words[i] += np.uint64(rng.choice([1, 15, 16, 17, 64, 4096])) << np.uint64(16)
        elif kind == 3:
            words[i] = words[rng.integers(words.size)]
        else:
            words[i] = 0


def spoiled_program(program: bytes, rng: np.random.Generator) -> bytes:
    data = bytearray(program)
    for _ in range(rng.integers(1, 6)):
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    if rng.random() < 0.5:
        # Commands and relocations are most of the file: numbers that look like either.
        at = int(rng.integers(len(data) // 8)) * 8
        data[at : at + 8] = int(rng.integers(1 << 62)).to_bytes(8, "little")
    return resealed(data)


def run_capture(capture: Capture, device: str) -> str:
    images = capture.memory()
    regions = [(b.name, b.dma_address, images[b.name]) for b in capture.buffers]
    jobs = [[(t.regcmd, t.regcmd_count, t.layer) for t in job.tasks] for job in capture.jobs]
    try:
        _native.run_on_device(regions, jobs, device, TIMEOUT_MS)
    except DeviceError as error:
        return "refused" if "refused before" in str(error) or "outside" in str(error) else "error"
    return "ran"


def work(device: str, seed: int, streams: int, programs: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    program = build_program(chain_partition(), "test")
    healthy = serialize(program)
    simulated = _native.Executable(healthy, device="simulator")
    inputs = random_inputs(simulated, 0)
    capture = capture_of_program(program, inputs, simulated.run(inputs), "test")
    counts: dict[str, int] = {}
    for _ in range(streams):
        words = capture.contents["regcmd"].copy().view(np.uint64)
        spoil_words(words, rng)
        contents = {**capture.contents, "regcmd": words.view(np.uint8)}
        outcome = run_capture(dataclasses.replace(capture, contents=contents), device)
        counts[f"stream {outcome}"] = counts.get(f"stream {outcome}", 0) + 1
    for _ in range(programs):
        try:
            executable = _native.Executable(
                spoiled_program(healthy, rng), device=device, timeout_ms=TIMEOUT_MS
            )
            executable.run(random_inputs(executable, 0))
            outcome = "ran"
        except ProgramError:
            outcome = "unreadable"
        except DeviceError as error:
            outcome = "refused" if "refused before" in str(error) else f"error: {error}"
        counts[f"program {outcome}"] = counts.get(f"program {outcome}", 0) + 1
    executable = None
    return {"counts": counts, "live": live()}
