"""Real models on real photographs: the label, top-1 agreement and the numeric contract."""

from pathlib import Path

import pytest

from delegate.host.delegated import DelegatedModel
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.options import Options
from rk3588_conformance.comparison import MIN_TOP1_AGREEMENT, Comparison
from rk3588_conformance.parallel_comparison import compare_in_processes
from rk3588_vision.class_ranking import class_count, rank, read_labels
from rk3588_vision.images import ImageInput, find_images
from rk3588_vision.placement import load_image
from rk3588_vision.zoo import Entry, read_manifest
from tests.shared_folder import MODELS, SHARED, needs_models

IMAGES = SHARED / "images"
PHOTOGRAPHS = IMAGES / "imagenet"

pytestmark = needs_models

ENTRIES = [entry for entry in read_manifest().values() if entry.expected is not None]
PROCESSES = 2


class ImageSource:
    """A picture for a process of its own (picklable)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, inputs: list[dict[str, object]]) -> list[object]:
        return [load_image(self.path, ImageInput.from_details(inputs[0]))]


def compare(entry: Entry, images: list[Path], *, per_op: bool, reference: bool) -> Comparison:
    result, delegated = compare_in_processes(
        MODELS / entry.file,
        Options.from_mapping({"numerics": "exact", "device": "simulator"}, {}),
        [ImageSource(path) for path in images],
        per_op=per_op,
        reference_kernels=reference,
        jobs=PROCESSES,
        done=lambda: None,
    )
    assert entry.expected is not None
    assert delegated == entry.expected.delegated_nodes
    return result


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_photograph_gets_its_label_in_one_submit_per_partition(entry: Entry, weighs: None) -> None:
    expected = entry.expected
    assert expected is not None
    model = DelegatedModel.load(
        MODELS / entry.file, Options.from_mapping({"numerics": "exact"}, {})
    )
    assert model.delegation.delegated_nodes == expected.delegated_nodes
    assert model.delegation.total_nodes == expected.total_nodes
    assert model.delegation.partitions == expected.partitions
    target = ImageInput.from_details(model.inputs[0])
    scores = model.run([load_image(IMAGES / expected.image, target)])[0]
    assert model.submits_per_invoke == expected.partitions
    labels = read_labels(IMAGES / "imagenet_labels.txt", class_count(model.outputs[0]))
    best = rank(scores, model.outputs[0], labels, 1)[0]
    assert (best.index, best.label) == (expected.index, expected.top1)


@pytest.mark.slow
@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_best_class_agrees_with_the_cpu(entry: Entry, every: int, weighs: None) -> None:
    """99 % of all photographs, all but one of a tenth, as TensorFlow Lite's default kernels."""
    images = find_images(PHOTOGRAPHS)
    assert len(images) == 250
    images = images[::every]
    result = compare(entry, images, per_op=False, reference=False)
    assert result.samples == len(images)
    assert result.top1_agreed is not None
    agreeing, of = MIN_TOP1_AGREEMENT
    assert len(images) - result.top1_agreed <= max(1, len(images) * (of - agreeing) // of)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_every_operator_keeps_the_numeric_contract(entry: Entry, weighs: None) -> None:
    """On its own, with TensorFlow Lite's inputs, against its reference kernels."""
    images = find_images(PHOTOGRAPHS)[::125]
    result = compare(entry, images, per_op=True, reference=True)
    assert entry.expected is not None
    # Tensors that lie inside one another have nothing to compare.
    aliases = sum(
        node.op in OPERATORS and OPERATORS[node.op].movement is not None
        for node in read_graph(MODELS / entry.file).nodes
    )
    assert len(result.ops) == entry.expected.delegated_nodes - aliases
    assert result.violations() == []
