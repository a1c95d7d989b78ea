"""The C program of docs/ahead_of_time.md compiles with its link line as shown, and runs."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import delegate
from tests.hosts.c_library import FOLDERS, UnavailableError, library_folder
from tests.hosts.conftest import clean_environment, compiled, run_in_python

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ahead_of_time.md").read_text(encoding="utf-8")
MODEL = ROOT / "models" / "digits" / "digits_int8.tflite"
SECONDS = 60


def shown_program() -> str:
    (program,) = re.findall(r"^```c\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in a folder of its own with the page's command line, warnings being errors."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    try:
        source = library_folder()
    except UnavailableError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("c_program")
    tflite = folder / "tflite"
    tflite.mkdir()
    (tflite / "include").symlink_to(source / "include")
    (tflite / "lib").symlink_to(source / FOLDERS[platform.machine()])
    (folder / "infer.c").write_text(shown_program())
    (command,) = re.findall(r"^    (cc .*)$", PAGE, re.MULTILINE)
    subprocess.run(
        f"{command} -Wall -Wextra -Werror", shell=True, cwd=folder, check=True,
        env=clean_environment(TFLITE=str(tflite)), timeout=SECONDS,
    )  # fmt: skip
    return folder / "infer"


def run(program: Path, model: bytes, content: bytes, **variables: str) -> tuple[int, bytes, str]:
    path = program.with_name("compiled.tflite")
    path.write_bytes(model)
    done = subprocess.run(
        [str(program), delegate.library_path(), str(path)], input=content, capture_output=True,
        env=clean_environment(**variables), timeout=SECONDS, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr.decode()


def test_program_of_the_page_gives_the_bytes_of_python(program: Path) -> None:
    content, expected = run_in_python(MODEL)
    code, output, said = run(program, compiled(MODEL), content)
    assert code == 0, said
    assert output == expected
    assert "compiled operators" in said


def test_wrong_option_is_one_true_message(program: Path) -> None:
    """A compiled model gives it, too: no word of missing compilers or devices."""
    content, _ = run_in_python(MODEL)
    code, output, said = run(program, compiled(MODEL), content, RK3588_DELEGATE_DEVICE="npu")
    assert code == 1
    assert output == b""
    lines = said.strip().splitlines()
    assert len(lines) == 1, said
    assert "RK3588_DELEGATE_DEVICE is 'npu'; expected" in lines[0]


def test_short_input_is_told(program: Path) -> None:
    code, _, said = run(program, compiled(MODEL), b"1")
    assert code == 1
    assert "the input is too short" in said
