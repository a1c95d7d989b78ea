"""Interpreters whose tensors lie in memory that others share, beside TensorFlow Lite's own."""

import fcntl
import mmap
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import delegate

F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
"""Commands of fcntl in Linux, which Python does not name."""


def sealed(size: int) -> int:
    """Return the descriptor of a memfd that cannot shrink."""
    descriptor = os.memfd_create("shared", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK)
    return descriptor


class Shared:
    """Memory of a descriptor that ``make`` gives for a size, as NumPy sees it."""

    def __init__(self, size: int, make: Callable[[int], int] = sealed) -> None:
        self.fd = make(size)
        self.map = mmap.mmap(self.fd, size)

    def close(self) -> None:
        """Close the descriptor; what is mapped stays."""
        os.close(self.fd)

    def tensor(self, detail: dict[str, Any]) -> np.ndarray:
        count = int(np.prod(detail["shape"]))
        return np.frombuffer(self.map, detail["dtype"], count).reshape(detail["shape"])


class Host:
    """Interpreters with the delegate and without. Raises DelegateError if none can share."""

    def __init__(self, runtime: ModuleType, model: bytes, **options: str) -> None:
        self.delegate = runtime.load_delegate(
            delegate.library_path(), {"device": "simulator", "deny_ops": "NONE", **options}
        )
        self.made = runtime.Interpreter(model_content=model, experimental_delegates=[self.delegate])
        self.made.allocate_tensors()
        self.reference = runtime.Interpreter(
            model_content=model, experimental_op_resolver_type=runtime.OpResolverType.BUILTIN_REF
        )
        self.reference.allocate_tensors()
        self.look()
        self.give(self.input, None)

    def look(self) -> None:
        (self.input,), (self.output,) = (
            self.made.get_input_details(),
            self.made.get_output_details(),
        )

    def give(self, detail: dict[str, Any], shared: Shared | None) -> None:
        descriptor = None if shared is None else shared.fd
        delegate.share_tensor(self.made, self.delegate, detail["index"], descriptor)

    def draw(self, seed: int) -> np.ndarray:
        """Values of the input, over all of its type."""
        limits = np.iinfo(self.input["dtype"])
        rng = np.random.default_rng(seed)
        shape, dtype = self.input["shape"], self.input["dtype"]
        return rng.integers(limits.min, limits.max + 1, shape, dtype=dtype)

    def expected(self, values: np.ndarray) -> np.ndarray:
        self.reference.set_tensor(self.input["index"], values)
        self.reference.invoke()
        return self.reference.get_tensor(self.output["index"])

    def result(self) -> np.ndarray:
        return self.made.get_tensor(self.output["index"])


def taken_in_place() -> int:
    """Return how many tensors the device has read or written where others share them."""
    return sum(program.in_place for program in delegate.stats().programs)


def take_turns(host: Host, runs: int, make: Callable[[int], int] = sealed) -> int:
    """Run with three memories on one side and two on the other, in turns. Each result has to be
    TensorFlow Lite's, in the memory and in the tensor. Returns how many the device took in place.
    """
    sources = [Shared(4 * mmap.PAGESIZE, make) for _ in range(3)]
    targets = [Shared(4 * mmap.PAGESIZE, make) for _ in range(2)]
    before = taken_in_place()
    for run in range(runs):
        source, target = sources[run % 3], targets[run % 2]
        values = host.draw(run)
        source.tensor(host.input)[:] = values
        target.tensor(host.output)[:] = 99
        host.give(host.input, source)
        host.give(host.output, target)
        host.made.invoke()
        expected = host.expected(values)
        np.testing.assert_array_equal(target.tensor(host.output), expected)
        np.testing.assert_array_equal(host.result(), expected)
    for memory in (*sources, *targets):
        memory.close()
    return taken_in_place() - before
