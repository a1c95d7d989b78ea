"""Heads with one or several tensors per grid of cells, by the shapes of their outputs."""

from collections.abc import Iterator

from delegate.host.delegation import plural
from rk3588_vision.detection.candidate import PARTS_FIT, Candidate, Outputs, class_score
from rk3588_vision.detection.head import MASK_WEIGHTS, Head, OutputTensor, Rows
from rk3588_vision.detection.yolo_grids import (
    ANCHOR_FAMILIES,
    DFL_BINS,
    AnchorFamily,
    AnchorGridHead,
    DflGridHead,
    YoloXGridHead,
    group_by_stride,
)

_STRIDES = (4, 8, 16, 32, 64)
_BIN_CHANNELS = 4 * DFL_BINS


def grid_candidates(outputs: Outputs) -> Iterator[Candidate]:
    """Every head of grids that the outputs can be of."""
    grids = []
    for index, output in enumerate(outputs.tensors):
        grid = _grid(index, output, outputs.input_h, outputs.input_w)
        if grid is None:
            return
        grids.append(grid)
    yield from _segment_candidate(outputs, grids)
    by_stride = group_by_stride(grids)
    forms = {tuple(sorted(member.channels for member in group)) for group in by_stride.values()}
    if len(forms) != 1:
        return
    channels = forms.pop()
    members = tuple(grids)
    size = (outputs.input_h, outputs.input_w)
    if _BIN_CHANNELS in channels and (len(channels) == 2 or (len(channels) == 3 and 1 in channels)):
        yield _candidate(outputs, DflGridHead(*size, members), "bins and classes, apart")
    elif len(channels) == 3 and {1, 4} <= {*channels}:
        yield _candidate(outputs, YoloXGridHead(*size, members), "box, objectness and classes")
    elif len(channels) == 1:
        yield from _whole_grids(outputs, members, channels[0], len(by_stride))


def _segment_candidate(outputs: Outputs, grids: list[Rows]) -> Iterator[Candidate]:
    """Yield v8's segmentation head: prototypes alone in the finest map, and in every other grid
    bins, classes and weights of masks, apart.
    """
    (_, finest), *coarser = group_by_stride(grids).items()
    if len(finest) != 1 or finest[0].channels != MASK_WEIGHTS or not coarser:
        return
    weights, rest = [], []
    for _, members in coarser:
        last = [member for member in members if member.channels == MASK_WEIGHTS]
        if len(last) != 1 or _BIN_CHANNELS not in {member.channels for member in members}:
            return
        weights += last
        rest += [member for member in members if member is not last[0]]
    forms = {
        tuple(sorted(member.channels for member in members))
        for members in group_by_stride(rest).values()
    }
    channels = forms.pop()
    if forms or len(channels) not in (2, 3) or (len(channels) == 3 and 1 not in channels):
        return
    size = (outputs.input_h, outputs.input_w)
    head = DflGridHead(*size, tuple(rest), tuple(weights), finest[0])
    yield _candidate(outputs, head, "bins, classes and weights of masks, apart", PARTS_FIT)


def _grid(index: int, output: OutputTensor, input_h: int, input_w: int) -> Rows | None:
    """The output as a grid of cells; NHWC where both layouts would fit."""
    if len(output.shape) != 4 or output.shape[0] != 1:
        return None
    _, a, b, c = output.shape
    for stride in _STRIDES:
        size = (input_h // stride, input_w // stride)
        if (a, b) == size:
            return Rows(index, output, c, False, stride)
        if (b, c) == size:
            return Rows(index, output, a, True, stride)
    return None


def _candidate(
    outputs: Outputs, head: Head, reading: str, bonus: int = 0, doubt: str | None = None
) -> Candidate:
    score, reasons = class_score(head.classes or 0, outputs.hints)
    if bonus:
        reasons = (*reasons, "the graph joins such parts")
    full = f"{reading}, {plural(head.classes or 0, 'class')}"
    return Candidate(head, full, score + bonus, reasons, doubt)


def _whole_grids(
    outputs: Outputs, members: tuple[Rows, ...], channels: int, grids: int
) -> Iterator[Candidate]:
    """One tensor per grid."""
    size = (outputs.input_h, outputs.input_w)
    parts = outputs.parts(members[0].index, channels)
    if channels > _BIN_CHANNELS:
        fits = parts == (_BIN_CHANNELS, channels - _BIN_CHANNELS)
        yield _candidate(
            outputs, DflGridHead(*size, members), "bins of distances", PARTS_FIT if fits else 0
        )
    if channels > 5:
        fits = parts in ((4, 1, channels - 5), (4, channels - 4))
        yield _candidate(
            outputs, YoloXGridHead(*size, members), "a box per cell", PARTS_FIT if fits else 0
        )
    for family in ANCHOR_FAMILIES:
        yield from _anchored(outputs, members, grids, family, parts)


def _anchored(
    outputs: Outputs,
    members: tuple[Rows, ...],
    grids: int,
    family: AnchorFamily,
    parts: tuple[int, ...],
) -> Iterator[Candidate]:
    is_named = outputs.hints.decoder == family.name
    if grids != family.grids and not (is_named and outputs.hints.anchors):
        return
    anchors = outputs.hints.anchors or family.anchors_for(outputs.input_h, outputs.input_w)
    per_cell, rest = divmod(len(anchors), grids)
    channels = members[0].channels
    if rest or per_cell == 0 or channels % per_cell or channels < 6 * per_cell:
        return
    head = AnchorGridHead(outputs.input_h, outputs.input_w, members, anchors, family)
    grouped = (4 * per_cell, per_cell, channels - 5 * per_cell)
    fits = family.name == "st-yolox" and parts == grouped
    yield _candidate(
        outputs,
        head,
        f"{per_cell} anchors per cell, as {family.what}",
        2 * PARTS_FIT if fits else 0,
        None if fits else "a cut head does not say which anchors and formulas belong to it",
    )
