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
    """The NPU if its kernel driver is bound, then the simulator and the null device.

    The first usable one is what ``device=auto`` takes, unless an NPU is there that cannot be used.
    ``root``: the directory that holds dev/ and sys/. Opens the NPU's node.
    """
    from delegate import _native

    found = []
    node = _native.find_npu_node(root)
    if node:
        try:
            found.append(DeviceInfo(node, True, True, _native.open_device_name(node)))
        except DeviceError as error:
            found.append(DeviceInfo(node, True, False, str(error)))
    found.append(
        DeviceInfo("simulator", False, True, "executes register programs on the CPU, slowly")
    )
    found.append(DeviceInfo("null", False, True, "computes nothing: measures the host's share"))
    return tuple(found)
