"""Tests what `make wheels` and `make check-wheels` judge and write, without building anything."""

import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from rk3588_vision.zoo import read_manifest
from tools.board.packages import UnavailableError, suite_sources
from tools.wheels import check
from tools.wheels.build import find_python, find_wheel, unpack_sdist
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
    for wrong in ("", ANSWER.replace("30 of", "0 of"), "".join([*lines[:3], lines[4], lines[3]])):
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


@pytest.fixture
def complete_wheel() -> dict[str, int]:
    """Return what a wheel holds: names and the bits of their permissions."""
    packages = ("delegate/__init__.py", "rk3588_conformance/__init__.py", "rk3588_vision/x.py")
    more = ("delegate/py.typed", "delegate/_native.pyi", "a-1.dist-info/licenses/LICENSE")
    libraries = ("delegate/_native.cp311.so", *check.LIBRARIES)
    return {**dict.fromkeys((*packages, *more), 0o644), **dict.fromkeys(libraries, 0o755)}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tests/test_a.py": 0o644}, "has the folders .*tests"),
        ({"delegate/py.typed": None}, r"has no delegate/py\.typed"),
        ({"a-1.dist-info/licenses/LICENSE": None}, "has no licenses/LICENSE"),
        ({"delegate/librk3588_delegate.so": 0o644}, "is not executable"),
        ({"delegate/librk3588_delegate.so": None}, "has the libraries"),
        ({"rk3588_vision/x.py": None}, "has the folders"),
    ],
)
def test_a_wheel_that_is_not_whole_is_refused(
    tmp_path: Path, complete_wheel: dict[str, int], change: dict[str, int | None], complaint: str
) -> None:
    def check_held(held: dict[str, int | None]) -> None:
        with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
            for name, mode in held.items():
                if mode is not None:
                    entry = zipfile.ZipInfo(name)
                    entry.external_attr = mode << 16
                    archive.writestr(entry, "text")
        check.check_contents(tmp_path / "a.whl")

    check_held({**complete_wheel})
    with pytest.raises(SystemExit, match=complaint):
        check_held({**complete_wheel, **change})


def test_a_library_that_needs_more_than_the_c_library_is_refused(tmp_path: Path) -> None:
    if shutil.which("readelf") is None or shutil.which("c++") is None:
        pytest.skip("no readelf or no compiler")
    (tmp_path / "a.cpp").write_text('#include <string>\nint f() { return std::stoi("1"); }\n')
    for flags, is_fine in ((["-static-libstdc++", "-static-libgcc"], True), ([], False)):
        library = tmp_path / "a.so"
        command = ["c++", "-shared", "-fPIC", *flags, "-o", str(library), str(tmp_path / "a.cpp")]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
            archive.write(library, "delegate/a.so")
        if is_fine:
            check.check_needs(tmp_path / "a.whl")
        else:
            with pytest.raises(SystemExit, match=r"needs .*libstdc\+\+"):
                check.check_needs(tmp_path / "a.whl")


def test_wheels_are_built_from_the_source_distribution(tmp_path: Path) -> None:
    """Files that are the same keep their time, by which ninja knows them; others go."""
    folder = tmp_path / "source"

    def unpack(**files: str) -> None:
        with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
            for name, text in files.items():
                (tmp_path / "file").write_text(text)
                archive.add(tmp_path / "file", f"a-1.0/native/{name}")
        unpack_sdist(tmp_path / "a.tar.gz", folder)

    unpack(same="1", changed="2", gone="3")
    before = (folder / "native/same").stat().st_mtime_ns
    unpack(same="1", changed="4", new="5")
    held = {path.name: path.read_text() for path in (folder / "native").iterdir()}
    assert held == {"same": "1", "changed": "4", "new": "5"}
    assert (folder / "native/same").stat().st_mtime_ns == before


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
