"""Examples in Python on the pages: they are whole, and those that can run do."""

import ast
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import HTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from tests.docs.shown_commands import DIGITS, PAGES

__all__ = ["run"]  # the fixture

BLOCKS = [
    (page.name, text)
    for page in PAGES
    for text in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
]


@pytest.mark.parametrize(("page", "text"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_an_example_is_whole(page: str, text: str) -> None:
    ast.parse(text, page)


def blocks_of(page: str) -> list[str]:
    return [text for name, text in BLOCKS if name == page]


def test_statistics_of_the_monitoring_page_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = (text for text in blocks_of("monitoring.md") if "stats" in text)
    exec(compile(text, "monitoring.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 2


def test_the_server_of_the_monitoring_page_gives_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = (text for text in blocks_of("monitoring.md") if "HTTPServer" in text)

    def serve_one(server: HTTPServer) -> None:
        with ThreadPoolExecutor() as pool, server:
            address = f"http://127.0.0.1:{server.server_address[1]}"
            answer = pool.submit(urllib.request.urlopen, address, timeout=30)
            server.handle_request()
            with answer.result() as got:
                given.append(got.read().decode())

    given: list[str] = []
    monkeypatch.setattr(HTTPServer, "serve_forever", serve_one)
    exec(compile(text.replace("9588", "0"), "monitoring.md", "exec"), {})
    assert "rk3588_delegate_" in given[0]


def test_examples_of_the_simulator_page_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With elements that the captured model has, in place of the page's."""
    monkeypatch.chdir(tmp_path)
    run("compile", DIGITS / "digits_int8.tflite", "--dump", ".")
    own = {"(3, 10, 12)": "(3, 0, 0)", "4, (17, 0, 0)": "0, (0, 0, 0)"}
    for text in blocks_of("simulator.md"):
        pattern = "|".join(map(re.escape, own))
        fitting = re.sub(pattern, lambda found: own[found[0]], text)
        exec(compile(fitting, "simulator.md", "exec"), {})
    assert "CORE" in capfd.readouterr().out


def test_the_model_of_the_pytorch_page_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("litert_torch", "torchvision", "ai_edge_quantizer"):
        pytest.importorskip(package, reason=f"the page's example needs {package}")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for text in blocks_of("export_pytorch.md"):
        random_weights = text.replace('weights="DEFAULT"', "weights=None")  # nothing is downloaded
        exec(compile(random_weights, "export_pytorch.md", "exec"), names)
    assert (tmp_path / "int8.tflite").stat().st_size > 1000


def test_pages_for_export_have_examples() -> None:
    assert {"export_keras.md", "export_pytorch.md"} <= {page for page, _ in BLOCKS}


def test_the_model_of_the_keras_page_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorflow", reason="the page's example needs TensorFlow")
    (text,) = blocks_of("export_keras.md")
    monkeypatch.chdir(tmp_path)
    exec(compile(text, "export_keras.md", "exec"), {})
    assert (tmp_path / "model_int8.tflite").stat().st_size > 1000
