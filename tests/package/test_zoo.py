"""Downloads: verified, atomic, with a clear error; the committed manifest and digits."""

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from delegate.cli import main
from models import demo
from rk3588_vision.detection.recognise import DECODERS
from rk3588_vision.zoo import DownloadError, Entry, Source, fetch, find, is_intact, read_manifest
from tests.shared_folder import SHARED, needs_models

CONTENT = bytes(range(256)) * 40


def archive(name: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for member, content in (("./other", b"x"), (name, CONTENT)):
            item = tarfile.TarInfo(member)
            item.size = len(content)
            tar.addfile(item, io.BytesIO(content))
    return stream.getvalue()


FILES = {
    "/good": CONTENT,
    "/wrong": CONTENT[:-1] + b"!",
    "/long": CONTENT + b"more",
    "/good.tgz": archive("./model.tflite"),
    "/empty.tgz": archive("another"),
    "/not.tgz": CONTENT,
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        content = FILES.get(self.path)
        if self.path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:100])
        elif content is None:
            self.send_error(404)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rk3588-delegate" / "models"


def entry(*sources: Source) -> Entry:
    digest = hashlib.sha256(CONTENT).hexdigest()
    return Entry("model", "classify", "model.tflite", digest, len(CONTENT), "Apache-2.0", sources)


def test_download_is_cached(server: str, cache: Path, tmp_path: Path) -> None:
    wanted = entry(Source(f"{server}/good"))
    path = fetch(wanted, tmp_path)
    assert path == cache / "model.tflite"
    assert path.read_bytes() == CONTENT
    assert [p.name for p in cache.iterdir()] == ["model.tflite"]
    assert fetch(replace(wanted, sources=()), tmp_path) == path


def test_member_of_an_archive(server: str, cache: Path, tmp_path: Path) -> None:
    path = fetch(entry(Source(f"{server}/good.tgz", "model.tflite")), tmp_path)
    assert path.read_bytes() == CONTENT


def test_next_source_is_tried(server: str, cache: Path, tmp_path: Path) -> None:
    sources = (Source(f"{server}/none"), Source(f"{server}/wrong"), Source(f"{server}/good"))
    assert fetch(entry(*sources), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "member", "words"),
    [
        ("/none", None, "404"),
        ("/wrong", None, "sha256"),
        ("/long", None, "more than the expected"),
        ("/cut", None, "sha256"),
        ("/empty.tgz", "model.tflite", "holds no model.tflite"),
        ("/not.tgz", "model.tflite", "not a gzip file"),
    ],
)
def test_bad_download_leaves_nothing(
    server: str, cache: Path, tmp_path: Path, path: str, member: str | None, words: str
) -> None:
    with pytest.raises(DownloadError, match=words) as error:
        fetch(entry(Source(server + path, member)), tmp_path)
    assert str(cache / "model.tflite") in str(error.value)
    assert "\n" not in str(error.value)
    assert list(cache.iterdir()) == []


def test_offline_says_so(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"cannot download model.tflite: .*refused"):
        fetch(entry(Source("http://127.0.0.1:9/x")), tmp_path)


def test_damaged_copy_is_not_used(server: str, cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "model.tflite").write_bytes(CONTENT[::-1])
    wanted = entry(Source(f"{server}/good"))
    assert find(wanted, tmp_path) is None
    assert fetch(wanted, tmp_path).read_bytes() == CONTENT


def test_downloads_are_beside_compiled_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the one rule of the user's cache: a relative XDG_CACHE_HOME counts as unset."""
    (tmp_path / ".cache/rk3588-delegate/models").mkdir(parents=True)
    path = tmp_path / ".cache/rk3588-delegate/models/model.tflite"
    path.write_bytes(CONTENT)
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find(entry(), tmp_path) == path
    monkeypatch.delenv("HOME")
    assert find(entry(), tmp_path) is None
    with pytest.raises(DownloadError, match="XDG_CACHE_HOME or HOME"):
        fetch(entry(), tmp_path)


def test_shared_folder_comes_first(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "model.tflite").write_bytes(CONTENT)
    assert find(entry(), tmp_path) == tmp_path / "models" / "model.tflite"


def test_manifest_is_complete() -> None:
    entries = read_manifest()
    assert "mobilenet_v1_1.0_224_quant" in entries
    for item in entries.values():
        assert len(item.sha256) == 64
        assert item.licence
        assert all(source.url.startswith("https://") for source in item.sources)
        assert item.sources
        assert item.decoder is None or item.decoder in DECODERS
    tasks = {item.task for item in entries.values()}
    assert tasks == {"classify", "detect", "segment", "pose", "face", "data"}


@needs_models
@pytest.mark.parametrize("item", read_manifest().values(), ids=lambda e: e.name)
def test_manifest_agrees_with_the_shared_files(item: Entry) -> None:
    paths = [SHARED / "models" / item.file, SHARED / "images" / item.file]
    if not any(path.exists() for path in paths):
        pytest.skip("a model that is only public")
    assert any(is_intact(path, item) for path in paths)


def test_unknown_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "fetch", "resnet"]) == 2
    assert "no model 'resnet'" in capsys.readouterr().err


def test_list_names_everything(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    assert main(["models", "list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in read_manifest())


def test_demo_falls_back_to_the_digits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(*_: object) -> Path:
        raise DownloadError("cannot download it")

    monkeypatch.setattr(demo, "fetch", nowhere)
    assert demo.main() == 0
    out, err = capsys.readouterr()
    assert "cannot download it" in err
    assert out.count("device      simulator") == 10
    assert out.count("12 of 13 nodes") == 10


def test_list_and_info_for_machines(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    assert main(["models", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    assert [entry["name"] for entry in listed] == list(read_manifest())
    assert main(["models", "info", "mobilenet_v1_1.0_224_quant", "--json"]) == 0
    (info,) = json.loads(capsys.readouterr().out)["models"]
    assert info["licence"] == "Apache-2.0"
    assert info["sources"][0].startswith("https://")
    assert info["expected"]["top1"] == "military uniform"
    assert main(["models", "info", "grace_hopper"]) == 0
    assert "public domain" in capsys.readouterr().out


@needs_models
def test_fetch_prints_paths(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "fetch", "imagenet_labels"]) == 0
    assert Path(capsys.readouterr().out.strip()).name == "imagenet_labels.txt"
