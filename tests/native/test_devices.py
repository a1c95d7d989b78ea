"""Which device is opened, and the refusal to simulate where an NPU exists."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from delegate import _native
from delegate.errors import DeviceError


def add_device(root: Path, sys_class: str, name: str, driver: str, dev_folder: str) -> None:
    device = root / "sys/class" / sys_class / name / "device"
    device.mkdir(parents=True)
    drivers = root / "sys/bus/platform/drivers" / driver
    drivers.mkdir(parents=True, exist_ok=True)
    os.symlink(drivers, device / "driver")
    node = root / "dev" / dev_folder / name
    node.parent.mkdir(parents=True, exist_ok=True)
    node.touch()


def test_no_device_at_all(tmp_path):
    assert _native.find_npu_node(str(tmp_path)) == ""


def test_rocket_is_found_by_driver_not_by_number(tmp_path):
    add_device(tmp_path, "accel", "accel0", "intel_vpu", "accel")
    assert _native.find_npu_node(str(tmp_path)) == ""
    add_device(tmp_path, "accel", "accel1", "rocket", "accel")
    assert _native.find_npu_node(str(tmp_path)) == str(tmp_path / "dev/accel/accel1")


def test_rknpu_among_graphics_devices(tmp_path):
    add_device(tmp_path, "drm", "card0", "rockchip-drm", "dri")
    add_device(tmp_path, "drm", "card1", "RKNPU", "dri")
    assert _native.find_npu_node(str(tmp_path)) == str(tmp_path / "dev/dri/card1")


def test_a_driver_without_a_node_does_not_count(tmp_path):
    add_device(tmp_path, "accel", "accel0", "rocket", "accel")
    (tmp_path / "dev/accel/accel0").unlink()
    assert _native.find_npu_node(str(tmp_path)) == ""


def test_names():
    assert _native.open_device_name("simulator") == "simulator"
    assert _native.open_device_name("null") == "null"


@pytest.mark.skipif(_native.find_npu_node() != "", reason="this machine has an NPU")
def test_auto_is_the_simulator_without_an_npu():
    assert _native.open_device_name() == "simulator"


@pytest.mark.skipif(_native.find_npu_node() != "", reason="this machine has an NPU")
@pytest.mark.parametrize("name", ["rocket", "rknpu"])
def test_a_driver_that_is_not_there_is_named_with_a_way_out(name):
    with pytest.raises(DeviceError, match=f"device {name}: .*it needs .*device=simulator"):
        _native.open_device_name(name)


def test_a_node_that_is_not_there(tmp_path):
    with pytest.raises(DeviceError, match=r"accel7: open: No such file or directory; check"):
        _native.open_device_name(str(tmp_path / "accel7"))


def test_a_file_that_is_no_device(tmp_path):
    (tmp_path / "accel0").touch()
    with pytest.raises(DeviceError, match=r"VERSION: Inappropriate ioctl for device"):
        _native.open_device_name(str(tmp_path / "accel0"))


@pytest.mark.parametrize("name", ["", "gpu", "Simulator"])
def test_unknown_names_are_refused_with_the_valid_ones(name):
    with pytest.raises(DeviceError, match="valid: auto, rocket, rknpu, simulator, null"):
        _native.open_device_name(name)
