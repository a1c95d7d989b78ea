"""The devices of this machine, for people and programs that choose one."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.errors import DeviceError


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """``name`` is what the option ``device`` takes. ``detail`` says what a device is good for, or
    why it cannot be opened."""

    name: str
    is_npu: bool
    is_usable: bool
    detail: str


def find_devices(root: str = "/") -> tuple[DeviceInfo, ...]:
    """The NPUs' device nodes, then the simulator and the null device.

    ``device=auto`` takes the first usable one, unless there are only NPUs that cannot be used.
    ``root``: the directory that holds dev/ and sys/. Opens the NPUs' nodes.
    """
    from delegate._native import find_npu_nodes, open_device_name

    found = []
    for node, _, _, state, problem in find_npu_nodes(root):
        if state == "foreign":
            continue
        if state != "usable":
            found.append(DeviceInfo(node, True, False, problem))
            continue
        try:
            found.append(DeviceInfo(node, True, True, open_device_name(node)))
        except DeviceError as error:
            found.append(DeviceInfo(node, True, False, str(error)))
    found.append(
        DeviceInfo("simulator", False, True, "executes register programs on the CPU, slowly")
    )
    found.append(DeviceInfo("null", False, True, "computes nothing: measures the host's share"))
    return tuple(found)
