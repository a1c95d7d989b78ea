"""What users install: the wheel built from the source distribution, in its own environment."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy
import pytest

from delegate import __version__

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "models" / "digits"

pytestmark = pytest.mark.slow
pytest.importorskip("scikit_build_core", reason="the build tools are not installed here")
pytest.importorskip("build", reason="the build tools are not installed here")


def run(*command: object, cwd: Path) -> str:
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return result.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", folder, ROOT, cwd=folder)
    return next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index",
        "-w", folder, sdist, cwd=folder,
    )  # fmt: skip
    return next(folder.glob("*.whl"))


def test_source_distribution_holds_what_a_build_and_a_test_need(sdist: Path) -> None:
    with tarfile.open(sdist) as tar:
        names = {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}
    assert {"LICENSE", "README.md", "CMakeLists.txt", "native/host/device.h"} <= names
    assert {"models/demo.py", "tests/package/test_wheel.py"} <= names
    assert [name for name in names if name.endswith((".so", ".pyc"))] == []
    assert {"native/board/npu_process.cpp", "native/board/qemu_npu.c"} & names == {
        "native/board/npu_process.cpp"
    }
    assert [name for name in names if name.startswith((".venv", "build/", "shared/"))] == []


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {
        "delegate",
        f"rk3588_delegate-{__version__}.dist-info",
    }
    module, loader = sorted(name for name in names if name.endswith(".so"))
    assert re.fullmatch(r"delegate/_native\..*\.so", module)
    assert loader == "delegate/librk3588_delegate.so"
    for name in (module, loader):  # which the keeper executes
        assert archive.getinfo(name).external_attr >> 16 & 0o111 == 0o111, name
    assert {"delegate/py.typed", "delegate/_native.pyi"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


# What every Linux has, and auditwheel's policy for manylinux_2_28 allows.
SYSTEM_LIBRARIES = {"libc", "libm", "libdl", "libpthread", "librt", "libstdc++", "libgcc_s"}
LARGEST_BYTES = 3 << 20


def test_wheel_is_small_and_needs_system_libraries_only(wheel: Path, tmp_path: Path) -> None:
    assert wheel.stat().st_size < LARGEST_BYTES
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so"):
                dynamic = run("readelf", "-d", archive.extract(name, tmp_path), cwd=tmp_path)
                needed = set(re.findall(r"\(NEEDED\).*\[(?!ld-linux)([^].]+)\.so", dynamic))
                assert needed <= SYSTEM_LIBRARIES, name
                # The library for C hosts brings its own C++ runtime: images may have an old one.
                if name.endswith("librk3588_delegate.so"):
                    assert not needed & {"libstdc++", "libgcc_s"}


def test_installed_wheel_classifies(wheel: Path, tmp_path: Path) -> None:
    """Outside the source tree; NumPy, Pillow and the runtime come from this environment."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    site = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path)
        .strip()
    )  # fmt: skip
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--target", site, wheel, cwd=tmp_path)
    # A path in a .pth file brings packages, but not the editable install of this tree.
    (site / "dependencies.pth").write_text(f"{Path(numpy.__file__).parents[1]}\n")
    library = run(python, "-m", "delegate", "library-path", cwd=tmp_path).strip()
    assert Path(library).parent == site / "delegate"
    out = run(
        python, "-m", "delegate", "classify", DIGITS / "images" / "digit_4.png",
        "--model", DIGITS / "digits_int8.tflite", "--json", cwd=tmp_path,
    )  # fmt: skip
    document = json.loads(out)
    assert document["top"][0]["index"] == 4
    assert document["delegated_nodes"] == 12
