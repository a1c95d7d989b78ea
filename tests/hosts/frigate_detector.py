"""Does what Frigate's stock ``teflon_tfl`` detector does, without Frigate: its calls in its order.

A detector process loads the library at a fixed path with no options, makes an interpreter, and
answers requests: an image in shared memory in, twenty rows of (class, score, box) out. Only
ValueError counts as "no NPU". Run it against any library and model:

    python -m tests.hosts.frigate_detector /usr/lib/teflon/libteflon.so MODEL IMAGE [IMAGE ...]
"""

import importlib
import json
import multiprocessing
import sys
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 20
THRESHOLD = 0.4
ANSWER_SECONDS = 120
IMAGE_NAME, RESULT_NAME = "image", "result"


def runtime() -> Any:
    """ai_edge_litert before tflite_runtime."""
    try:
        return importlib.import_module("ai_edge_litert.interpreter")
    except ModuleNotFoundError:
        return importlib.import_module("tflite_runtime.interpreter")


def load_labels(path: Path) -> dict[int, str]:
    """A label map: lines of number and name, or of names alone; what it leaves out is unknown."""
    labels = dict.fromkeys(range(91), "unknown")
    for line_number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        number, separator, name = line.partition(" ")
        if separator and number.isdigit():
            labels[int(number)] = name.strip()
        else:
            labels[line_number] = line.strip()
    return labels


def labelled(rows: np.ndarray, labels: dict[int, str]) -> list[tuple[str, float]]:
    """Return what a camera's process makes of a detector's answer: (label, score), best first."""
    return [(labels[int(row[0])], float(row[1])) for row in rows if row[1] >= THRESHOLD]


class Detector:
    """Raises ValueError if the library cannot be used; ``library`` None: the CPU, which may compute
    with TensorFlow Lite's reference kernels."""

    def __init__(self, library: str | None, model: str, *, reference_kernels: bool = False) -> None:
        module = runtime()
        delegates = [] if library is None else [module.load_delegate(library, {})]
        kernels = module.OpResolverType.BUILTIN_REF if reference_kernels else None
        more = {"experimental_op_resolver_type": kernels} if reference_kernels else {}
        self._interpreter = module.Interpreter(
            model_path=model, experimental_delegates=delegates, **more
        )
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]
        self._outputs = [item["index"] for item in self._interpreter.get_output_details()]

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(int(size) for size in self._input["shape"])

    def detect(self, image: np.ndarray) -> np.ndarray:
        """uint8 [1, height, width, 3] to float32 [20, 6]: class, score, y0, x0, y1, x1."""
        self._interpreter.set_tensor(self._input["index"], image)
        self._interpreter.invoke()
        # Views of the interpreter's memory, as the detector takes them.
        boxes, classes, scores, count = (self._interpreter.tensor(i)()[0] for i in self._outputs)
        rows = np.zeros((ROWS, 6), np.float32)
        for i in range(min(int(count), ROWS)):
            if scores[i] < THRESHOLD:
                break
            rows[i] = [classes[i], scores[i], *boxes[i]]
        return rows


def serve(library: str, model: str, names: dict[str, str], requests: Any, answers: Any) -> None:
    """The detector process: one answer for every request, until None comes."""
    try:
        detector = Detector(library, model)
    except ValueError as error:
        answers.put(f"no NPU: {error}")
        return
    image, result = (SharedMemory(name=names[role]) for role in (IMAGE_NAME, RESULT_NAME))
    pixels = np.ndarray(detector.input_shape, np.uint8, image.buf)
    rows = np.ndarray((ROWS, 6), np.float32, result.buf)
    answers.put("ready")
    while requests.get() is not None:
        rows[:] = detector.detect(pixels)
        answers.put("done")
    del pixels, rows
    image.close()
    result.close()


def detect_in_process(library: str, model: str, images: list[np.ndarray]) -> list[np.ndarray]:
    """Detections of ``images`` in a process of its own. ValueError with its words if it fails."""
    context = multiprocessing.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    image = SharedMemory(create=True, size=images[0].nbytes)
    result = SharedMemory(create=True, size=ROWS * 6 * 4)
    names = {IMAGE_NAME: image.name, RESULT_NAME: result.name}
    process = context.Process(target=serve, args=(library, model, names, requests, answers))
    process.start()
    try:
        state = answers.get(timeout=ANSWER_SECONDS)
        if state != "ready":
            raise ValueError(state)
        found = []
        for content in images:
            image.buf[: content.nbytes] = content.tobytes()
            requests.put("detect")
            answers.get(timeout=ANSWER_SECONDS)
            found.append(np.frombuffer(bytes(result.buf[: ROWS * 24]), np.float32).reshape(ROWS, 6))
        return found
    finally:
        requests.put(None)
        process.join(ANSWER_SECONDS)
        process.kill()
        for memory in (image, result):
            memory.close()
            memory.unlink()


def read_image(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    from PIL import Image

    with Image.open(path) as picture:
        resized = picture.convert("RGB").resize((shape[2], shape[1]), Image.Resampling.BILINEAR)
        return np.asarray(resized, np.uint8)[None]


def detections(rows: np.ndarray) -> list[dict[str, Any]]:
    """For people to read: what ``Detector.detect`` found."""
    return [
        {
            "class": int(row[0]),
            "score": round(float(row[1]), 3),
            "box": [round(float(value), 3) for value in row[2:]],
        }
        for row in rows
        if row[1] > 0
    ]


def main() -> None:
    library, model, *paths = sys.argv[1:]
    # As configured in Frigate (width, height); here from the model, with the same library.
    shape = Detector(library, model).input_shape
    images = [read_image(Path(path), shape) for path in paths]
    for path, rows in zip(paths, detect_in_process(library, model, images), strict=True):
        print(json.dumps({"image": path, "detections": detections(rows)}))


if __name__ == "__main__":
    main()
