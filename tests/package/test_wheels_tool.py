"""What `make wheels` and `make check-wheels` judge and write, without building anything."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from rk3588_vision.zoo import read_manifest
from tools.board.packages import UnavailableError, suite_sources
from tools.wheels import check
from tools.wheels.build import find_python, find_wheel
from tools.wheels.debian import build_deb

ANSWER = """\
delegated   30 of 31 nodes

 score  class  label
0.8945    653  military uniform
0.0273    907  Windsor tie
"""


@pytest.mark.parametrize(
    ("found", "is_fine"),
    [
        ("manylinux_2_17_aarch64", True),
        ("manylinux_2_28_aarch64", True),
        ("manylinux_2_31_aarch64", False),
        ("manylinux_3_1_aarch64", False),
        ("manylinux_2_17_x86_64", False),
        ("linux_aarch64", False),
    ],
)
def test_an_older_system_will_do_and_a_newer_one_not(found: str, is_fine: bool) -> None:
    assert check.is_older_or_equal(found, "manylinux_2_28_aarch64") == is_fine


def test_the_readme_installs_a_wheel_and_classifies_what_it_fetches() -> None:
    steps = check.board_steps().splitlines()
    assert len(steps) == 6
    assert "rk3588_delegate-*.whl" in steps[2]
    assert steps[3] == "rk3588-delegate doctor || test $? = 3"
    fetched = steps[4].partition("fetch ")[2].partition(" --")[0].split()
    entries = read_manifest()
    assert {entries[name].file for name in fetched} == {
        word for word in steps[5].split() if "." in word
    }


def test_an_answer_is_right_or_the_check_ends() -> None:
    check.check_answer(ANSWER)
    lines = ANSWER.splitlines(keepends=True)
    for wrong in (
        "",
        ANSWER.replace("30 of", "0 of"),
        "".join([*lines[:3], lines[4], lines[3]]),
    ):
        with pytest.raises(SystemExit, match="not a military uniform by 30 of 31 nodes"):
            check.check_answer(wrong)


def test_a_source_distribution_with_the_file_of_qemus_licence_is_refused(tmp_path: Path) -> None:
    for name, is_fine in (
        ("tools/board/native/core.cpp", True),
        ("tools/board/native/qemu_npu.c", False),
    ):
        (tmp_path / "file").touch()
        with tarfile.open(tmp_path / "package.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "file", f"package/{name}")
        if is_fine:
            check.check_sdist(tmp_path)
        else:
            with pytest.raises(SystemExit, match="qemu_npu"):
                check.check_sdist(tmp_path)


def test_what_is_not_to_be_had_is_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources.list"
    sources.write_text("deb file:/mirror stable main\n")
    monkeypatch.setenv("BOARD_SOURCES", str(sources))
    assert suite_sources("bookworm") == sources.read_text()
    monkeypatch.delenv("BOARD_SOURCES")
    monkeypatch.setattr("tools.board.packages.run", lambda _: "http://mirror/ubuntu ubuntu")
    with pytest.raises(UnavailableError, match="BOARD_SOURCES"):
        suite_sources("bookworm")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"install it .* or name other versions"):
        find_python("3.12")


def make_wheel(folder: Path, tag: str) -> Path:
    path = folder / f"rk3588_delegate-1.0-{tag}-{tag}-manylinux_2_28_aarch64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (
            (f"delegate/_native.{tag}.so", "module"),
            ("delegate/librk3588_delegate.so", "library"),
            ("delegate/__main__.py", "def run():\n    return 7\n"),
            ("another_package/__init__.py", ""),
            ("rk3588_delegate-1.0.dist-info/RECORD", "files"),
            ("rk3588_delegate-1.0.dist-info/WHEEL", "tags"),
            (
                "rk3588_delegate-1.0.dist-info/entry_points.txt",
                "[console_scripts]\nrk3588-delegate = delegate.__main__:run\n",
            ),
        ):
            archive.writestr(name, text)
    return path


def test_a_debian_package_has_the_modules_of_every_python(tmp_path: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb")
    wheels = [make_wheel(tmp_path, tag) for tag in ("cp310", "cp313")]
    assert find_wheel(tmp_path, "aarch64", "3.13") == wheels[1]
    with pytest.raises(SystemExit, match=r"0 wheels for aarch64 and Python 3\.12"):
        find_wheel(tmp_path, "aarch64", "3.12")
    package = build_deb("aarch64", wheels, tmp_path)
    subprocess.run(["dpkg-deb", "-x", package, tmp_path / "root"], check=True)
    packages = tmp_path / "root/usr/lib/python3/dist-packages"
    assert {path.name for path in packages.iterdir()} == {
        "delegate", "another_package", "rk3588_delegate-1.0.dist-info"
    }  # fmt: skip
    modules = {path.name for path in (packages / "delegate").glob("_native*")}
    assert modules == {"_native.cp310.so", "_native.cp313.so"}
    library = tmp_path / "root/usr/lib/aarch64-linux-gnu/librk3588_delegate.so"
    assert library.read_text() == "library"
    script = tmp_path / "root/usr/bin/rk3588-delegate"
    done = subprocess.run([script], env={"PYTHONPATH": str(packages)}, check=False)
    assert done.returncode == 7
