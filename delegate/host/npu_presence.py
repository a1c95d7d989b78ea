"""The NPU as the kernel shows it: device nodes, cores, the driver's module, and what is missing.

Reads sysfs and asks the nodes' drivers for their versions. ``root`` is the directory that holds
dev/ and sys/.
"""

from __future__ import annotations

import grp
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from delegate.chip.chips import DEFAULT
from delegate.host.host_facts import read_fact

_MAINLINE_CORE = "rknn-core"
"""A part of the cores' names in mainline device trees: rockchip,rk3588-rknn-core."""
_VENDOR_CORE = "rknpu"
"""A part of the NPU's name in the vendor's device trees: rockchip,rk3588-rknpu."""
_LOAD = (
    "sudo modprobe rocket, and at every start: echo rocket | sudo tee "
    "/etc/modules-load.d/rocket.conf (a kernel without the module: CONFIG_DRM_ACCEL_ROCKET, Linux "
    "6.18 or later)"
)
_NO_DRIVER = (
    "on a board: Linux 6.18 or later with CONFIG_DRM_ACCEL_ROCKET and the NPU enabled in the "
    "device tree, or a vendor kernel with RKNPU; in a container: pass /dev/accel or "
    "/dev/dri into it"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """``level``: ok, note or problem. ``remedy`` is empty for what is well."""

    level: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A device node of an NPU, or one that may be.

    ``driver`` is "" if nobody could be asked. ``state``: usable, missing, denied, failed, foreign
    (of another driver), as ``delegate._native.find_npu_nodes`` says.
    """

    path: str
    driver: str
    version: str | None
    state: str
    exists: bool
    mode: str | None
    group: str | None
    accessible: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class Cores:
    """The NPU's cores among the platform devices, and the driver meant for them.

    ``driver``: rocket or rknpu, "" if there are no cores. ``bound``: cores that a driver has taken.
    ``chip``: whose NPU they are, by name; "" where nothing says. ``is_known_chip``: whether
    programs can be compiled for it.
    """

    driver: str
    total: int
    bound: int
    is_module_loaded: bool
    chip: str = ""
    is_known_chip: bool = True


def find_nodes(root: Path) -> tuple[Node, ...]:
    """Return all nodes, those of other drivers, too. Opens nodes."""
    from delegate._native import find_npu_nodes

    return tuple(
        _node(path, driver, version, state, problem)
        for path, driver, version, state, problem in find_npu_nodes(str(root))
    )


def _node(path: str, driver: str, version: str, state: str, problem: str) -> Node:
    try:
        status = os.stat(path)
    except OSError:
        return Node(path, driver, version or None, state, False, None, None, False, problem or None)
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    return Node(
        path, driver, version or None, state, True, oct(status.st_mode & 0o777), group,
        state != "denied" and os.access(path, os.R_OK | os.W_OK), problem or None,
    )  # fmt: skip


def find_cores(root: Path) -> Cores:
    """Return the cores by the names that the device tree gives them."""
    from delegate._native import npu_chip

    total = bound = 0
    driver = ""
    for device in sorted((root / "sys/bus/platform/devices").glob("*.npu")):
        name = read_fact(device / "modalias")
        if _MAINLINE_CORE not in name and _VENDOR_CORE not in name:
            continue
        driver = "rocket" if _MAINLINE_CORE in name else "rknpu"
        total += 1
        bound += (device / "driver").exists()
    is_loaded = bool(driver) and (root / "sys/module" / driver).exists()
    chip, is_known, _ = npu_chip(str(root))
    return Cores(driver, total, bound, is_loaded, chip, is_known)


def presence_findings(nodes: tuple[Node, ...], cores: Cores, device: str) -> Iterator[Finding]:
    """Yield what the nodes and cores mean for somebody who asks for ``device``."""
    own = [node for node in nodes if node.state != "foreign"]
    for node in nodes:
        yield from _node_findings(node, cores.chip not in ("", DEFAULT.name))
    if cores.chip and any(node.state == "usable" for node in own):
        yield Finding("ok", f"the NPU is {cores.chip}'s: programs are compiled for it")
    if cores.driver == "rocket" and 0 < cores.bound < cores.total:
        yield Finding(
            "note", f"driver rocket has {cores.bound} of {cores.total} cores",
            "sudo cat /sys/kernel/debug/devices_deferred; dmesg | grep -i -e rocket -e npu",
        )  # fmt: skip
    if own:
        if device in ("rocket", "rknpu") and not any(n.driver in (device, "") for n in own):
            yield Finding("problem", f"no node of driver {device} was found", _NO_DRIVER)
        return
    yield _absence(cores, device)


def _absence(cores: Cores, device: str) -> Finding:
    """Return why there is no node at all."""
    if not cores.is_known_chip:
        return Finding(
            "note" if device in ("auto", "simulator", "null") else "problem",
            f"the NPU of this machine is {cores.chip}'s, for which no program can be compiled",
            "use device=simulator",
        )  # fmt: skip
    if cores.chip not in ("", DEFAULT.name) and cores.bound == 0:
        return Finding(
            "note" if device in ("auto", "simulator", "null") else "problem",
            f"the NPU of this machine is {cores.chip}'s, and no driver has it",
            "the vendor's kernel (rknpu), or one whose rocket has an entry for "
            f"rockchip,{cores.chip}-{_MAINLINE_CORE}; until then device=simulator with "
            f"chip={cores.chip}",
        )  # fmt: skip
    if cores.driver == "rocket" and not cores.is_module_loaded and cores.bound == 0:
        return Finding(
            "problem", f"{cores.total} NPU cores are there, but module rocket is not loaded", _LOAD
        )
    if cores.driver == "rocket" and cores.bound == 0:
        return Finding(
            "problem", f"module rocket is loaded, but has none of the {cores.total} NPU cores",
            "what they wait for: sudo cat /sys/kernel/debug/devices_deferred; dmesg | grep -i -e "
            "rocket -e npu -e iommu (it needs CONFIG_ROCKCHIP_IOMMU and the NPU's power domains)",
        )  # fmt: skip
    if cores.driver == "rknpu":
        return Finding(
            "problem", "the device tree is the vendor's, but no node of driver rknpu was found",
            "a vendor kernel with CONFIG_ROCKCHIP_RKNPU_DRM_GEM; in a container: pass /dev/dri "
            "into it",
        )  # fmt: skip
    if device in ("rocket", "rknpu"):
        return Finding("problem", f"no node of driver {device} was found", _NO_DRIVER)
    return Finding("note", "no NPU driver is bound", _NO_DRIVER)


def _node_findings(node: Node, is_other_chip: bool) -> Iterator[Finding]:
    if node.state == "foreign":
        yield Finding("ok", f"{node.path} is no NPU of Rockchip's: driver {node.driver or '-'}")
    elif node.state == "missing" or (
        node.state == "failed"
        and (is_other_chip or (node.driver == "rknpu" and Path(node.path).name == "rknpu"))
    ):
        # No node, a driver of another chip, or the vendor's node without DRM: permissions would
        # not help.
        text, _, remedy = (node.problem or "").partition("; ")
        yield Finding("problem", text, remedy)
    elif node.state == "denied" or not node.accessible:
        whose = "" if node.driver else "; whether it is an NPU cannot be told without"
        yield Finding(
            "problem",
            f"no permission for {node.path} (mode {node.mode}, group {node.group}){whose}",
            f"sudo usermod -aG {node.group} $USER, then log in again",
        )
    elif node.problem is not None:
        yield Finding("problem", node.problem, "see dmesg")
    else:
        yield Finding("ok", f"{node.path}: driver {node.driver} {node.version}")
        if node.group == "root":
            yield Finding(
                "note", f"{node.path} belongs to group root: other users cannot open it",
                _udev_rule(node),
            )  # fmt: skip


def _udev_rule(node: Node) -> str:
    """Return a rule for udev, of the vendor's driver for the NPU's nodes only: graphics devices
    have render nodes, too.
    """
    match = 'SUBSYSTEM=="accel", KERNEL=="accel*"'
    if node.driver == "rknpu":
        match = 'SUBSYSTEM=="drm", KERNEL=="renderD*|card*", DRIVERS=="RKNPU"'
    return (
        f'a udev rule in /etc/udev/rules.d/99-npu.rules: {match}, GROUP="render", MODE="0660"; '
        "then: sudo udevadm control --reload; sudo udevadm trigger"
    )
