"""The completion scripts, asked of the shells themselves."""

import shutil
import subprocess

import pytest

from delegate.cli import COMMANDS
from tests.cli.conftest import Run


def completed(script: str, *words: str) -> list[str]:
    line = " ".join(words)
    code = (
        f"{script}\nCOMP_WORDS=({line}); [ -n '{words[-1]}' ] || COMP_WORDS+=('');"
        f"COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _rk3588_delegate; printf '%s\\n' "
        '"${COMPREPLY[@]}"'
    )
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run(
        [bash, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def test_bash_completes_commands_and_options(run: Run) -> None:
    script = run("completion", "bash").out
    assert completed(script, "rk3588-delegate", "") == [*COMMANDS]
    assert completed(script, "rk3588-delegate", "bench", "--ru") == ["--runs"]
    assert completed(script, "rk3588-delegate", "detect", "--thr") == ["--threshold"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command(run: Run, shell: str) -> None:
    script = run("completion", shell).out
    assert all(command in script for command in COMMANDS)
