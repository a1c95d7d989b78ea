"""Programs kept on disk: found again, never trusted."""

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delegate import _native
from delegate.compile import cache as compile_cache
from delegate.compile.cache import SUFFIX, cache_key, compile_cached
from delegate.compile.compiler import compile_model
from delegate.log import LOGGER_NAME
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.option_kinds import Choice
from delegate.options import OPTIONS, Options
from rk3588_conformance.builder import Net, conv_model
from tests.inferences import drawn_int8, outputs
from tests.shared_folder import MODELS, needs_models


def graph_of(seed: int = 1):
    return read_graph(conv_model(np.random.default_rng(seed), 7, 9, 5, 20, 3, 3))


@pytest.fixture(autouse=True)
def _warnings_are_seen(caplog):
    """Let warnings be seen, whatever level another test of the process asked for."""
    caplog.set_level(logging.WARNING, logger=LOGGER_NAME)


@pytest.fixture
def options(tmp_path):
    return Options.from_mapping({"numerics": "exact", "cache_dir": str(tmp_path / "cache")}, {})


def run(graph, options):
    """(result, whether it was compiled)"""
    calls = []

    def compile_graph():
        calls.append(1)
        return compile_model(graph, Options(numerics="exact"))

    return compile_cached(graph, options, compile_graph), bool(calls)


def entries(options):
    return sorted(os.listdir(options.cache_dir))


def test_the_second_time_nothing_is_compiled(options):
    graph = graph_of()
    first, was_compiled = run(graph, options)
    assert was_compiled
    second, was_compiled = run(graph_of(), options)
    assert not was_compiled
    assert second.from_cache
    assert [replace(p, program=bytes(p.program)) for p in second.partitions] == [*first.partitions]
    assert second.rejections == first.rejections
    assert [name.endswith(SUFFIX) for name in entries(options)] == [True]


def test_another_graph_or_option_has_another_key(options):
    graph = graph_of()
    keys = {
        cache_key(graph, options),
        cache_key(graph_of(2), options),
        cache_key(graph, options, "another runtime"),
        cache_key(replace(graph, rounds_once=True), options),
        cache_key(graph, Options.from_mapping({"numerics": "exact", "deny_ops": "ADD"}, {})),
        cache_key(graph, Options.from_mapping({"numerics": "exact", "float": "off"}, {})),
    }
    assert len(keys) == 6
    assert cache_key(graph_of(), options) in keys


def entry_of(options) -> Path:
    """Return the only file of the folder."""
    (path,) = Path(options.cache_dir).iterdir()
    return path


def is_compiled_again(options, expected, graph=None) -> None:
    """Check that what was compiled is not taken from the changed entry, but compiled as before."""
    again, was_compiled = run(graph or graph_of(), options)
    assert was_compiled
    assert again.partitions == expected.partitions


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_found_and_repaired(options, seed, caplog):
    expected, _ = run(graph_of(), options)
    rng = np.random.default_rng(seed)
    content = bytearray(entry_of(options).read_bytes())
    if seed == 0:
        del content[len(content) // 2 :]
    else:
        content[int(rng.integers(0, len(content)))] ^= 1 << int(rng.integers(0, 8))
    entry_of(options).write_bytes(content)
    is_compiled_again(options, expected)
    assert "is not used" in caplog.text
    assert run(graph_of(), options)[0].from_cache


def test_a_changed_program_is_refused_by_the_verifier(options, caplog):
    expected, _ = run(graph_of(), options)
    content = bytearray(entry_of(options).read_bytes())
    content[-200] ^= 0xFF
    entry_of(options).write_bytes(content)
    is_compiled_again(options, expected)
    assert "not the one it was written with" in caplog.text


def test_an_entry_of_another_model_or_options_is_not_used(options, caplog):
    """Whole and ours, but under another's name."""
    run(graph_of(2), options)
    other = entry_of(options)
    expected, _ = run(graph_of(), options)
    (name,) = set(entries(options)) - {other.name}
    other.replace(other.with_name(name))
    is_compiled_again(options, expected)
    assert "made for another model" in caplog.text


def forged(content: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """An entry with another description, whose digest is right."""
    start = len(compile_cache.MAGIC) + compile_cache.DIGEST_BYTES
    length = int.from_bytes(content[start : start + 8], "little")
    document = json.loads(content[start + 8 : start + 8 + length])
    change(document)
    text = json.dumps(document).encode()
    description = len(text).to_bytes(8, "little") + text
    digest = hashlib.sha256(description).digest()
    return compile_cache.MAGIC + digest + description + content[start + 8 + length :]


FORGERIES = [
    *({key: value} for key in ("nodes", "inputs", "outputs") for value in ([], [-1], [0, 0], [9])),
    {"computed": [0]}, {"nodes": [0], "computed": [0]}, {"inputs": [0, 1]}, {"outputs": [0]},
]  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES, ids=repr)
def test_a_forged_description_is_not_used(options, forgery, caplog):
    """Whoever can write the folder knows how to make a digest, too."""
    first, _ = run(graph_of(), options)
    path = entry_of(options)
    change = lambda document: document["partitions"][0].update(forgery)  # noqa: E731
    path.write_bytes(forged(path.read_bytes(), change))
    is_compiled_again(options, first)
    assert "not of this model" in caplog.text


def test_forged_rejections_are_not_used(options):
    run(graph_of(), options)
    path = entry_of(options)
    rejection = {"node": 7, "op": "ADD", "rule": "", "detail": ""}
    change = lambda document: document["rejections"].append(rejection)  # noqa: E731
    path.write_bytes(forged(path.read_bytes(), change))
    assert run(graph_of(), options)[1]


def test_a_program_of_another_entry_is_not_used(options, caplog):
    """The program has the same size, is valid in itself, and stands in a whole entry."""
    first, _ = run(graph_of(1), options)
    path = entry_of(options)
    second, _ = run(graph_of(2), options)
    ours, theirs = (bytes(result.partitions[0].program) for result in (first, second))
    content = path.read_bytes()
    assert len(ours) == len(theirs)
    assert content.endswith(ours)
    path.write_bytes(content[: -len(ours)] + theirs)
    is_compiled_again(options, first, graph_of(1))
    assert "not the one it was written with" in caplog.text


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_not_used(options, mode, caplog):
    os.makedirs(options.cache_dir)
    os.chmod(options.cache_dir, mode)
    for _ in range(2):
        assert run(graph_of(), options)[1]
    assert not entries(options)
    assert f"others may write {options.cache_dir} (mode {mode:o}); chmod go-w" in caplog.text


def test_a_folder_below_one_that_others_may_write_is_not_used(tmp_path, caplog):
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    options = Options.from_mapping(
        {"numerics": "exact", "cache_dir": str(open_folder / "cache")}, {}
    )
    os.chmod(open_folder, 0o777)
    assert run(graph_of(), options)[1]
    assert f"others may write {open_folder}" in caplog.text
    os.chmod(open_folder, 0o1777)  # as /tmp
    run(graph_of(), options)
    assert run(graph_of(), options)[0].from_cache


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
def test_a_folder_of_another_user_is_not_used(options, caplog):
    os.makedirs(options.cache_dir)
    os.chown(options.cache_dir, 12345, 12345)
    assert run(graph_of(), options)[1]
    assert "belongs to another user" in caplog.text


def replaced_by_a_pipe(path, _):
    path.unlink()
    os.mkfifo(path)


def replaced_by_a_link(path, elsewhere):
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (replaced_by_a_pipe, "is a pipe"),
        (replaced_by_a_link, "is not used"),
        (lambda path, _: path.chmod(0o666), "others"),
    ],
)
def test_what_is_no_file_of_the_user_alone_is_not_used(options, tmp_path, caplog, change, told):
    run(graph_of(), options)
    change(entry_of(options), tmp_path / "elsewhere")
    assert run(graph_of(), options)[1]
    assert told in caplog.text


def test_every_source_file_is_in_the_key(options, tmp_path, monkeypatch):
    package = tmp_path / "delegate"
    shutil.copytree(
        Path(compile_cache.__file__).parents[1], package, ignore=shutil.ignore_patterns("*.so")
    )
    monkeypatch.setattr(compile_cache, "__file__", str(package / "compile" / "cache.py"))

    def key():
        compile_cache._compiler_fingerprint.cache_clear()
        return cache_key(graph_of(), options)

    seen = {key()}
    sources = list(package.rglob("*.py"))
    assert len(sources) > 200
    for path in sources:
        os.utime(path, ns=(1, 1))
        seen.add(key())
    assert len(seen) == len(sources) + 1
    compile_cache._compiler_fingerprint.cache_clear()


def test_options_that_do_not_count_do_not_change_programs():
    """All values of the other options are tried on a model with several partitions."""
    graph = graph_of()
    plain = compile_model(graph, Options(numerics="exact"))
    for option in OPTIONS:
        kind = option.kind
        words = kind.words if isinstance(kind, Choice) else ("1",)
        for word in words:
            if option.changes_programs or option.key == "cache_dir":
                continue
            chosen = Options.from_mapping({"numerics": "exact", option.key: word}, {})
            programs = [item.program for item in compile_model(graph, chosen).partitions]
            assert programs == [item.program for item in plain.partitions], (option.key, word)


def test_a_link_that_is_turned_after_the_check_leads_nowhere_else(options, tmp_path, monkeypatch):
    """The folder that was checked is used, not the one that its name leads to later."""
    checked, other = tmp_path / "checked", tmp_path / "other"
    checked.mkdir(mode=0o700)
    other.mkdir(mode=0o700)
    os.symlink(checked, options.cache_dir)
    check = _native.private_folder

    def check_and_turn(folder):
        found = check(folder)
        os.unlink(options.cache_dir)
        os.symlink(other, options.cache_dir)
        return found

    monkeypatch.setattr(_native, "private_folder", check_and_turn)
    run(graph_of(), options)
    assert os.listdir(other) == []
    assert len(os.listdir(checked)) == 1


@pytest.mark.parametrize(
    ("place", "reason"), [("file", "it is no folder"), ("file/below", "Not a directory")]
)
def test_a_folder_that_cannot_be_made_costs_a_warning_only(tmp_path, caplog, place, reason):
    (tmp_path / "file").write_text("")
    options = Options.from_mapping({"numerics": "exact", "cache_dir": str(tmp_path / place)}, {})
    result, was_compiled = run(graph_of(), options)
    assert was_compiled
    assert len(result.partitions) == 1
    assert caplog.messages == [f"the cache folder {tmp_path / place} is not used: {reason}"]


def test_concurrent_writers_leave_one_whole_entry(options):
    graph = graph_of()
    with ThreadPoolExecutor(8) as pool:
        results = [result for result, _ in pool.map(run, [graph] * 8, [options] * 8)]
    assert len({bytes(result.partitions[0].program) for result in results}) == 1
    assert len(entries(options)) == 1
    assert run(graph, options)[0].from_cache


@needs_models
def test_from_the_cache_in_milliseconds(options):
    graph = read_graph(MODELS / "mobilenet_v1_1.0_224_quant.tflite")
    run(graph, options)
    took = []
    for _ in range(5):
        start = time.process_time()
        result, _ = run(graph, options)
        took.append(time.process_time() - start)
        assert result.from_cache
    # About 10 ms on a quiet machine; what must not happen is compiling again, which takes 100.
    assert min(took) < 0.05


def test_by_default_programs_are_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default = Options.from_mapping({"numerics": "exact"}, {})
    assert default.cache_folder() == str(tmp_path / "rk3588-delegate")
    assert run(graph_of(), default)[1]
    assert not run(graph_of(), default)[1]
    folder = tmp_path / "rk3588-delegate"
    assert folder.stat().st_mode & 0o777 == 0o700
    (entry,) = folder.iterdir()
    assert entry.stat().st_mode & 0o077 == 0


def test_the_users_cache_is_below_home_or_nowhere(monkeypatch):
    default = Options.from_mapping({}, {})
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")  # counts as unset, as the standard has it
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default.cache_folder() == "/home/somebody/.cache/rk3588-delegate"
    monkeypatch.delenv("HOME")
    assert default.cache_folder() is None
    assert run(graph_of(), default)[1]
    assert Options.from_mapping({"cache_dir": "off"}, {}).cache_folder() is None


def test_nobody_is_warned_of_a_folder_that_nobody_named(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    default = Options.from_mapping({"numerics": "exact"}, {})
    assert run(graph_of(), default)[1]
    assert not caplog.records
    caplog.set_level(logging.INFO, logger=LOGGER_NAME)
    run(graph_of(), default)
    assert "is not used" in caplog.text


def test_what_was_not_used_for_longest_goes_first(options, monkeypatch):
    keys = [cache_key(graph_of(seed), options) + SUFFIX for seed in range(4)]
    for seed in range(3):
        run(graph_of(seed), options)
        os.utime(Path(options.cache_dir, keys[seed]), (seed + 1, seed + 1))
    assert not run(graph_of(0), options)[1]  # used again: the oldest is number 1 now
    sizes = [Path(options.cache_dir, key).stat().st_size for key in keys[:3]]
    other = Path(options.cache_dir, "board-1.json")
    other.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(compile_cache, "MAX_FOLDER_BYTES", sum(sizes))
    assert run(graph_of(3), options)[1]
    assert set(entries(options)) == {keys[0], keys[2], keys[3], other.name}
    monkeypatch.setattr(compile_cache, "MAX_FOLDER_BYTES", 1)
    assert run(graph_of(1), options)[1]
    assert set(entries(options)) == {keys[1], other.name}  # the newest stays, whatever its size


def test_an_output_inside_a_partition_is_known_from_the_cache(tmp_path, caplog):
    """And a result that nobody reads is none: in the runtime, whose contexts name no outputs."""
    builder = Net("inner")
    numbers = Quantization((1 / 128,), (0,))
    x = builder.input("x", (1, 4, 4, 16), DType.INT8, numbers)
    inner = builder.function("TANH", (x,), numbers)
    outer = builder.function("TANH", (inner,), numbers)
    builder.function("TANH", (outer,), numbers)
    model = builder.build(inner, outer)
    given = drawn_int8((1, 4, 4, 16), 3)
    chosen = {"device": "simulator", "numerics": "auto", "deny_ops": "NONE"}
    chosen["cache_dir"] = str(tmp_path)
    outputs(model, given, **chosen)
    (made,) = tmp_path.iterdir()
    before = made.stat().st_ino
    outputs(model, given, **chosen)
    assert made.stat().st_ino == before
    assert "not used" not in caplog.text
