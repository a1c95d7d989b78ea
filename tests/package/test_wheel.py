"""The source distribution is whole; `make check-wheels` builds the wheels from it and runs them."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow
pytest.importorskip("scikit_build_core", reason="the build tools are not installed here")
pytest.importorskip("build", reason="the build tools are not installed here")


def test_source_distribution_holds_what_a_build_and_a_test_need(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", tmp_path, ROOT],
        cwd=tmp_path, capture_output=True, check=True,
    )  # fmt: skip
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        names = {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}
    assert {"LICENSE", "README.md", "CMakeLists.txt", "native/host/device.h"} <= names
    assert {"models/demo.py", "tests/package/test_wheel.py"} <= names
    assert [name for name in names if name.endswith((".so", ".pyc"))] == []
    assert {"tools/board/native/npu_process.cpp", "tools/board/native/qemu_npu.c"} & names == {
        "tools/board/native/npu_process.cpp"
    }
    assert [name for name in names if name.startswith((".venv", "build/", "shared/"))] == []
