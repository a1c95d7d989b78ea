"""Capture files: written deterministically and atomically, read without trust."""

import dataclasses
import errno
import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delegate.errors import CaptureError, UsageError
from delegate.insight.capture import (
    Capture,
    CaptureBuffer,
    CaptureCheck,
    CaptureJob,
    CaptureTask,
    load_capture,
    replay,
    save_capture,
)
from delegate.insight.simulated_run import explain
from tests.sim import stream as s
from tests.sim.programs import Conv, conv_registers, from_surfaces, random_tensors


def make_capture() -> Capture:
    """A run of one convolution with its own result as the expectation."""
    memory, program, t = s.Memory(), s.Program(), Conv(oc=24)
    program.add(conv_registers(t, memory, random_tensors(np.random.default_rng(0), t)))
    tasks = program.place(memory)
    initial = memory.copy()
    s.run(memory, tasks)
    expected = from_surfaces(memory.bytes("output"), 24, 7, 5, 35)[None]
    return Capture(
        name="one",
        source="test",
        buffers=tuple(CaptureBuffer(n, a, b.size + 16) for n, a, b in initial.regions),
        contents={n: b for n, _, b in initial.regions},
        jobs=(CaptureJob(tuple(CaptureTask(a, n, layer, "CONV_2D") for a, n, layer in tasks)),),
        checks=(CaptureCheck("output", 0, (1, 24, 7, 5), 35, "expected_0"),),
        expected={"expected_0": expected},
        inputs=({"tensor": 0, "name": "x"},),
    )


def plain_capture() -> Capture:
    """A matrix product of one row, whose outputs follow each other as in a FULLY_CONNECTED's."""
    memory, program = s.Memory(), s.Program()
    t = Conv(c=48, oc=40, h=1, w=1, kh=1, kw=1, pad_top=0, pad_left=0, oh=1, ow=1)
    program.add(conv_registers(t, memory, random_tensors(np.random.default_rng(1), t)))
    tasks = program.place(memory)
    initial = memory.copy()
    s.run(memory, tasks)
    return Capture(
        name="row",
        source="test",
        buffers=tuple(CaptureBuffer(n, a, b.size) for n, a, b in initial.regions),
        contents={n: b for n, _, b in initial.regions},
        jobs=(CaptureJob(tuple(CaptureTask(a, n, layer) for a, n, layer in tasks)),),
        checks=(CaptureCheck("output", 8, (1, 32), 0, "expected_0", layout="plain"),),
        expected={"expected_0": memory.bytes("output").view(np.int8)[8:40].reshape(1, 32).copy()},
    )


def test_a_plain_tensor_is_read_element_by_element(tmp_path):
    path = tmp_path / "row.npz"
    capture = plain_capture()
    save_capture(capture, path)
    loaded = load_capture(path)
    assert loaded.checks == capture.checks
    result = replay(loaded)
    assert (result.passed, result.equal) == (True, 1.0)
    off = capture.expected["expected_0"] ^ np.int8(1)
    wrong = dataclasses.replace(capture, expected={"expected_0": off})
    assert not replay(wrong).passed
    with pytest.raises(UsageError, match="ask for an element of a task"):
        explain(loaded, 0, (0, 0, 0))


def test_a_plain_check_needs_no_surfaces(tmp_path):
    path = tmp_path / "row.npz"
    save_capture(plain_capture(), path)
    changed = tmp_path / "changed.npz"

    def without_surfaces(manifest: dict[str, Any]) -> None:
        del manifest["checks"][0]["surface_pixels"]
        del manifest["checks"][0]["c2"]

    with_manifest(path, changed, without_surfaces)
    assert replay(load_capture(changed)).passed
    for change, message in (({"offset": 40}, "ends at byte"), ({"offset": -1}, "no tensor"),
                            ({"shape_nchw": [0]}, "no tensor")):  # fmt: skip
        text = manifest_error(path, changed, lambda m, c=change: m["checks"][0].update(c))
        assert message in text


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "one.npz"
    save_capture(make_capture(), path)
    return path


def test_saved_capture_comes_back_and_replays(saved):
    capture = load_capture(saved)
    original = make_capture()
    assert capture.manifest() == original.manifest()
    for name, content in original.contents.items():
        np.testing.assert_array_equal(capture.contents[name], content)
    result = replay(capture)
    assert (result.passed, result.max_abs_diff, result.equal) == (True, 0, 1.0)


def test_equal_captures_give_equal_files(tmp_path):
    for name in ("a", "b"):
        save_capture(make_capture(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_numpy_reads_the_file(saved):
    with np.load(saved, allow_pickle=False) as arrays:
        manifest = json.loads(arrays["manifest"].tobytes())
        assert manifest["format"] == "npu-capture-1"
        assert arrays["expected_0"].shape == (1, 24, 7, 5)


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "one.npz"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CaptureError, match="No space left"):
        save_capture(make_capture(), path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_device_that_is_full(tmp_path):
    with pytest.raises(CaptureError, match="cannot write"):
        save_capture(make_capture(), tmp_path / "no such folder" / "one.npz")


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(CaptureError, match="no such file"):
        load_capture(tmp_path / "absent.npz")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(CaptureError, match="not a capture"):
        load_capture(tmp_path / "text")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(CaptureError, match="manifest is missing"):
        load_capture(tmp_path / "other.npz")
    with pytest.raises(CaptureError, match="is a directory"):
        load_capture(tmp_path)


def test_every_truncation_is_one_clear_error(saved, tmp_path):
    data = saved.read_bytes()
    for size in range(0, len(data), 97):
        path = tmp_path / "cut.npz"
        path.write_bytes(data[:size])
        with pytest.raises(CaptureError) as caught:
            load_capture(path)
        assert "\n" not in str(caught.value)


def test_flipped_bytes_are_harmless(saved, tmp_path):
    data = bytearray(saved.read_bytes())
    rng = np.random.default_rng(0)
    path = tmp_path / "flipped.npz"
    for _ in range(300):
        changed = bytearray(data)
        for index in rng.integers(0, len(data), 3):
            changed[index] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        try:
            load_capture(path)
        except CaptureError as error:
            assert "\n" not in str(error)


def rewrite(source: Path, target: Path, **arrays: bytes | None) -> None:
    """Copies the archive with members replaced by raw .npy bytes (None: left out)."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            name = info.filename.removesuffix(".npy")
            content = arrays.get(name, old.read(info))
            if content is not None:
                new.writestr(info.filename, content)


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_pickles_are_never_loaded(saved, tmp_path):
    bomb = np.empty(1, object)
    bomb[0] = pickle.loads
    path = tmp_path / "pickle.npz"
    rewrite(saved, path, buffer_input=npy(bomb))
    with pytest.raises(CaptureError, match=r"buffer_input.*(damaged|may have)"):
        load_capture(path)


def test_arrays_are_bounded_before_they_are_read(saved, tmp_path):
    path = tmp_path / "large.npz"
    rewrite(saved, path, buffer_input=npy(np.zeros(1 << 24, np.uint8)))
    with pytest.raises(CaptureError, match="more than the"):
        load_capture(path)
    header = npy(np.zeros(4, np.uint8)).replace(b"(4,)", b"(9,)")
    rewrite(saved, path, buffer_input=header)
    with pytest.raises(CaptureError, match="buffer_input is damaged"):
        load_capture(path)
    rewrite(saved, path, buffer_output=None)
    with pytest.raises(CaptureError, match="buffer_output is missing"):
        load_capture(path)


def with_manifest(saved: Path, path: Path, change: Any) -> None:
    """Copies the archive with a manifest that ``change`` has changed."""
    with np.load(saved) as arrays:
        manifest = json.loads(arrays["manifest"].tobytes())
    change(manifest)
    text = np.frombuffer(json.dumps(manifest).encode(), np.uint8)
    rewrite(saved, path, manifest=npy(text))


def manifest_error(saved: Path, path: Path, change: Any) -> str:
    with_manifest(saved, path, change)
    with pytest.raises(CaptureError) as caught:
        load_capture(path)
    return str(caught.value)


MANIFEST_FAULTS = {
    "format": (lambda m: m.update(format="npu-capture-9"), "npu-capture-1"),
    "chip": (lambda m: m.update(chip="rk3566"), "known are rk3588, rk3576"),
    "no buffers": (lambda m: m.pop("buffers"), "buffers is missing"),
    "buffer type": (lambda m: m["buffers"].__setitem__(0, 5), "no JSON object|not a JSON object"),
    "same names": (lambda m: m["buffers"][1].update(name="input"), "two buffers"),
    "negative size": (lambda m: m["buffers"][0].update(size=-1), "2\\^32"),
    "large size": (lambda m: m["buffers"][0].update(size=1 << 40), "2\\^32"),
    "size is true": (lambda m: m["buffers"][0].update(size=True), "not an integer"),
    "overlap": (lambda m: m["buffers"][1].update(dma_address=0x1000_0010), "overlap"),
    "task outside": (lambda m: m["jobs"][0]["tasks"][0].update(regcmd=64), "no buffer"),
    "task count": (lambda m: m["jobs"][0]["tasks"][0].update(regcmd_count=1 << 60), "no buffer"),
    "check outside": (lambda m: m["checks"][0].update(offset=1 << 20), "ends at byte"),
    "check buffer": (lambda m: m["checks"][0].update(buffer="none"), "no buffer none"),
    "check layout": (lambda m: m["checks"][0].update(layout="NHWC"), "layout"),
    "check type": (lambda m: m["checks"][0].update(dtype="O"), "element type"),
    "check atoms": (lambda m: m["checks"][0].update(c2=8), "16 bytes"),
    "check shape": (lambda m: m["checks"][0].update(shape_nchw=[2, 24, 7, 5]), "shape_nchw"),
    "check pixels": (lambda m: m["checks"][0].update(surface_pixels=3), "pixels per surface"),
    "check bounds": (lambda m: m["checks"][0].update(min_equal=2.0), "bounds"),
    "check array": (lambda m: m["checks"][0].update(expected="buffer_input"), "buffer_input"),
}


@pytest.mark.parametrize("name", MANIFEST_FAULTS)
def test_manifest_faults(name, saved, tmp_path):
    change, message = MANIFEST_FAULTS[name]
    text = manifest_error(saved, tmp_path / "changed.npz", change)
    assert any(part.replace("\\", "") in text for part in message.split("|")), text
    assert "\n" not in text


@pytest.mark.parametrize("text", [b"[" * 200_000, b'{"a":' * 200_000], ids=["lists", "objects"])
def test_a_manifest_nested_without_end(text, saved, tmp_path):
    path = tmp_path / "nested.npz"
    rewrite(saved, path, manifest=npy(np.frombuffer(text, np.uint8)))
    with pytest.raises(CaptureError, match="manifest is no JSON"):
        load_capture(path)


def test_captures_in_memory_are_checked_too():
    capture = make_capture()
    short = dict(capture.contents)
    del short["input"]
    for change in (
        {"contents": short},
        {"contents": {**capture.contents, "input": np.zeros(1 << 20, np.uint8)}},
        {"contents": {**capture.contents, "input": np.zeros(4, np.int32)}},
        {"expected": {}},
        {"expected": {"expected_0": np.zeros((1, 24, 5, 7), np.int8)}},
    ):
        with pytest.raises(CaptureError):
            dataclasses.replace(capture, **change)


def test_a_capture_without_checks_only_has_to_run():
    result = replay(dataclasses.replace(make_capture(), checks=(), expected={}))
    assert (result.passed, result.max_abs_diff, result.equal) == (True, None, None)
