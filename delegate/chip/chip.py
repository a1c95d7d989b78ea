"""A chip as the compiler and the simulator need to know it, as one frozen value.

Stages get the ``Chip`` they work for from the stage above; nothing else holds a size, a limit or a
rate of an NPU. The simulator and the devices get the same value (``delegate/chip/header.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from delegate.chip.element import Element
from delegate.chip.evidence import Evidence
from delegate.chip.limits import CHANNELS_PER_SURFACE, align
from delegate.chip.rates import Rates
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
        return -(-(rows * entries_per_row + self._spare(width)) // self.bank_entries)

    def rows_within(self, banks: int, width: int, entries_per_row: int) -> int:
        """The most rows of ``width`` pixels that ``banks`` hold."""
        return (banks * self.bank_entries - self._spare(width)) // entries_per_row

    def _spare(self, width: int) -> int:
        return self.column_spare_entries if width == 1 else 0


@dataclass(frozen=True, slots=True)
class Groups:
    """Channels that the MAC array takes together, of int8; the DPU writes whole groups.

    ``dense_kernels`` and ``depthwise_channels`` are half as many with fp16, ``input_lanes`` (of a
    dense kernel) are the same for every type.
    """

    dense_kernels: int
    depthwise_channels: int
    input_lanes: int

    def outputs(self, is_depthwise: bool) -> int:
        """Channels of an int8 result that are computed, and written, together."""
        return self.depthwise_channels if is_depthwise else self.dense_kernels

    def surfaces_written(self, channels: int, *, is_depthwise: bool) -> int:
        """Surfaces of an int8 result of ``channels``: whole groups."""
        return align(channels, self.outputs(is_depthwise)) // CHANNELS_PER_SURFACE


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


@dataclass(frozen=True, slots=True)
class Forms:
    """How the numbers of a program lie in memory, where chips differ.

    ``depthwise_pairs``: every depthwise weight has a second byte that is added to it, which holds
    the zero point with the other sign. ``operand_blocks``: BS always takes its operands per channel
    from memory, and its shifts from a record there. ``whole_kernel_groups``: only whole groups of
    kernels are programmed, the rest of them with weights of zero. ``equal_sides``: kernels, strides
    and dilations that differ between rows and columns are not proven, nor tiles of columns.
    ``depthwise_surface_pixels``: of what the pixels from one depthwise surface to the next are a
    multiple, unless there is one pixel. ``writes_sums``: convolutions can write their int32 sums.
    """

    depthwise_pairs: bool = False
    operand_blocks: bool = False
    whole_kernel_groups: bool = False
    equal_sides: bool = False
    depthwise_surface_pixels: int = 1
    writes_sums: bool = True

    def surface_pixels(self, is_depthwise: bool) -> int:
        """The same, of any convolution."""
        return self.depthwise_surface_pixels if is_depthwise else 1


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip. ``name`` is what Programs are marked with; ``formats`` are the element types
    that convolutions take; ``registers`` say where encoder and simulator find what they write and
    read.
    ``missing``: names of forms that a board has shown not to have, with what it showed.
    ``evidence`` says which stages programs may use; None: any. ``has_pooling``: programs may use
    the PPU, as the driver that runs them waits for its interrupt.
    """

    name: str
    cores: int
    atom_bytes: int  # one pixel of one surface: C2 of NC1HWC2
    cbuf: Cbuf
    groups: Groups
    rates: Rates
    limits: Limits
    formats: tuple[Element, ...]
    registers: RegisterMap = field(hash=False, repr=False, compare=False)
    forms: Forms = field(default_factory=Forms)
    missing: Mapping[str, str] = field(default_factory=dict, hash=False)
    evidence: Evidence | None = field(default=None, hash=False, repr=False, compare=False)
    has_pooling: bool = False

    def without(self, missing: Mapping[str, str]) -> Chip:
        """This chip on a board that lacks ``missing``: names of forms, and reasons."""
        return replace(self, missing=dict(missing))
