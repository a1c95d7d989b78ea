"""Every reader of files that others wrote, with mutated files: only errors of our own tree."""

import contextlib
import copy
import io
import json
import os
import random
import re
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from delegate.cli import main
from delegate.errors import DelegateError, UsageError
from delegate.host.samples import load_sample
from delegate.insight.benchmark import FORMAT
from delegate.insight.capture import load_capture, save_capture
from rk3588_vision.class_ranking import read_label_lines
from rk3588_vision.evaluation.ground_truth import classes_of, objects_of
from rk3588_vision.evaluation.metrics import classification_metrics, detection_metrics
from rk3588_vision.evaluation.state import StateFile
from rk3588_vision.images import ImageInput, open_image
from rk3588_vision.placement import LABEL_IMAGE, place
from tests.captures.test_files import make_capture
from tests.processes import python

RUNS = int(os.environ.get("RK3588_TEST_MUTATIONS", "200"))
"""Mutations of each seed; more find more."""

INPUTS = [{"name": "x", "shape": (1, 3, 4, 2), "dtype": np.int8},
          {"name": "y", "shape": (2,), "dtype": np.float32}]  # fmt: skip
TARGET = ImageInput(5, 7, 3, np.dtype(np.uint8), 0.0, 0)
IMAGES = [Path("a.png"), Path("1_b.png")]

HUGE = "9" * 5000
ODD_VALUES = [0, -1, 1, 1.5, -0.0, 1e308, -1e308, 1 << 31, 1 << 63, 1 << 64, 10**400, -(10**400),
              True, None, "", "x", "\0", "\ud800", "é" * 3000, [], {}, [[]], {"a": {}},
              float("nan"), float("inf"), -float("inf")]  # fmt: skip


def mutate_json(rng: random.Random, document: object) -> str:
    """One to three places of a document replaced, removed or nested."""

    def walk(node: object) -> list[tuple[object, object]]:
        places: list[tuple[object, object]] = []
        if not isinstance(node, (dict, list)):
            return places
        for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
            places.append((node, key))
            places += walk(value)
        return places

    holder = {"root": json.loads(json.dumps(document))}
    for _ in range(rng.randint(1, 3)):
        places = walk(holder)
        parent, key = rng.choice(places)
        kind = rng.randrange(4)
        if kind == 0 and isinstance(parent, dict) and parent is not holder:
            del parent[key]
        elif kind == 1:
            parent[key] = [parent[key]] * rng.choice([0, 1, 2, 1000])
        else:
            parent[key] = copy.deepcopy(rng.choice(ODD_VALUES))
    text = json.dumps(holder["root"])
    kind = rng.randrange(12)
    if kind == 0:
        return "[" * 200_000
    if kind == 1:
        return text.replace("1", HUGE, 1)
    if kind == 2:
        return text.replace("{", '{"a":' * 5000, 1)
    return text


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        kind = rng.randrange(6)
        at = rng.randrange(len(data) + 1)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            number = rng.choice([0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 1 << 16])
            data[at : at + 4] = struct.pack("<I", number)
        elif kind == 2:
            del data[at : at + rng.choice([1, 10, 1000])]
        elif kind == 3:
            data[at:at] = rng.randbytes(rng.choice([1, 4, 100]))
        elif kind == 4:
            data = data[:at]
        else:
            other = rng.randrange(len(data) + 1)
            data[at:at] = data[other : other + 50]
    return bytes(data)


def mutate_text(rng: random.Random, text: str) -> bytes:
    words = text.split(" ")
    for _ in range(rng.randint(0, 3)):
        odd = [str(value) for value in ODD_VALUES if value != "\ud800"]
        odd += [HUGE, "\xb2", "\u0663", "1_0"]
        words[rng.randrange(len(words))] = rng.choice(odd)
    content = " ".join(words).encode()
    return mutate_bytes(rng, content) if rng.random() < 0.5 else content


COCO = {
    "categories": [{"id": 1, "name": "cat"}, {"id": 7, "name": "dog"}],
    "images": [{"id": 5, "file_name": "a.png", "width": 20, "height": 10},
               {"id": 6, "file_name": "1_b.png", "width": 30, "height": 40}],
    "annotations": [{"image_id": 5, "category_id": 7, "bbox": [1, 2, 3, 4], "iscrowd": 0},
                    {"image_id": 6, "category_id": 1, "bbox": [0.5, 2, 3, 4]}],
}  # fmt: skip


def picture(form: str) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)).save(out, form)
    return out.getvalue()


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def archive(**arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def capture_bytes(folder: Path) -> bytes:
    save_capture(make_capture(), folder / "seed.npz")
    return (folder / "seed.npz").read_bytes()


def stored_again(content: bytes, change: Callable[[str, bytes], bytes]) -> bytes:
    """An archive whose members are changed and stored again, well packed."""
    source = zipfile.ZipFile(io.BytesIO(content))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, change(name, source.read(name)))
    return out.getvalue()


def with_manifest(rng: random.Random, content: bytes) -> bytes:
    """A capture whose manifest is mutated."""

    def change(name: str, data: bytes) -> bytes:
        if name != "manifest.npy":
            return data
        text = mutate_json(rng, json.loads(np.load(io.BytesIO(data)).tobytes()))
        return npy(np.frombuffer(text.encode("utf-8", "replace"), np.uint8))

    return stored_again(content, change)


def with_member(rng: random.Random, content: bytes) -> bytes:
    """An archive some of whose arrays are mutated."""

    def change(_: str, data: bytes) -> bytes:
        return mutate_bytes(rng, data[:200]) + data[200:] if rng.random() < 0.5 else data

    return stored_again(content, change)


def read_state(path: Path) -> None:
    """And what is made of it: the accuracy of both sides."""
    with StateFile(path, "f") as state:
        records = [state.records[name] for name in state.records]
    if records:
        classification_metrics(records, {r["image"]: 3 for r in records}, 0)


def read_boxes(path: Path) -> None:
    with StateFile(path, "f", has_boxes=True) as state:
        records = [state.records[name] for name in state.records]
    truth = {r["image"]: ((1, 0.0, 0.0, 0.5, 0.5),) for r in records}
    if records:
        detection_metrics(records, truth, {}, None)


def state_file(rng: random.Random, record: object) -> bytes:
    head = json.dumps({"format": "rk3588-evaluation-1", "fingerprint": "f"})
    return f"{head}\n{mutate_json(rng, record)}\n".encode("utf-8", "replace")


CLASSES = {"image": "a.png", "ours": [1, 2], "theirs": [2, 1]}
BOXES = CLASSES | {"width": 20, "height": 10, "ours": [[1, 0.5, 0, 0, 5, 5.5]], "theirs": []}

TIMES = {"p50_ms": 1.0, "p90_ms": 1.0, "p99_ms": 1.0, "mean_ms": 1.0, "min_ms": 1.0, "max_ms": 1.0}
MEASURED = {
    "format": FORMAT, "model": "m",
    "host": {"version": "1", "runtime": "r", "runtime_version": "2"},
    "delegate": {"device": "null", "init_ms": 1, "first_ms": 2.0, "steady": TIMES,
                 "phases": {"a_ms": 1}},
    "cpu": {"steady": TIMES},
}  # fmt: skip


def read_measurement(path: Path) -> None:
    for form in ([], ["--json"]):
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            code = main(["bench", "--compare", str(path), str(path), *form])
        assert "internal error" not in err.getvalue(), err.getvalue()
        if code:
            raise UsageError(err.getvalue().strip())


def run_capture(path: Path) -> None:
    from delegate.insight.capture import replay
    from delegate.insight.simulated_run import explain

    capture = load_capture(path)
    if sum(buffer.size for buffer in capture.buffers) < 1 << 24:
        replay(capture)
        if capture.checks:
            explain(capture, 0, (0, 0, 0))


Mutate = Callable[[random.Random, Path], bytes]

READERS: dict[str, tuple[str, Mutate, Callable[[Path], object]]] = {
    "coco": ("a.json", lambda r, _: mutate_json(r, COCO).encode("utf-8", "replace"),
             lambda p: objects_of(IMAGES, p)),
    "coco bytes": ("a.json", lambda r, _: mutate_bytes(r, json.dumps(COCO).encode()),
                   lambda p: objects_of(IMAGES, p)),
    "csv": ("a.csv", lambda r, _: mutate_text(r, 'image,class\na.png, 3 \n1_b.png,4 , "x" \n'),
            lambda p: classes_of(IMAGES, p)),
    "yolo": ("a.txt", lambda r, _: mutate_text(r, "0 0.5 0.5 0.25 0.125 \n3 0.1 0.2 0.3 0.4 \n"),
             lambda p: objects_of([p.with_suffix(".png")], None)),
    "labels": ("l.txt", lambda r, _: mutate_text(r, "background \ncat \ndog \n"), read_label_lines),
    "state": ("s.jsonl", lambda r, _: state_file(r, CLASSES), read_state),
    "state of boxes": ("s.jsonl", lambda r, _: state_file(r, BOXES), read_boxes),
    "measurement": ("m.json", lambda r, _: mutate_json(r, MEASURED).encode("utf-8", "replace"),
                    read_measurement),
    "npz": ("x.npz", lambda r, _: r.choice([mutate_bytes, with_member])(r, archive(
        x=np.zeros((1, 3, 4, 2), np.int8), y=np.ones(2, np.float32))),
            lambda p: load_sample(p, INPUTS)),
    "npy": ("x.npy", lambda r, _: mutate_bytes(r, npy(np.zeros((1, 3, 4, 2), np.int8))),
            lambda p: load_sample(p, INPUTS[:1])),
    "capture": ("c.npz", lambda r, f: r.choice([mutate_bytes, with_member, with_manifest])(
        r, capture_bytes(f)), run_capture),
    **{form: (f"p.{form.lower()}", lambda r, _, form=form: mutate_bytes(r, picture(form)),
              lambda p: place(open_image(p), TARGET, LABEL_IMAGE))
       for form in ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")},
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_only_errors_of_our_tree(name: str, tmp_path: Path) -> None:
    file_name, mutate, read = READERS[name]
    rng = random.Random(name)
    refused = 0
    for _ in range(RUNS):
        path = tmp_path / file_name
        path.write_bytes(mutate(rng, tmp_path))
        try:
            read(path)
        except DelegateError as error:
            refused += 1
            assert "\n" not in str(error)
            assert len(str(error)) < 10_000
    assert refused > RUNS // 50


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_plain_file_is_refused_at_once(name: str, kind: str, tmp_path: Path) -> None:
    file_name, _, read = READERS[name]
    path = tmp_path / file_name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    word = {"pipe": "a pipe", "device": "a device", "folder": "a directory"}[kind]
    with pytest.raises(DelegateError, match=word) as error:
        read(path)
    assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", str(error.value))


@pytest.mark.parametrize(
    "content", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"GRIB0000"]
)
def test_pictures_in_formats_that_are_not_offered(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(DelegateError, match="none of the formats BMP, GIF"):
        open_image(path)


def test_picture_of_too_many_pixels(tmp_path: Path) -> None:
    for size in (b"10000 10000", b"60000 60000"):
        (tmp_path / "a.ppm").write_bytes(b"P6 " + size + b" 255\n")
        with pytest.raises(DelegateError, match=r"at most 89478485|exceeds limit"):
            open_image(tmp_path / "a.ppm")
    (tmp_path / "a.ppm").write_bytes(b"P6 1 70000 255\n" + bytes(210_000))
    with pytest.raises(DelegateError, match="65535 to a side"):
        open_image(tmp_path / "a.ppm")


def test_input_that_expands_is_refused_before_it_does(tmp_path: Path) -> None:
    """400 KB of an archive that hold 400 MB."""
    path = tmp_path / "x.npz"
    path.write_bytes(archive(x=np.zeros(400 << 20, np.int8), y=np.zeros(2, np.float32)))
    tracemalloc.start()
    with pytest.raises(DelegateError, match="more than the"):
        load_sample(path, INPUTS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


LITTLE_MEMORY = """
import resource, sys
from delegate.model.files import MAX_MODEL_BYTES, read_file
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
print(len(read_file(sys.argv[1], "file", MAX_MODEL_BYTES)))
print(len(read_file("/proc/self/maps", "file", MAX_MODEL_BYTES)) > 1000)
"""


def test_a_small_file_takes_little_memory_whatever_its_bound(tmp_path):
    """Reading asks for the file's size, not for 4 GiB, which a small board does not have."""
    path = tmp_path / "model"
    path.write_bytes(bytes(5000))
    done = python("-c", LITTLE_MEMORY, path)
    assert done.stdout.split() == ["5000", "True"], done.stderr
