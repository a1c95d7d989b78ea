"""The virtual machine: QEMU with the NPU's process beside it."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.board.packages import run

RAM = os.environ.get("BOARD_RAM") or "2560M"
_UNITS = {"M": 1 << 20, "G": 1 << 30}
_LOW_BYTES = 3 << 30
"""The bytes of RAM below 4 GiB; RAM begins at 1 GiB."""
_POLL_S = 0.25
# A boot takes five seconds on a quiet machine, the longest silence of a case half a minute; the
# machine may get ten times as busy after the boot.
_SILENCE_S = 300.0
_BOOTS = 24


def has_high_memory() -> bool:
    """Return whether the guest has RAM above 4 GiB, which its kernel gives first."""
    return int(RAM[:-1]) * _UNITS[RAM[-1].upper()] > _LOW_BYTES


class Patience:
    """The time that a guest may be silent: longer on a machine that took longer to boot it."""

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._timeout_s = timeout_s
        self._start = self._last = clock()
        self._seen: tuple[int, ...] = ()
        self._boot_s: float | None = None

    def look(self, progress: tuple[int, ...], is_up: bool) -> None:
        """Raises SystemExit when it is at its end. ``progress``: changes whenever anything does."""
        now = self._clock()
        if progress != self._seen:
            self._seen, self._last = progress, now
        if is_up and self._boot_s is None:
            self._boot_s = now - self._start
        silence_s = max(_SILENCE_S, _BOOTS * (self._boot_s or 0))
        words = "is up" if is_up else "boots"
        if now - self._last > silence_s:
            raise SystemExit(f"the guest {words} but was silent for {silence_s:.0f} s")
        if now - self._start > self._timeout_s:
            raise SystemExit(f"the guest {words} but was not done after {self._timeout_s:.0f} s")


@dataclass(frozen=True)
class Machine:
    """``tools``: unpacked packages, or None where QEMU is installed. ``native``: folder with
    npu_process and qemu_npu.so. ``folder``: where sockets, logs and the guest's /host are."""

    tools: Path
    native: Path
    kernel: Path
    initrd: Path
    folder: Path
    variables: tuple[str, ...] = ()  # NAME=value, for the guest
    chip: str = "rk3588"

    @property
    def environment(self) -> dict[str, str]:
        libraries = [str(p) for p in (self.tools / "usr/lib", self.tools / "lib") if p.exists()]
        multiarch = [str(p) for lib in libraries for p in Path(lib).glob("*-linux-gnu")]
        return {
            **os.environ,
            "PATH": f"{self.tools}/usr/bin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": ":".join([*multiarch, os.environ.get("LD_LIBRARY_PATH", "")]),
        }

    @property
    def arguments(self) -> list[str]:
        accelerator = ["-cpu", "cortex-a76"]
        if platform.machine() == "aarch64" and os.access("/dev/kvm", os.R_OK | os.W_OK):
            accelerator = ["-accel", "kvm", "-cpu", "host"]
        data = self.tools / "usr/share/qemu"
        return [
            "qemu-system-aarch64", *(["-L", str(data)] if data.exists() else []),
            "-nodefaults", "-nic", "none", "-machine", "virt,gic-version=2,memory-backend=ram",
            *accelerator, "-smp", "2", "-m", RAM,
            "-object", f"memory-backend-memfd,id=ram,size={RAM},share=on",
        ]  # fmt: skip

    def device_tree(self, overlay: Path) -> Path:
        """QEMU's own tree with the NPU's nodes."""
        base, plain = self.folder / "virt.dtb", self.folder / "npu.dts"
        command = [*self.arguments]
        command[command.index("-machine") + 1] += f",dumpdtb={base}"
        run([*command, "-display", "none"], env=self.environment)
        high = ["-DHIGH_MEMORY"] if has_high_memory() else []
        plain.write_text(run(["cpp", "-nostdinc", "-undef", "-P", "-x", "assembler-with-cpp",
                              *high, str(overlay)]))  # fmt: skip
        compiled, result = self.folder / "npu.dtbo", self.folder / "board.dtb"
        run(["dtc", "-q", "-@", "-O", "dtb", "-o", str(compiled), str(plain)], env=self.environment)
        run(["fdtoverlay", "-i", str(base), "-o", str(result), str(compiled)], env=self.environment)
        return result

    def boot(self, tree: Path, timeout_s: float, *, has_terminal: bool = False) -> None:
        """Until the guest powers off. Raises SystemExit when it makes no progress any more, or is
        not done after ``timeout_s``. ``has_terminal``: its console is this terminal, and it may
        take any time.
        """
        share = self.folder / "host"
        socket = self.folder / "npu.sock"
        socket.unlink(missing_ok=True)
        faults = share / "faults"
        faults.write_text("")
        with open(self.folder / "npu.log", "wb") as log:
            command = [str(self.native / "npu_process"), str(socket), str(faults), self.chip]
            npu = subprocess.Popen(command, stderr=log)
            try:
                while not socket.exists():
                    if npu.poll() is not None:
                        raise SystemExit("the NPU's process did not start: see npu.log")
                    time.sleep(0.05)
                self._run_qemu(tree, socket, share, None if has_terminal else timeout_s)
            finally:
                npu.terminate()
                npu.wait()

    def _run_qemu(self, tree: Path, socket: Path, share: Path, timeout_s: float | None) -> None:
        environment = {
            **self.environment,
            "BOARD_SOCKET": str(socket),
            "LD_PRELOAD": str(self.native / "qemu_npu.so"),
        }
        command = [
            *self.arguments, "-kernel", str(self.kernel), "-initrd", str(self.initrd),
            "-dtb", str(tree), "-append",
            " ".join(["console=ttyAMA0 loglevel=7 panic=-1 log_buf_len=4M", *self.variables]),
            "-display", "none", "-no-reboot",
            "-serial", "mon:stdio" if timeout_s is None else f"file:{self.folder / 'console.log'}",
            "-fsdev", f"local,id=host,path={share},security_model=none",
            "-device", "virtio-9p-device,fsdev=host,mount_tag=host",
        ]  # fmt: skip
        if timeout_s is None:
            subprocess.run(command, env=environment, check=False)
            return
        with open(self.folder / "qemu.log", "wb") as log:
            qemu = subprocess.Popen(command, env=environment, stderr=log, stdout=log)
            try:
                patience = Patience(timeout_s)
                while qemu.poll() is None:
                    patience.look(self._progress(share), self._is_up())
                    time.sleep(_POLL_S)
            finally:
                qemu.kill()
                qemu.wait()

    def _progress(self, share: Path) -> tuple[int, ...]:
        """Grows while anything goes on: the guest speaks, ends a case, or a core ends a task."""
        files = (
            self.folder / "console.log", self.folder / "npu.log", share / "results.jsonl",
            share / "guest.log",
        )  # fmt: skip
        return tuple(file.stat().st_size if file.exists() else 0 for file in files)

    def _is_up(self) -> bool:
        console = self.folder / "console.log"
        return console.exists() and b"guest is up" in console.read_bytes()
