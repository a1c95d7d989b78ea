"""A chip as the compiler and the simulator need to know it, as one frozen value.

Stages get the ``Chip`` they work for from the stage above; nothing else holds a size, a limit or a
rate of an NPU. The simulator and the devices get the same value (``native_chip``).

Rates of a chip, and the times that its drivers take, from which time is estimated. Every value
says where it is from; where sources disagree it is a span.

Names the kinds of work that tasks ask of a chip and that a chip may lack.

Questions of lowering to the evidence for a chip's forms, before it chooses among stages.

A form: what the registers of a task say, but for its numbers.

Numbers are addresses, sizes, strides, scales, offsets, thresholds and paddings. Everything else is
a setting: which blocks and stages work, where their operands come from, how they round. A kind
(``dense_int8``) and its settings together are a form, the unit of evidence: a form is known if
somebody has run it on silicon.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from delegate.chip.element import CHANNELS_PER_SURFACE, Element, align
from delegate.chip.register_model import RegisterMap


@dataclass(frozen=True, slots=True)
class Cbuf:
    """The buffer in front of the MAC array, shared by features and weights.

    ``max_row_entries``: entries that one row of a tile may take (the vendor's compiler refuses
    more). Weights of up to ``resident_weight_banks`` stay as a whole; of more, two groups of
    kernels are double-buffered. ``data_banks``: where only one split is proven, the banks that
    features get; 0: any number. ``weight_slice_bytes``: the most that the weights of a group of
    kernels may take then, which is less than the rest of the banks. ``is_shared``: one buffer
    serves two cores; the banks are those of the first, and the second has as many behind them.
    ``column_spare_entries``: those that images of one column leave free in the last of their banks.
    """

    banks: int
    bank_bytes: int
    entry_bytes: int
    max_row_entries: int
    resident_weight_banks: int
    data_banks: int = 0
    weight_slice_bytes: int = 0
    is_shared: bool = False
    column_spare_entries: int = 0

    @property
    def weight_banks(self) -> int:
        """Return the banks that are left for weights where only one split is proven."""
        return self.banks - self.data_banks

    @property
    def bank_entries(self) -> int:
        return self.bank_bytes // self.entry_bytes

    def banks_of_image(self, rows: int, width: int, entries_per_row: int) -> int:
        """Banks for ``rows`` of ``width`` pixels."""
        spare = self.column_spare_entries if width == 1 else 0
        return -(-(rows * entries_per_row + spare) // self.bank_entries)

    def rows_within(self, banks: int, width: int, entries_per_row: int) -> int:
        """Return the most rows of ``width`` pixels that ``banks`` hold."""
        spare = self.column_spare_entries if width == 1 else 0
        return (banks * self.bank_entries - spare) // entries_per_row


@dataclass(frozen=True, slots=True)
class Groups:
    """Channels that the MAC array takes together, of int8; the DPU writes whole groups.

    ``dense_kernels`` and ``depthwise_channels`` are half as many with fp16, ``input_lanes`` (of a
    dense kernel) are the same for every type. ``kernel_unit``: of what the dense kernels that are
    programmed are a multiple. ``fills_inputs``: dense kernels are programmed with as many input
    channels as depthwise ones. ``depthwise_weight_bytes``: 2 where a second byte, which holds the
    zero point with the other sign, is added to each weight. ``depthwise_surface_pixels``: of what
    the pixels from one depthwise surface to the next are a multiple, unless there is one pixel.
    """

    dense_kernels: int
    depthwise_channels: int
    input_lanes: int
    kernel_unit: int = 2
    fills_inputs: bool = False
    depthwise_weight_bytes: int = 1
    depthwise_surface_pixels: int = 1

    def outputs(self, is_depthwise: bool, element_bytes: int = 1) -> int:
        """Channels of a result that are computed, and written, together."""
        channels = self.depthwise_channels if is_depthwise else self.dense_kernels
        return channels // element_bytes

    def surfaces_written(self, channels: int, *, is_depthwise: bool) -> int:
        """Surfaces of an int8 result of ``channels``: whole groups."""
        return align(channels, self.outputs(is_depthwise)) // CHANNELS_PER_SURFACE

    def surface_pixels(self, is_depthwise: bool) -> int:
        """Return of what the pixels from one surface of a result to the next are a multiple."""
        return self.depthwise_surface_pixels if is_depthwise else 1

    def dense_lanes(self, channels: int) -> int:
        """Return the input channels that a dense task of int8 is programmed with."""
        if self.fills_inputs:
            return self.depthwise_lanes(channels)
        return align(channels, CHANNELS_PER_SURFACE)

    def depthwise_lanes(self, channels: int) -> int:
        """Return the channels that a depthwise task of int8 is programmed with: whole surfaces, a
        power of two of them in the last group.

        A last group of 16, 32 or 64 channels is observed; 48 is not, so it is widened to 64.
        """
        rest = channels % self.depthwise_channels
        stored = 0 if rest == 0 else CHANNELS_PER_SURFACE
        while stored < rest:
            stored *= 2
        return channels - rest + stored


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest values that register fields take, or that are known to work, in the units that
    lowering uses. ``spreads``: rows, or columns, that a pixel may take where CNA puts it apart from
    the next (none: it puts none apart); ``spread_pad``: the padding beside such pixels.
    """

    feature_size: int  # width and height of a tile that CNA reads, pixels
    cube_size: int  # width, height and channels of what the DPU writes
    input_channels: int
    notch: int  # pixels skipped between the rows of a tile
    kernel_size: int
    kernels: int
    stride: int
    pad: int  # rows above, columns on the left
    dilation: int
    spread: int  # rows, or columns, that a pixel of a transposed convolution's input takes
    spreads: tuple[int, ...]
    spread_pad: int
    bytes_per_kernel: int
    shift: int  # of BS, BN and OUT_CVT
    chain_tasks: int
    products: int  # of int8 under one window, without leaving the accumulator


COMPUTED_WEIGHTS: Final = "computed-weights"
"""A task reads weights that tasks before it compute."""
COMPUTED_SUMMANDS: Final = "computed-summands"
"""A task adds what tasks before it compute for each channel, such as their int32 sums."""

PROVED: Final = "proved"
"""First word of the state of a form, or of what a task relies on, that a board was right with."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip. ``name`` is what Programs are marked with; ``target`` names the folders of its
    encoder and its forms, which chips may share. ``formats`` are the element types that
    convolutions take; ``registers`` say where encoder and simulator find what they write and read.
    ``missing``: names of forms that a board has shown not to have, with what it showed.
    ``proved``: those that it has shown to have, see ``delegate.chip.known_forms``.
    ``evidence`` says which stages programs may use; None: any. ``lacks``: what no program may ask
    for.
    """

    name: str
    target: str
    cores: int
    atom_bytes: int  # one pixel of one surface: C2 of NC1HWC2
    cbuf: Cbuf
    groups: Groups
    rates: Rates
    limits: Limits
    formats: tuple[Element, ...]
    registers: RegisterMap = field(hash=False, repr=False, compare=False)
    lacks: frozenset[Primitive] = frozenset()
    missing: Mapping[str, str] = field(default_factory=dict, hash=False)
    proved: Mapping[str, str] = field(default_factory=dict, hash=False)
    evidence: Evidence | None = field(default=None, hash=False, repr=False, compare=False)

    def on_board(self, shown: Mapping[str, str]) -> Chip:
        """Return this chip on a board that has ``shown`` something of forms, by name."""
        proved = {name: state for name, state in shown.items() if state.startswith(PROVED)}
        missing = {name: state for name, state in shown.items() if name not in proved}
        return replace(self, missing=missing, proved=proved)


@dataclass(frozen=True, slots=True)
class Span:
    """A quantity that lies between ``least`` and ``most``: sources disagree, or bound one side."""

    least: float
    most: float

    @property
    def middle(self) -> float:
        return (self.least + self.most) / 2

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.most + other.most)

    def times(self, factor: float) -> Span:
        """Return the span of ``factor`` such quantities."""
        return Span(self.least * factor, self.most * factor)


@dataclass(frozen=True, slots=True)
class Driver:
    """A kernel's driver of the NPU. ``kick_us``: launching a task and learning that it is done;
    ``submit_us``: a submit besides its tasks; ``clock_hz``: at which clocks it runs the NPU.
    """

    name: str
    kick_us: Span
    submit_us: Span
    clock_hz: Span


@dataclass(frozen=True, slots=True)
class Measurement:
    """A figure of others: how long an inference of a published network took."""

    network: str
    ms: Span
    conditions: str
    source: str


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates that time is estimated from.

    Output pixels are computed ``step_pixels`` at a time and a dense group of int8 takes at least
    ``min_dense_steps`` steps of input lanes per pixel. Bytes per cycle of the NPU, in tenths where
    so named: ``bus`` of one core, ``host`` what the CPU converts. ``memory_bytes_per_us``: the
    bytes that one, two, ... cores together get from memory, whatever the clock of the NPU.
    ``kick_cycles``: what programs are tiled by, whichever driver runs them. ``drivers``: who may
    run the chip's NPU. ``measured``: what others measured on boards.
    """

    step_pixels: int
    min_dense_steps: int
    bus_decibytes_per_cycle: int
    memory_bytes_per_us: tuple[Span, ...]
    host_bytes_per_cycle: int
    kick_cycles: int
    clock_hz: int
    drivers: tuple[Driver, ...]
    measured: tuple[Measurement, ...] = ()

    def microseconds(self, cycles: int) -> float:
        """Return how long cycles take at the nominal clock."""
        return cycles * 1e6 / self.clock_hz


class Primitive(enum.Enum):
    """A kind of work that some chips of the family have not, or that nobody has run on them.

    Encoders refuse tasks that ask for what their chip lacks; lowering makes others of them. The
    value completes a message: "the chip has no known ...".
    """

    UNEQUAL_SIDES = "kernels, strides or dilations that differ between rows and columns"
    ROW_PARTS = "tiles of a part of the columns"
    ROW_GAPS = "gaps between rows"
    SURFACE_GAPS = "gaps between surfaces in tasks of the DPU alone"
    KEPT_WEIGHTS = "weights kept from the task before"
    SUMS = "int32 results"
    REGISTER_NUMBERS = "numbers of BS in registers: they lie in records in memory"
    EXTREMA = "maxima and minima of two maps"
    CHANNEL_OPERANDS = "operands of EW that are the same for all pixels"
    POOLING = "tasks of the pooling unit"


class Standing(enum.IntEnum):
    """A grade of how well the settings of a task are known; the greater, the better."""

    REFUSED = 0
    """Some setting has never been run, or these failed on this board."""
    IN_PARTS = 1
    """Every setting has been run in this kind of task, though not all of them together."""
    WHOLE = 2
    """This very combination has been run."""


class TaskKind(enum.Enum):
    """The kinds of tasks that evidence tells apart; the element type comes beside it."""

    DENSE = "dense"
    DEPTHWISE = "depthwise"
    SPREAD = "depthwise, zeros between pixels"
    SPREAD_DENSE = "dense, zeros between pixels"
    ALONE = "the DPU alone"


Pair = tuple[int, int]
"""A number of rows, and one of columns."""


class Evidence(Protocol):
    """Says which stages programs may use."""

    @property
    def is_exact(self) -> bool:
        """Return whether results have to be equal wherever some stages make them so."""

    def standing(
        self, kind: TaskKind, stages: Any, element: Element, /, *, keeps_weights: bool = False
    ) -> Standing:
        """Return how well ``stages``, of ``delegate.lower.task``, are known in tasks of ``kind``.
        ``keeps_weights``: in CBUF, from the task before.
        """

    def knows_dilations(self, kind: TaskKind, dilations: Pair, element: Element, /) -> bool:
        """Return whether taps of tasks of ``kind`` may lie so many rows and columns apart."""

    def knows_spread(self, kind: TaskKind, spread: Pair, element: Element, /) -> bool:
        """Return whether pixels of tasks of ``kind`` may lie so many rows and columns apart."""

    def knows_relation(self, name: str, /) -> bool:
        """Return whether tasks may rely so on those before them."""

    def knows_task(self, task: Any, /) -> bool:
        """Return whether a program may have ``task``, of ``delegate.lower.task``."""

    def refusal(self, task: Any, /) -> str:
        """Return why a program may not have a task of a form (``delegate.npu.evidence.TaskForm``);
        empty: it may.
        """


Settings = Mapping[str, str]
Registers = Mapping[int, int]
"""Values by offset, as one task leaves them; registers that it does not write are absent."""

ZEROS: Final = ("0x0", "0", "1x1")
"""Values of settings by which nothing is switched on."""


@dataclass(frozen=True)
class Form:
    """The ``kind`` of a task and its ``settings``, by name; those that are not named are 0.
    ``name``: the kind and eight digits that stand for the settings; equal forms have equal names.
    """

    kind: str
    settings: Settings = field(hash=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        text = "\n".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        digits = hashlib.sha256(text.encode()).hexdigest()[:8]
        object.__setattr__(self, "name", f"{self.kind}-{digits}")


def native_chip(chip: Chip) -> dict[str, str | int]:
    """Name and value of every field of the C++ struct, as ``_native.simulate`` takes a chip."""
    return {
        "name": chip.name,
        "cores": chip.cores,
        "atom_bytes": chip.atom_bytes,
        "cbuf_banks": chip.cbuf.banks,
        "cbuf_bank_bytes": chip.cbuf.bank_bytes,
        "cbuf_entry_bytes": chip.cbuf.entry_bytes,
        "cbuf_max_row_entries": chip.cbuf.max_row_entries,
        "cbuf_is_shared": int(chip.cbuf.is_shared),
        "dense_kernels": chip.groups.dense_kernels,
        "depthwise_channels": chip.groups.depthwise_channels,
        "input_lanes": chip.groups.input_lanes,
        "step_pixels": chip.rates.step_pixels,
        "min_dense_steps": chip.rates.min_dense_steps,
        "bus_decibytes_per_cycle": chip.rates.bus_decibytes_per_cycle,
        "max_chain_tasks": chip.limits.chain_tasks,
        "register_map": chip.registers.number,
    }
