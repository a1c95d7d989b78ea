"""The C program of docs/compiled_model.md, with the published library and without Python."""

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

import delegate
from delegate.host.litert import litert_problem
from tests.hosts.conftest import clean_environment, run_in_python
from tests.shared_folder import DIGITS

_problem = litert_problem()
pytestmark = pytest.mark.skipif(bool(_problem), reason=_problem)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "compiled_model.md").read_text(encoding="utf-8")
SECONDS = 120


def shown() -> str:
    (text,) = re.findall(r"^```c\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def build(text: str, folder: Path) -> Path:
    """Build with the page's command line, warnings being errors."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (folder / "infer.c").write_text(text)
    (command,) = re.findall(r"^    (cc .*)$", PAGE, re.MULTILINE)
    found = find_spec("ai_edge_litert")
    assert found is not None
    assert found.origin is not None
    subprocess.run(
        f"{command} -Wall -Wextra -Werror", shell=True, cwd=folder, check=True,
        env=clean_environment(LITERT=str(Path(found.origin).parent)), timeout=SECONDS,
    )  # fmt: skip
    return folder / "infer"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(shown(), tmp_path_factory.mktemp("litert_program"))


@pytest.fixture(scope="module")
def with_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same program with an environment that names the compiler plugin, too."""
    text = shown()
    for old, new in (
        ("folder = {kDispatchLibraryDir, {kText, argv[1]}}",
         "folder[2] = {{kDispatchLibraryDir, {kText, argv[1]}}, {0, {kText, argv[1]}}}"),
        ("(1, &folder,", "(2, folder,"),
    ):  # fmt: skip
        assert text.count(old) == 1
        text = text.replace(old, new)
    return build(text, tmp_path_factory.mktemp("litert_compiler"))


def run(
    program: Path, model: bytes, content: bytes, options: str, folder: str | None = None,
    **variables: str,
) -> tuple[int, bytes, str]:  # fmt: skip
    path = program.with_name("model.tflite")
    path.write_bytes(model)
    done = subprocess.run(
        [str(program), folder or delegate.litert_folder(), str(path), options], input=content,
        capture_output=True, env=clean_environment(**variables), timeout=SECONDS, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr.decode()


def ours(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("rk3588 delegate:")]


def ahead() -> bytes:
    return delegate.compile_ahead_of_time(DIGITS, litert=True)


def test_a_model_compiled_ahead_of_time_gives_the_delegate_s_bytes(program: Path) -> None:
    content, expected = run_in_python(DIGITS)
    code, output, said = run(program, ahead(), content, "device=simulator\nlog_level=info")
    assert code == 0, said
    assert output == expected
    assert any("simulator: program" in line for line in ours(said))


def test_no_python_is_loaded(program: Path) -> None:
    content, _ = run_in_python(DIGITS)
    _, _, said = run(program, ahead(), content, "device=simulator", LD_DEBUG="libs")
    assert "libLiteRtDispatch_rk3588.so" in said
    assert "libpython" not in said


def test_a_simulator_that_nobody_asked_for_is_announced(program: Path) -> None:
    content, _ = run_in_python(DIGITS)
    code, _, said = run(program, ahead(), content, "# nothing")
    assert code == 0, said
    assert any("no NPU in use: programs run on the embedded simulator" in s for s in ours(said))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("device=npu", "option 'device' is 'npu'; expected auto"),
        ("device=rocket", "device rocket: no node of this driver was found"),
        ("nonsense", "options for LiteRT: 'nonsense' is not key=value"),
    ],
)
def test_bad_options_are_an_error(program: Path, options: str, complaint: str) -> None:
    content, _ = run_in_python(DIGITS)
    code, output, said = run(program, ahead(), content, options)
    assert code == 1
    assert output == b""
    assert all(complaint in line for line in ours(said))
    assert ours(said)


def test_a_damaged_model_is_an_error(program: Path) -> None:
    content, _ = run_in_python(DIGITS)
    model = bytearray(ahead())
    model[-5] ^= 1
    code, output, said = run(program, bytes(model), content, "device=simulator")
    assert (code, output) == (1, b"")
    assert ours(said) == ["rk3588 delegate: program: checksum mismatch; compile the model again"]


def test_a_library_that_left_its_package_is_an_error(program: Path, tmp_path: Path) -> None:
    content, _ = run_in_python(DIGITS)
    library = Path(delegate.litert_folder()) / "libLiteRtDispatch_rk3588.so"
    shutil.copy(library, tmp_path)
    code, output, said = run(program, ahead(), content, "device=simulator", str(tmp_path))
    assert (code, output) == (1, b"")
    assert "LiteRT's library has to stay in the package" in ours(said)[0]


def test_a_link_to_the_library_serves_as_well(program: Path, tmp_path: Path) -> None:
    content, expected = run_in_python(DIGITS)
    library = Path(delegate.litert_folder()) / "libLiteRtDispatch_rk3588.so"
    (tmp_path / library.name).symlink_to(library)
    (tmp_path / "rk3588.options").write_text("device=null\n")
    code, output, said = run(program, ahead(), content, "device=simulator", str(tmp_path))
    assert code == 0, said
    assert output == expected  # options of the model go before those of the folder


def test_without_python_a_model_that_was_not_compiled_runs_on_the_cpu(with_compiler: Path) -> None:
    content, expected = run_in_python(DIGITS)
    model = DIGITS.read_bytes()
    code, output, said = run(with_compiler, model, content, "device=simulator")
    assert code == 0, said
    assert len(output) == len(expected)
    (line,) = ours(said)
    assert "this process runs no Python, which compiles models" in line
    assert "compile MODEL --litert -o OUT.tflite" in line
    assert run(with_compiler, ahead(), content, "device=simulator")[:2] == (0, expected)


def test_a_process_that_loads_a_python_compiles_as_one_that_runs_it(
    with_compiler: Path, embedding: dict[str, str]
) -> None:
    content, expected = run_in_python(DIGITS)
    options = "device=simulator\nlog_level=info"
    code, output, said = run(
        with_compiler, DIGITS.read_bytes(), content, options, None, **embedding
    )
    assert code == 0, said
    assert "12 of 13 nodes delegated in 1 partition" in said
    assert output == expected
