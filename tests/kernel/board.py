"""Boards without a board: folders with device nodes, and processes that meet them.

The stand-in kernel (``tests/kernel/standin``) is preloaded into a Python process of its own, which
runs a *worker* (``work`` of a module ``tests.kernel.worker_*``) with JSON arguments and prints one
JSON document. Its parent is a server that has everything imported.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kernel.fork_server import ROOT, ForkServers
from tests.processes import python

ROCKET_NODE = "dev/accel/accel0"
RKNPU_NODE = "dev/dri/renderD128"
RKNPU_CARD = "dev/dri/card0"
RKNPU_DELAY = "sys/kernel/debug/rknpu/delayms"


def add_class_device(root: Path, sys_class: str, node: str, owner: str) -> Path:
    """The sysfs entry of one device of a class, whose ``device`` is the platform device ``owner``;
    returns the path of its node, whose folder exists.
    """
    entry = root / "sys/class" / sys_class / Path(node).name
    entry.mkdir(parents=True)
    (root / "sys/devices/platform" / owner).mkdir(parents=True, exist_ok=True)
    os.symlink(f"../../../devices/platform/{owner}", entry / "device")
    path = root / node
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def bind(root: Path, owner: str, driver: str) -> None:
    """Gives a platform device a driver."""
    drivers = root / "sys/bus/platform/drivers" / driver
    drivers.mkdir(parents=True, exist_ok=True)
    os.symlink(
        f"../../../bus/platform/drivers/{driver}", root / "sys/devices/platform" / owner / "driver"
    )


CORES = ("fdab0000.npu", "fdac0000.npu", "fdad0000.npu")


def add_cores(
    root: Path,
    names: tuple[str, ...] = CORES,
    bound: int = len(CORES),
    kind: str = "rk3588-rknn-core",
) -> None:
    """The cores of a mainline device tree among the platform devices."""
    for i, name in enumerate(names):
        device = root / "sys/devices/platform" / name
        device.mkdir(parents=True)
        (device / "modalias").write_text(f"of:NnpuT(null)Crockchip,{kind}\n")
        links = root / "sys/bus/platform/devices"
        links.mkdir(parents=True, exist_ok=True)
        os.symlink(f"../../../devices/platform/{name}", links / name)
        if i < bound:
            bind(root, name, "rocket")


def _plain_environment(library: Path) -> dict[str, str]:
    """The variables of a process that has the stand-in kernel and no board yet."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("RK3588_")}
    return {**own, "LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)}


@functools.cache
def _servers(library: Path) -> ForkServers:
    return ForkServers(_plain_environment(library))


@dataclass(frozen=True)
class Board:
    """``root`` holds dev/ and sys/ as the processes see them."""

    root: Path
    library: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            **_plain_environment(self.library),
            "RK3588_STANDIN_ROOT": str(self.root),
            "XDG_CACHE_HOME": str(self.root / "cache"),
            # What these tests count and break is the model's own work.
            "RK3588_DELEGATE_VERIFY": "off",
            "RK3588_DELEGATE_DENY_OPS": "NONE",
        }

    def add_rocket(self, version: str = "0.0.0", batch_switch: int | None = None, **more: object):
        """Sysfs of mainline: the node's device is `rknn`, without a driver; the cores have it."""
        node = add_class_device(self.root, "accel", ROCKET_NODE, "rknn")
        add_cores(self.root)
        (self.root / "sys/module/rocket").mkdir(parents=True)
        lines = {"driver": "rocket", "version": version, **more}
        node.write_text("".join(f"{k}={v}\n" for k, v in lines.items()))
        if batch_switch is not None:
            switch = self.root / "sys/module/rocket/parameters/rocket_batch_submit"
            switch.parent.mkdir()
            switch.write_text(f"{batch_switch}\n")
        return self

    def add(self, driver: str, chip: str = "rk3588", **more: Any) -> Board:
        """The chip's NPU, which the driver knows."""
        is_rocket = driver == "rocket"
        if chip == "rk3576":
            more |= {"chip": chip, "cores": 2}
        made: Board = self.add_rocket(**more) if is_rocket else self.add_rknpu(**more)
        return (
            made if chip == "rk3588" else made.of_chip(chip, "rknn-core" if is_rocket else "rknpu")
        )

    def of_chip(self, chip: str, kind: str, more: str = "") -> Board:
        """Calls the cores after another chip; with ``more`` also after a second one."""
        folder = self.root / "sys/bus/platform/devices"
        names = f"Crockchip,{chip}-{kind}" + (f"Crockchip,{more}-{kind}" if more else "")
        if not folder.exists():
            add_cores(self.root, ("27700000.npu",), bound=0)
        for core in folder.glob("*.npu"):
            (core / "modalias").write_text(f"of:NnpuT(null){names}\n")
        return self

    def add_second_rocket(self) -> Board:
        """Another NPU of the same driver, on a node of its own."""
        node = add_class_device(self.root, "accel", "dev/accel/accel1", "rknn")
        node.write_text("driver=rocket\nversion=0.0.0\n")
        return self

    def add_rknpu(self, version: str = "0.9.8", rest_ms: int = 20, **more: Any):
        """Sysfs as the vendor's driver makes it: a card and a render node of one device. The driver
        says in debugfs how soon it powers the NPU off: soon, since every reset waits for it.
        """
        owner = "fdab0000.rknpu"
        lines = {"driver": "rknpu", "version": version, "rest_ms": rest_ms, "reset_ms": 0, **more}
        for node in (RKNPU_CARD, RKNPU_NODE):
            path = add_class_device(self.root, "drm", node, owner)
            path.write_text("".join(f"{k}={v}\n" for k, v in lines.items()))
        bind(self.root, owner, "RKNPU")
        delay = self.root / RKNPU_DELAY
        delay.parent.mkdir(parents=True)
        delay.write_text(f"{rest_ms}\n")
        return self

    def python(
        self, *arguments: str, faults: str = "", timeout: float = 300, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs Python on the board. Workers are children of a process that has all imported."""
        environment = {**self.environment, "RK3588_STANDIN_FAULTS": faults, **environ}
        if arguments[0] == "-m" and arguments[1].startswith(("tests.", "delegate")):
            return _servers(self.library).run(arguments[1], arguments[2:], environment, timeout)
        return python(*arguments, timeout=timeout, env=environment)

    def work(self, worker: str, timeout: float = 300, **arguments: Any) -> Any:
        """Return a worker's JSON, to which the stand-in must not object; nothing is "live" then."""
        done = self.python(
            "-m", "tests.kernel.work", worker, json.dumps(arguments), timeout=timeout
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        answer = json.loads(done.stdout.splitlines()[-1])
        if isinstance(answer, dict):
            assert answer.pop("violations") == []
            assert answer.pop("live", [0, 0, 0]) == [0, 0, 0]
        return answer
