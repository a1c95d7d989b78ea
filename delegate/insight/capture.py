"""Captures (npu-capture-1): recorded NPU submits with their memory and the outputs they must give.

Comes in: a ``.npz`` file of the format (from ``compile --dump`` or another driver's recorder), or a
:class:`Capture` built in memory. Goes out: a :class:`ReplayResult` per capture, or a file (equal
captures give equal files). Refuses with :class:`~delegate.errors.CaptureError` in one line: files
that are missing, truncated, inconsistent or hostile (pickles, oversized arrays, addresses outside
the buffers).

File layout: ``manifest`` (uint8 bytes of a JSON object), ``buffer_<name>`` (uint8 initial content;
shorter than the buffer means zero-filled) and the expected outputs by the names the manifest's
checks give. The element (c, h, w) of an NC1HWC2 check lies at
``offset + ((c // c2) * surface_pixels + h * W + w) * 16 + (c % c2) * itemsize``; those of a plain
one, as of a matrix product, follow each other from ``offset`` on.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import native_chip
from delegate.chip.chips import chip_named
from delegate.errors import CaptureError, DeviceError, SimulatorFault, UsageError
from delegate.host.tally import Tally
from delegate.insight.capture_manifest import (
    PLAIN,
    CaptureBuffer,
    CaptureCheck,
    CaptureJob,
    CaptureTask,
    Manifest,
    manifest_from_json,
)
from delegate.model.array_files import DamagedArrayError, open_archive, read_member
from delegate.model.files import open_plain, write_file

__all__ = [
    "Capture",
    "CaptureBuffer",
    "CaptureCheck",
    "CaptureJob",
    "CaptureTask",
    "ReplayResult",
    "load_capture",
    "replay",
    "save_capture",
]

Bytes = npt.NDArray[np.uint8]

_ATOM_BYTES = 16
# The manifest is small text; anything larger is hostile or not a capture.
_MAX_MANIFEST_BYTES = 64 << 20
# Device addresses are 32 bits wide, so no capture holds more; its expected values come from there.
_MAX_TOTAL_BYTES = 1 << 32
_MAX_FILE_BYTES = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class Capture(Manifest):
    """One recorded run: buffers with their initial content, jobs of tasks, checks of the result.

    ``contents`` maps buffer names to uint8 arrays, at most as long as the buffer; ``expected`` maps
    the names used by the checks to arrays of the checks' shapes.
    """

    contents: Mapping[str, Bytes] = field(kw_only=True)
    expected: Mapping[str, npt.NDArray[Any]] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        self.validate()
        for buffer in self.buffers:
            content = self.contents.get(buffer.name)
            if content is None:
                raise CaptureError(f"capture {self.name}: buffer {buffer.name} has no content")
            if content.dtype != np.uint8 or content.ndim != 1:
                raise CaptureError(
                    f"capture {self.name}: the content of buffer {buffer.name} is "
                    f"{content.dtype} with {content.ndim} dimensions, not bytes"
                )
            if content.size > buffer.size:
                raise CaptureError(
                    f"capture {self.name}: buffer {buffer.name} has {buffer.size} bytes but its "
                    f"content has {content.size}"
                )
        for check in self.checks:
            expected = self.expected.get(check.expected)
            if expected is None:
                raise CaptureError(f"capture {self.name}: there is no array {check.expected}")
            if expected.dtype != np.dtype(check.dtype) or expected.shape != check.shape_nchw:
                raise CaptureError(
                    f"capture {self.name}: {check.expected} is {expected.dtype} of shape "
                    f"{expected.shape}, but the check says {check.dtype} of {check.shape_nchw}"
                )

    def memory(self) -> dict[str, Bytes]:
        """Fresh buffers with the initial content, zero-filled to their size, by name."""
        images = {}
        for buffer in self.buffers:
            image = np.zeros(buffer.size, np.uint8)
            content = self.contents[buffer.name]
            image[: content.size] = content
            images[buffer.name] = image
        return images

    def regions(self, memory: Mapping[str, Bytes]) -> list[tuple[str, int, Bytes]]:
        """Buffers with their bytes, as the native part takes them."""
        return [(b.name, b.dma_address, memory[b.name]) for b in self.buffers]

    @property
    def task_rows(self) -> list[list[tuple[int, int, str]]]:
        """The tasks of all jobs, as the native part takes them."""
        return [[(t.regcmd, t.regcmd_count, t.layer) for t in job.tasks] for job in self.jobs]

    def simulate(
        self, memory: Mapping[str, Bytes], chained: bool | None = None, **how: Any
    ) -> dict[str, Any]:
        """Runs the tasks in ``memory``. ``chained`` None: as the capture says. Raises
        SimulatorFault.
        """
        from delegate._native import simulate

        order = self.chained if chained is None else chained
        regions, chip = self.regions(memory), native_chip(chip_named(self.chip))
        return simulate(regions, self.task_rows, chained=order, chip=chip, **how)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of one replay.

    ``equal`` is the share of equal elements over all checks, ``error`` the text of a fault or the
    bounds that were missed. ``max_abs_diff`` and ``equal`` are None when the run did not finish or
    the capture checks nothing. ``complaints`` are deviations that the lenient mode passed over.
    """

    name: str
    passed: bool
    max_abs_diff: float | None
    equal: float | None
    error: str | None = None
    complaints: tuple[str, ...] = ()


def load_capture(path: str | os.PathLike[str]) -> Capture:
    """Reads and verifies one file. Raises CaptureError."""
    where = Path(path)
    with open_plain(where, most_bytes=_MAX_FILE_BYTES, error=CaptureError) as file:
        try:
            with open_archive(file) as archive:
                return _read_archive(archive, where)
        except DamagedArrayError as error:
            raise CaptureError(f"{where}: not a capture (npu-capture-1 .npz): {error}") from None
        except CaptureError as error:
            raise CaptureError(f"{where}: {error}") from None


def save_capture(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Writes ``capture``; equal captures give equal bytes. A failure leaves nothing behind.

    Raises CaptureError (disk full, no such directory, no permission).
    """
    entries: dict[str, npt.NDArray[Any]] = {
        "manifest": np.frombuffer(capture.manifest().encode(), np.uint8),
        **{f"buffer_{b.name}": capture.contents[b.name] for b in capture.buffers},
    }
    names = sorted({check.expected for check in capture.checks})
    entries |= {name: capture.expected[name] for name in names}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, array in entries.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # of a fixed time: equal captures, equal files
            entry.compress_type = zipfile.ZIP_DEFLATED
            is_large = array.nbytes >= zipfile.ZIP64_LIMIT // 2
            with archive.open(entry, "w", force_zip64=is_large) as file:
                np.lib.format.write_array(  # type: ignore[no-untyped-call]
                    file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False
                )
    write_file(Path(path), packed.getvalue(), error=CaptureError)


def replay(
    capture: Capture,
    device: str = "simulator",
    chained: bool | None = None,
    threads: int = 0,
    *,
    kernel: str = "",
    lenient: bool = False,
    timeout_ms: int = 0,
) -> ReplayResult:
    """Runs ``capture`` on ``device`` and compares its checks.

    ``chained`` None: as the capture says. ``threads`` 0: one per processor. ``kernel`` "rocket" or
    "rknpu": what that kernel driver would do, instead of ``chained``. ``lenient``: deviations that
    programs of other compilers have are listed in the result instead of ending the run.

    On an NPU the driver decides about chains, and everything that the tasks write is compared with
    the simulator, bit for bit. A fault of the simulated NPU, or a device that fails, is a failed
    result with its text in ``error``, never an exception. Raises UsageError for a device that
    cannot replay.
    """
    if device == "null":
        raise UsageError("captures cannot be replayed on device 'null', which computes nothing")
    from delegate._native import find_npu_node

    images = capture.memory()
    if device != "simulator" and (device != "auto" or find_npu_node()):
        problem = _run_on_npu(capture, images, device, threads, timeout_ms)
        if problem is not None:
            return ReplayResult(capture.name, False, None, None, problem)
        return _compare(capture, images)
    try:
        facts = capture.simulate(images, chained, threads=threads, kernel=kernel, lenient=lenient)
    except SimulatorFault as fault:
        return ReplayResult(capture.name, False, None, None, str(fault))
    return replace(_compare(capture, images), complaints=tuple(facts["complaints"]))


def _run_on_npu(
    capture: Capture, images: dict[str, Bytes], device: str, threads: int, timeout_ms: int
) -> str | None:
    """Leaves in ``images`` what the NPU wrote. Returns what went wrong."""
    from delegate._native import run_on_device

    before, simulated, jobs = capture.memory(), capture.memory(), capture.task_rows
    try:
        # What the simulator refuses must not reach the NPU.
        capture.simulate(simulated, chained=False, threads=threads)
        written = run_on_device(
            capture.regions(images), jobs, device, timeout_ms, chip=capture.chip
        )
    except DeviceError as error:
        return str(error)
    for name in written:
        different = np.flatnonzero(images[name] != simulated[name])
        if different.size == 0:
            continue
        if np.array_equal(images[name], before[name]):
            return f"{device}: nothing was written to buffer {name}; see dmesg"
        return (
            f"{device}: {different.size} bytes of buffer {name} differ from the simulator's, the "
            f"first at {different[0]}"
        )
    return None


def _compare(capture: Capture, images: Mapping[str, Bytes]) -> ReplayResult:
    total = Tally()
    broken: list[str] = []
    for check in capture.checks:
        tally = Tally()
        tally.add(read_tensor(check, images[check.buffer]), capture.expected[check.expected])
        share = tally.equal / tally.elements
        if tally.max_abs_diff > check.max_abs_diff or share < check.min_equal:
            broken.append(
                f"{check.expected}: max difference {tally.max_abs_diff} (limit "
                f"{check.max_abs_diff}), {share:.6f} equal (limit {check.min_equal})"
            )
        total.merge(tally)
    if total.elements == 0:
        return ReplayResult(capture.name, True, None, None)
    error = "; ".join(broken) if broken else None
    equal = total.equal / total.elements
    return ReplayResult(capture.name, not broken, total.max_abs_diff, equal, error)


def read_tensor(check: CaptureCheck, image: Bytes) -> npt.NDArray[np.generic]:
    """The checked tensor in NCHW from its buffer's bytes, a copy."""
    if check.layout == PLAIN:
        values = image[check.offset : check.end].copy().view(np.dtype(check.dtype))
        return values.reshape(check.shape_nchw)
    n, channels, height, width = check.shape_nchw
    surfaces = -(-channels // check.c2)
    dtype = np.dtype(check.dtype)
    stride = check.surface_pixels * _ATOM_BYTES
    strides = (stride, width * _ATOM_BYTES, _ATOM_BYTES, 1)
    view = np.lib.stride_tricks.as_strided(
        image[check.offset :], (surfaces, height, width, _ATOM_BYTES), strides, writeable=False
    )
    lanes = np.ascontiguousarray(view).view(dtype)
    nchw = lanes.transpose(0, 3, 1, 2).reshape(n, surfaces * check.c2, height, width)
    return np.ascontiguousarray(nchw[:, :channels])


def _read_archive(archive: zipfile.ZipFile, where: Path) -> Capture:
    budget = _MAX_TOTAL_BYTES
    text = read_member(archive, "manifest", _MAX_MANIFEST_BYTES)
    if text.dtype != np.uint8 or text.ndim != 1:
        raise CaptureError("its manifest is no array of bytes")
    manifest = manifest_from_json(text.tobytes())
    manifest.validate()
    contents: dict[str, Bytes] = {}
    for buffer in manifest.buffers:
        content = read_member(archive, f"buffer_{buffer.name}", min(buffer.size, budget))
        budget -= content.nbytes
        contents[buffer.name] = content
    expected: dict[str, npt.NDArray[Any]] = {}
    left = _MAX_TOTAL_BYTES
    for check in manifest.checks:
        if check.expected not in expected:
            limit = check.elements * np.dtype(check.dtype).itemsize
            values = read_member(archive, check.expected, min(limit, left))
            left -= values.nbytes
            expected[check.expected] = values
    known = {field.name: getattr(manifest, field.name) for field in fields(Manifest)}
    known["name"] = manifest.name or where.stem
    return Capture(**known, contents=contents, expected=expected)
