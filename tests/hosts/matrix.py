"""Outputs of four models in every runtime, and the page that lists them.

``python -m tests.hosts.matrix run RESULT.json MODELS`` runs in one environment; ``write FOLDER
PAGE`` makes docs/hosts.md of all results.
"""

import hashlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

MODELS = {
    "uint8": "mobilenet_v1_1.0_224_quant",
    "int8 per channel": "mobilenet_v2_1.0_224_int8_per_channel",
    "SSD": "ssd_mobilenet_v1_300_quant",
    "YOLO": "yolov8n_224_int8",
}
SEED = 20


def outputs(model: Path, *, reference: bool) -> list[bytes]:
    """Return what the model gives for a seeded input through the delegate, on the simulator."""
    import delegate
    from delegate.host.runtimes import find_runtime

    runtime = find_runtime()
    plugin = runtime.load_delegate(
        delegate.library_path(), {"device": "simulator", "log_level": "error"}
    )
    interpreter = runtime.interpreter(model, [plugin], reference_kernels=reference)
    rng = np.random.default_rng(SEED)
    for item in interpreter.get_input_details():
        values = rng.integers(0, 256, item["shape"]).astype(np.uint8)
        interpreter.set_tensor(item["index"], values.view(item["dtype"]))
    interpreter.invoke()
    return [
        interpreter.get_tensor(item["index"]).tobytes() for item in interpreter.get_output_details()
    ]


def digest(parts: list[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def run(result: Path, folder: Path) -> None:
    from importlib.metadata import version

    import delegate
    from delegate.host.delegation import collect_delegations
    from delegate.host.runtimes import find_runtime

    runtime = find_runtime()
    package = {"tflite_runtime": "tflite-runtime", "ai_edge_litert": "ai-edge-litert"}.get(
        runtime.name, "tensorflow-cpu"
    )
    document: dict[str, Any] = {
        "python": platform.python_version(),
        "runtime": f"{package} {version(package)}",
        "numpy": version("numpy"),
        "machine": platform.machine(),
        "delegate": delegate.__version__,
        "models": {},
    }
    for kind, name in MODELS.items():
        with collect_delegations() as found:
            default = outputs(folder / f"{name}.tflite", reference=False)
        document["models"][kind] = {
            "outputs": digest(default),
            "reference_outputs": digest(outputs(folder / f"{name}.tflite", reference=True)),
            "delegated_nodes": found[0].delegated_nodes,
        }
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps(document, indent=1) + "\n")


PAGE_HEADER = """\
# Hosts

Which runtimes, Python versions and programs load this delegate, and what was measured. The tables
are written by `nox -s table` from the results of `nox -s runtimes`; text outside them is not.
"""
BEGIN, END = "<!-- matrix -->", "<!-- end of matrix -->"


def _order(document: dict[str, Any]) -> tuple[Any, ...]:
    name, number = document["runtime"].split()
    return (name, [int(part) for part in number.split(".")], document["python"].split(".")[1])


def table(documents: list[dict[str, Any]]) -> str:
    """The results as a Markdown table, with a line that says whether all agree."""
    kinds = list(MODELS)
    lines = [
        "| runtime | Python | NumPy | " + " | ".join(kinds) + " |",
        "| --- " * (3 + len(kinds)) + "|",
    ]
    documents = sorted(documents, key=_order)
    for document in documents:
        cells = []
        for kind in kinds:
            found = document["models"][kind]
            same = "" if found["outputs"] == found["reference_outputs"] else " *"
            cells.append(f"`{found['reference_outputs'][:8]}`{same}")
        row = [document["runtime"], document["python"], document["numpy"], *cells]
        lines.append("| " + " | ".join(row) + " |")
    unequal = [
        kind
        for kind in kinds
        if len({document["models"][kind]["reference_outputs"] for document in documents}) != 1
    ]
    verdict = f"outputs differ: {', '.join(unequal)}" if unequal else "identical outputs"
    lines += ["", f"{len(documents)} combinations on {documents[0]['machine']}: {verdict}."]
    return "\n".join(lines)


def write(folder: Path, page: Path) -> int:
    """Puts the table between its marks. 1 if the outputs are not all the same."""
    documents = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not documents:
        print(f"no results in {folder}: run nox -s runtimes", file=sys.stderr)
        return 1
    text = page.read_text() if page.exists() else f"{PAGE_HEADER}\n{BEGIN}\n{END}\n"
    before, rest = text.split(BEGIN)
    content = table(documents)
    page.write_text(f"{before}{BEGIN}\n{content}\n{END}{rest.split(END)[1]}")
    return 1 if "outputs differ" in content else 0


def main(arguments: list[str]) -> int:
    command, first, second = arguments
    if command == "run":
        run(Path(first), Path(second))
        return 0
    return write(Path(first), Path(second))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
