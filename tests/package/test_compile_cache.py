"""Programs kept on disk: found again, never trusted."""

from __future__ import annotations

import logging
import os
import threading
import time

import numpy as np
import pytest

from delegate.compile_cache import SUFFIX, cache_key, compile_cached
from delegate.compiler import compile_model
from delegate.log import LOGGER_NAME
from delegate.model_builder import conv_model
from delegate.options import Options
from delegate.tflite_reader import read_graph
from tests.shared_folder import MODELS, needs_models


def graph_of(seed: int = 1):
    return read_graph(conv_model(np.random.default_rng(seed), 7, 9, 5, 20, 3, 3))


@pytest.fixture(autouse=True)
def _warnings_are_seen(caplog):
    """Whatever level another test of the process asked for."""
    caplog.set_level(logging.WARNING, logger=LOGGER_NAME)


@pytest.fixture
def options(tmp_path):
    return Options.from_mapping({"cache_dir": str(tmp_path / "cache")}, {})


def run(graph, options):
    """(result, whether it was compiled)"""
    calls = []

    def compile_graph():
        calls.append(1)
        return compile_model(graph, Options())

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
    assert second.partitions == first.partitions
    assert second.rejections == first.rejections
    assert [name.endswith(SUFFIX) for name in entries(options)] == [True]


def test_another_graph_or_option_has_another_key(options):
    graph = graph_of()
    keys = {
        cache_key(graph, options),
        cache_key(graph_of(2), options),
        cache_key(graph, options, "another runtime"),
        cache_key(graph, Options.from_mapping({"deny_ops": "ADD"}, {})),
        cache_key(graph, Options.from_mapping({"min_nodes": "2"}, {})),
    }
    assert len(keys) == 5
    assert cache_key(graph_of(), options) in keys


def damage_somewhere(content, rng):
    position = int(rng.integers(0, len(content)))
    content[position] ^= 1 << int(rng.integers(0, 8))
    return content


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_found_and_repaired(options, seed, caplog):
    graph = graph_of()
    expected, _ = run(graph, options)
    (name,) = entries(options)
    path = os.path.join(options.cache_dir, name)
    rng = np.random.default_rng(seed)
    with open(path, "rb") as file:
        content = bytearray(file.read())
    content = content[: len(content) // 2] if seed == 0 else damage_somewhere(content, rng)
    with open(path, "wb") as file:
        file.write(content)
    again, was_compiled = run(graph, options)
    assert was_compiled
    assert again.partitions == expected.partitions
    assert "is not used" in caplog.text
    assert run(graph, options)[0].from_cache


def test_a_changed_program_is_refused_by_the_verifier(options, caplog):
    graph = graph_of()
    expected, _ = run(graph, options)
    (name,) = entries(options)
    path = os.path.join(options.cache_dir, name)
    with open(path, "rb") as file:
        content = bytearray(file.read())
    content[-200] ^= 0xFF
    with open(path, "wb") as file:
        file.write(content)
    again, was_compiled = run(graph, options)
    assert was_compiled
    assert again.partitions == expected.partitions
    assert "checksum" in caplog.text


def test_files_that_others_can_write_are_not_used(options, caplog):
    graph = graph_of()
    run(graph, options)
    (name,) = entries(options)
    os.chmod(os.path.join(options.cache_dir, name), 0o666)
    assert run(graph, options)[1]
    assert "others" in caplog.text


def test_links_and_folders_are_not_followed(options, tmp_path):
    graph = graph_of()
    run(graph, options)
    (name,) = entries(options)
    path = os.path.join(options.cache_dir, name)
    os.rename(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)
    assert run(graph, options)[1]


def test_a_folder_that_cannot_be_made_costs_a_warning_only(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    options = Options.from_mapping({"cache_dir": str(tmp_path / "file" / "below")}, {})
    result, was_compiled = run(graph_of(), options)
    assert was_compiled
    assert len(result.partitions) == 1
    assert "cannot keep" in caplog.text


def test_concurrent_writers_leave_one_whole_entry(options):
    graph = graph_of()
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(run(graph, options)[0])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({result.partitions[0].program for result in results}) == 1
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
