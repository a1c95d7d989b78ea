"""``models``: public models, where they come from, and verified copies on this machine."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from delegate.cli.command import Command, answer, print_json
from delegate.cli.files import check_writable, write_file
from delegate.cli.table import format_pairs, format_table, thousands
from delegate.errors import UsageError
from rk3588_vision.zoo import Entry, fetch, find, read_manifest

_NOT_HERE = "not downloaded"


def _chosen(names: list[str]) -> list[Entry]:
    entries = read_manifest()
    for name in names:
        if name not in entries:
            raise UsageError(f"no model {name!r}; there are: {', '.join(entries)}")
    return [entries[name] for name in names] if names else list(entries.values())


def _document(entry: Entry) -> dict[str, Any]:
    where = find(entry)
    return {
        "name": entry.name,
        "task": entry.task,
        "file": entry.file,
        "bytes": entry.size_bytes,
        "sha256": entry.sha256,
        "licence": entry.licence,
        "sources": [source.url for source in entry.sources],
        "expected": asdict(entry.expected) if entry.expected is not None else None,
        "path": str(where) if where is not None else None,
    }


def _run(arguments: argparse.Namespace) -> int:
    if arguments.action == "fetch" and not arguments.names:
        raise UsageError("models fetch needs the NAME of a model; models list shows them")
    if arguments.action != "fetch" and arguments.output is not None:
        raise UsageError(f"models {arguments.action} writes no files: --output is for fetch")
    entries = _chosen(arguments.names)
    if arguments.action == "fetch":
        paths = [str(path) for path in _fetch(entries, arguments.output)]
        answer(arguments, {"paths": paths}, "\n".join(paths))
        return 0
    documents = [_document(entry) for entry in entries]
    if arguments.json:
        print_json({"models": documents})
    elif arguments.action == "list":
        rows = [
            (d["name"], d["task"], thousands(d["bytes"]), d["licence"], d["path"] or _NOT_HERE)
            for d in documents
        ]
        headings = ("name", "task", "bytes", "licence", "path")
        print(format_table(headings, rows, right=(2,), last="keep"))
    else:
        print("\n\n".join(_text(document) for document in documents))
    return 0


def _fetch(entries: list[Entry], folder: Path | None) -> list[Path]:
    """Returns where the files are: in ``folder``, or where they were found or downloaded."""
    if folder is None:
        return [fetch(entry) for entry in entries]
    paths = [folder / entry.file for entry in entries]
    check_writable(*paths)
    for entry, path in zip(entries, paths, strict=True):
        write_file(path, fetch(entry).read_bytes())
    return paths


def _text(document: dict[str, Any]) -> str:
    expected = document["expected"]
    pairs: list[tuple[str, object]] = [
        ("name", document["name"]),
        ("task", document["task"]),
        ("file", document["file"]),
        ("bytes", thousands(document["bytes"])),
        ("sha256", document["sha256"]),
        ("licence", document["licence"]),
        ("here", document["path"] or _NOT_HERE),
        *(("source", url) for url in document["sources"]),
    ]
    if expected is not None:
        pairs += [
            ("answers", f"{expected['top1']} for {expected['image']}"),
            (
                "delegated",
                f"{expected['delegated_nodes']} of {expected['total_nodes']} nodes, "
                f"{expected['partitions']} partitions",
            ),
        ]
    return format_pairs(pairs)


COMMAND = Command(
    _run,
    """
models: List, describe, download and verify public models.

action list|fetch|info  list: what there is; fetch: download, verify, print the paths; info: all
  facts
names NAME*  models (list, info: default all)
-o --output FOLDER:path  fetch: copy the files there

models list
models fetch mobilenet_v1_1.0_224_quant imagenet_labels
models fetch grace_hopper --output .
models info mobilenet_v1_1.0_224_quant --json
""",
)
