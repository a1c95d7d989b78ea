"""Tests which device is opened, and the refusal to simulate where an NPU exists."""

import os
import socket
from pathlib import Path

import pytest

from delegate import _native
from delegate.errors import DeviceError
from tests.kernel.board import add_class_device, bind

FOLDERS = {"accel": "accel", "drm": "dri"}


def add_device(root: Path, sys_class: str, name: str, owner: str, driver: str = "") -> Path:
    """A node and its class's entry; ``owner`` is the platform device, bound to ``driver``."""
    node = add_class_device(root, sys_class, f"dev/{FOLDERS[sys_class]}/{name}", owner)
    if driver and not (root / "sys/devices/platform" / owner / "driver").exists():
        bind(root, owner, driver)
    node.touch()
    return node


def states(root: Path) -> list[tuple[str, str, str]]:
    """Name, driver and state of every node that was found."""
    found = _native.find_npu_nodes(str(root))
    return [(Path(path).name, driver, state) for path, driver, _, state, _ in found]


def test_no_device_at_all(tmp_path):
    assert _native.find_npu_node(str(tmp_path)) == ""


def test_rocket_is_found_by_its_owner_not_by_number(tmp_path):
    """The owner's device has no driver link; a file that is no device only fails to answer."""
    add_device(tmp_path, "accel", "accel0", "0000:00:0b.0", "intel_vpu")
    assert _native.find_npu_node(str(tmp_path)) == ""
    node = add_device(tmp_path, "accel", "accel1", "rknn")
    assert _native.find_npu_node(str(tmp_path)) == str(node)
    assert states(tmp_path) == [("accel0", "intel_vpu", "foreign"), ("accel1", "rocket", "failed")]


def test_nodes_come_in_the_order_of_their_numbers(tmp_path):
    for number in (10, 2, 0):
        add_device(tmp_path, "accel", f"accel{number}", "rknn")
    assert [name for name, _, _ in states(tmp_path)] == ["accel0", "accel2", "accel10"]


def test_rknpu_among_graphics_devices(tmp_path):
    """Its card and its render node are one device."""
    add_device(tmp_path, "drm", "card0", "display-subsystem", "rockchip-drm")
    add_device(tmp_path, "drm", "card1", "fdab0000.npu", "RKNPU")
    node = add_device(tmp_path, "drm", "renderD129", "fdab0000.npu", "RKNPU")
    assert _native.find_npu_node(str(tmp_path)) == str(node)
    assert states(tmp_path) == [("renderD129", "rknpu", "failed")]
    node.unlink()
    assert _native.find_npu_node(str(tmp_path)) == str(tmp_path / "dev/dri/card1")


@pytest.mark.parametrize("owner", ["rknn", "card"])
def test_a_device_without_a_node_does_not_count(tmp_path, owner):
    add_device(tmp_path, "accel", "accel0", owner).unlink()
    assert _native.find_npu_node(str(tmp_path)) == ""
    assert states(tmp_path) == ([("accel0", "rocket", "missing")] if owner == "rknn" else [])


def test_the_vendors_node_without_drm_is_explained_and_never_asked(tmp_path):
    (tmp_path / "dev").mkdir()
    node = tmp_path / "dev/rknpu"
    node.touch()
    assert states(tmp_path) == [("rknpu", "rknpu", "failed")]
    with pytest.raises(DeviceError, match=r"DMA heaps.*CONFIG_ROCKCHIP_RKNPU_DRM_GEM"):
        _native.open_device_name(str(node))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_without_sysfs_a_node_that_may_not_be_opened_may_be_an_npu(tmp_path):
    node = tmp_path / "dev/accel/accel0"
    node.parent.mkdir(parents=True)
    node.touch(mode=0)
    assert states(tmp_path) == [("accel0", "", "denied")]


def add_board(root: Path, compatible: str) -> Path:
    path = root / "proc/device-tree/compatible"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(compatible)
    return path


def add_core(root: Path, name: str, modalias: str) -> None:
    folder = root / "sys/bus/platform/devices" / name
    folder.mkdir(parents=True)
    (folder / "modalias").write_text(modalias)


@pytest.mark.parametrize(
    ("modalias", "chip"),
    [
        ("of:NnpuT(null)Crockchip,rk3588-rknn-core", ("rk3588", True, True)),
        ("of:NnpuT(null)Crockchip,rk3588-rknpu", ("rk3588", True, True)),
        ("of:NnpuT(null)Crockchip,rk3582-rknn-core\n", ("rk3588", True, True)),
        ("of:NnpuT(null)Crockchip,rk3576-rknn-core\n", ("rk3576", True, True)),
        ("of:NnpuT(null)Crockchip,rk3576-rknpu\n", ("rk3576", True, True)),
        # A driver that knows RK3588 alone takes such a core, too.
        (
            "of:NnpuT(null)Crockchip,rk3576-rknn-coreCrockchip,rk3588-rknn-core",
            ("rk3576", True, False),
        ),
        ("of:NnpuT(null)Crockchip,rk3568-rknpu", ("rk3568", False, True)),
        # Whose registers nobody knows.
        ("of:NnpuT(null)Crockchip,rk3599-rknn-core", ("rk3599", False, True)),
        ("of:NnpuT(null)Crockchip,rk3576-iommu", ("", True, False)),
        ("", ("", True, False)),
    ],
)
def test_chips_by_the_names_of_their_cores(tmp_path, modalias, chip):
    add_core(tmp_path, "27700000.npu", modalias)
    add_core(tmp_path, "27900000.gpu", "of:NgpuT(null)Crockchip,rk3576-mali")
    assert _native.npu_chip(str(tmp_path)) == chip


@pytest.mark.parametrize(
    ("names", "chip"),
    [
        ("radxa,rock-5b\0rockchip,rk3588\0", ("rk3588", True, True)),
        ("radxa,e52c\0rockchip,rk3582\0rockchip,rk3588s\0", ("rk3588", True, True)),
        ("radxa,rock-4d\0rockchip,rk3576\0", ("rk3576", True, False)),
        ("raspberrypi,4-model-b\0brcm,bcm2711\0", ("rk3588", True, True)),
        ("linux,dummy-virt\0", ("rk3588", True, True)),
        ("rockchip,rk3576", ("rk3576", True, False)),
        ("rockchip,rk3568-evb\0rockchip,rk3568", ("rk3568", False, False)),
        ("\0\0", ("rk3588", True, True)),
    ],
)
def test_chips_by_the_names_of_their_boards(tmp_path, names, chip):
    """The board decides, as its core may have another chip's name, so that a driver takes it."""
    add_core(tmp_path, "27700000.npu", "of:NnpuT(null)Crockchip,rk3588-rknn-core")
    add_board(tmp_path, names)
    assert _native.npu_chip(str(tmp_path)) == chip
    # Without a core there is the board alone.
    (tmp_path / "sys/bus/platform/devices/27700000.npu/modalias").unlink()
    is_board = "rockchip,rk" in names
    assert _native.npu_chip(str(tmp_path)) == (
        (*chip[:2], False) if is_board else ("", True, False)
    )


FAMILIES = {
    **dict.fromkeys(("rk3588", "rk3582", "rk3583"), "rk3588"),
    "rk3576": "rk3576",
    **dict.fromkeys(("rk3562", "rk3566", "rk3568", "rv1103", "rv1106", "rv1126"), ""),
}
"""Names that are told on boards without a core, and the chip whose programs they run."""


@pytest.mark.parametrize(("name", "chip"), FAMILIES.items())
def test_families_are_known_by_their_boards_and_cores(tmp_path, name, chip):
    """Variants with letters behind their name, too."""
    for variant in (name, f"{name}s"):
        compatible = add_board(tmp_path, f"some,board\0rockchip,{variant}\0")
        assert _native.npu_chip(str(tmp_path)) == (chip or name, chip != "", False)
    compatible.unlink()
    for kind in ("rknn-core", "rknpu"):
        add_core(tmp_path, f"{kind}.npu", f"of:NnpuT(null)Crockchip,{name}-{kind}")
    assert _native.npu_chip(str(tmp_path)) == (chip or name, chip != "", True)


@pytest.mark.parametrize(
    ("names", "chip"),
    [
        ("rockchip,rk3588\0rockchip,rk3576\0", "rk3588"),
        ("rockchip,rk3576\0rockchip,rk3588\0", "rk3588"),
        ("rockchip,rk3568\0rockchip,rk3576\0", "rk3576"),
        ("somebody,rk3576\0rockchip,rk3568\0", "rk3568"),
        ("somebody,rk3576\0", ""),
        ("fairvend,rk3576\0rockchip,px30\0", ""),
    ],
)
def test_which_of_a_boards_names_counts(tmp_path, names, chip):
    """Only Rockchip's own; RK3588's before others, then the last, which is the most general."""
    add_board(tmp_path, names)
    assert _native.npu_chip(str(tmp_path))[0] == chip


@pytest.mark.parametrize(("place", "cores"), [(0, 1), (0, 3), (1, 3), (2, 3)])
@pytest.mark.parametrize("board", ["", "rk3588", "rk3576"])
def test_one_core_of_another_chip_is_enough(tmp_path, place, cores, board):
    """Names of the board and of the other cores do not count, and no driver is believed then."""
    for number in range(cores):
        name = "rk3576" if number == place else "rk3588"
        add_core(tmp_path, f"{number}.npu", f"of:NnpuT(null)Crockchip,{name}-rknn-core")
    if board:
        add_board(tmp_path, f"rockchip,{board}\0")
    believed = cores == 1 and board != "rk3588"
    assert _native.npu_chip(str(tmp_path)) == ("rk3576", True, believed)


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


def other_files(folder: Path) -> dict[str, str]:
    """Paths that must not even be opened, and what they are called."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket"))
    return {
        str(folder / "pipe"): "a pipe",
        str(folder / "socket"): "a socket",
        str(folder): "a directory",
        "/dev/null": "another device",
        "/dev/tty": "another device",
        "/dev/ptmx": "another device",
    }


def test_what_is_no_node_of_a_device_is_not_opened(tmp_path):
    """Opening some of these waits, or does something; /dev/ptmx makes a terminal, for one."""
    for path, kind in other_files(tmp_path).items():
        if not Path(path).exists():
            continue
        with pytest.raises(DeviceError, match=f"^{path} is {kind}, not the node of an NPU"):
            _native.open_device_name(path)


@pytest.mark.parametrize("name", ["", "gpu", "Simulator"])
def test_unknown_names_are_refused_with_the_valid_ones(name):
    with pytest.raises(DeviceError, match="valid: auto, rocket, rknpu, simulator, null"):
        _native.open_device_name(name)
