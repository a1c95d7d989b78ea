"""A model that stays loaded: one picture, many, or frames as they come, over several cores.

``Session`` knows nothing of classes or boxes: ``Classifier`` and ``Detector`` say how a picture
becomes the input and what the outputs mean.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy.typing as npt

from delegate.errors import UsageError
from delegate.host.delegated import DelegatedModel
from delegate.model.tflite_reader import model_details
from delegate.options import Options
from rk3588_vision.images import Picture, as_image, detached
from rk3588_vision.placement import Placement

if TYPE_CHECKING:
    from typing_extensions import Self

Result = TypeVar("Result")
Arrays = Sequence[npt.NDArray[Any]]

CORES: Final = 3
"""The cores of an RK3588; an interpreter each keeps them busy."""


class Session(ABC, Generic[Result]):
    """A model with its pictures and results. Calling it gives the result of one picture; ``batch``,
    ``stream`` and ``run_async`` share frames among ``workers`` interpreters.

    The file is read when the session is made, so that a bad one fails there. The interpreter is
    loaded by the first picture, by ``load`` or by ``with``. Any thread may call it.
    """

    def __init__(
        self, path: Path, options: Options, *, workers: int = CORES, queue: int | None = None
    ) -> None:
        """``workers``: interpreters at work in ``batch``, ``stream`` and ``run_async``. ``queue``:
        most pictures that are under way, by default two for each worker.
        """
        if workers < 1 or (queue is not None and queue < 1):
            raise UsageError("workers and queue must be at least 1")
        self.path: Final = path
        self.input_details, self.output_details = model_details(path)
        self._options = options
        self._workers = workers
        self._most = queue or 2 * workers
        self._first: DelegatedModel | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._free: SimpleQueue[DelegatedModel] = SimpleQueue()
        self._room = threading.BoundedSemaphore(self._most)
        self._lock = threading.Lock()
        self._closed = False

    @abstractmethod
    def prepare(self, picture: Picture) -> tuple[npt.NDArray[Any], Placement]:
        """Return the model's input tensor for ``picture``, and where the picture lies in it.

        Raises UsageError for what is no picture.
        """

    @abstractmethod
    def decode(self, outputs: Arrays, placement: Placement) -> Result:
        """Return what output tensors mean, whoever computed them: all outputs of the model in its
        order, with its types. ``placement``: what ``prepare`` gave.
        """

    @property
    def model(self) -> DelegatedModel:
        """The interpreter with the delegate, loaded now if it was not."""
        with self._lock:
            if self._closed:
                raise UsageError(f"{self.path}: is closed")
            if self._first is None:
                self._first = DelegatedModel.load(self.path, self._options)
                self._free.put(self._first)
            return self._first

    def load(self) -> Self:
        """Load the interpreter before the first picture.

        Raises ModelError, DeviceError if there is no such device, DelegateError if no runtime is
        installed, UnsupportedError under ``strict``.
        """
        _ = self.model
        return self

    def __call__(self, picture: Picture) -> Result:
        """Return the result of one picture."""
        return self.load()._result(picture)

    def batch(self, pictures: Iterable[Picture]) -> list[Result]:
        """Return the results of several pictures, in their order; an array [n, h, w, 3] is n."""
        return list(self.stream(pictures))

    def stream(self, pictures: Iterable[Picture]) -> Iterator[Result]:
        """Yield results in the order of ``pictures``, which is read as room becomes free: a camera
        may go on for ever. What it raises comes through.
        """
        pending: deque[Future[Result]] = deque()
        try:
            for picture in pictures:
                if len(pending) >= self._most:
                    yield pending.popleft().result()
                pending.append(self.run_async(picture))
                while pending and pending[0].done():
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def run_async(self, picture: Picture) -> Future[Result]:
        """Start a picture on a free worker; wait while ``queue`` of them are under way. An array is
        copied, so that its buffer may be used again.
        """
        pool = self._started()
        self._room.acquire()
        try:
            future = pool.submit(self._result, detached(picture))
        except RuntimeError:  # closed meanwhile by another thread
            self._room.release()
            raise UsageError(f"{self.path}: is closed") from None
        future.add_done_callback(lambda _: self._room.release())
        return future

    def close(self) -> None:
        """End the workers, after the pictures that are under way, and unload the model."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        self._free = SimpleQueue()
        self._first = None

    def __enter__(self) -> Self:
        return self.load()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> ThreadPoolExecutor:
        """Return the workers; each has an interpreter of its own."""
        self.load()
        with self._lock:
            if self._pool is None:
                for _ in range(self._workers - 1):
                    self._free.put(DelegatedModel.load(self.path, self._options))
                self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="rk3588")
            return self._pool

    def _result(self, picture: Picture) -> Result:
        """Return the result of a picture by the next interpreter that is free."""
        tensor, placement = self.prepare(as_image(picture))
        model = self._free.get()
        try:
            outputs = model.run([tensor])
        finally:
            self._free.put(model)
        return self.decode(outputs, placement)
