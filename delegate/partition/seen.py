"""Where the host has the elements of a tensor, if it has them: an order with a window.

Comes from: an output, in the host's own order. Goes to: ``spreading``, which follows it back
through the nodes that make the output. The row-major number of an element is written in digits of
mixed base; each digit is wanted from a first value on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from delegate.chip.limits import CHANNELS_PER_SURFACE
from delegate.lower.lowered import Spread
from delegate.lower.operation import Channels
from delegate.lower.order import Order


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of ``size`` values, of which ``count`` from ``low`` on are wanted, ``stride``
    elements apart on the host.
    """

    size: int
    low: int
    count: int
    stride: int

    @property
    def is_whole(self) -> bool:
        return self.count == self.size

    def split(self, inner: int) -> tuple[Digit, Digit] | None:
        """An outer digit and one of ``inner`` values; None where the window ends within one."""
        if self.size % inner or self.low % inner or self.count % inner:
            return None
        outer = Digit(
            self.size // inner, self.low // inner, self.count // inner, self.stride * inner
        )
        return outer, Digit(inner, 0, inner, self.stride)

    def joined(self, inner: Digit) -> Digit | None:
        """Both as one; None where they are two."""
        is_even = self.count == 1 or self.stride == inner.stride * inner.size
        if not inner.is_whole or not is_even:
            return None
        size = inner.size
        return Digit(self.size * size, self.low * size, self.count * size, inner.stride)


_ONE = Digit(1, 0, 1, 0)
"""A dimension of size 1."""


@dataclass(frozen=True, slots=True)
class Seen:
    """``first``: where the host has the first wanted element; ``digits``, outermost first."""

    first: int
    digits: tuple[Digit, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every element is wanted."""
        return all(digit.is_whole for digit in self.digits)

    @staticmethod
    def whole(shape: Sequence[int]) -> Seen:
        """A tensor that the host has as it is."""
        size = math.prod(shape)
        return Seen(0, (Digit(size, 0, size, 1),))

    def before(self, forth: Order) -> Seen | None:
        """Return the window on the operand of what brings elements elsewhere, as ``forth`` says.
        None: the window is none there.
        """
        sizes = [size for size, _ in forth.axes]
        parts = self._parts(sizes)
        if parts is None:
            return None
        outermost_first = sorted(range(len(sizes)), key=lambda at: -forth.axes[at][1])
        return Seen(self.first, _joined([d for at in outermost_first for d in parts[at]]))

    def box(self, limits: Sequence[int], begin: Sequence[int], sizes: Sequence[int]) -> Seen | None:
        """Return the window on a part of a tensor of ``limits``; without digits, if nothing of it
        is wanted. None: the host has the tensor's places unevenly apart.
        """
        parts = self._parts(limits)
        if parts is None:
            return None
        found: list[Digit] = []
        first = self.first
        for part, at, size in zip(parts, begin, sizes, strict=True):
            outer, *inner = part or (_ONE,)
            unit = math.prod(digit.size for digit in inner)
            if at % unit or size % unit:
                return None
            low = max(outer.low, at // unit)
            end = min(outer.low + outer.count, (at + size) // unit)
            if end <= low:
                return Seen(0, ())
            first += (low - outer.low) * outer.stride
            found += (Digit(size // unit, low - at // unit, end - low, outer.stride), *inner)
        return Seen(first, _joined(found))

    def around(
        self, limits: Sequence[int], begin: Sequence[int], sizes: Sequence[int]
    ) -> Seen | None:
        """Return the window on a tensor of ``limits``, of which these are a part. None as for
        ``box``.
        """
        parts = self._parts(sizes)
        if parts is None:
            return None
        found: list[Digit] = []
        for part, limit, at in zip(parts, limits, begin, strict=True):
            outer, *inner = part or (_ONE,)
            unit = math.prod(digit.size for digit in inner)
            if at % unit or limit % unit:
                return None
            low = outer.low + at // unit
            found += (Digit(limit // unit, low, outer.count, outer.stride), *inner)
        return Seen(self.first, _joined(found))

    def apart(self, sizes: Sequence[int]) -> list[Seen]:
        """The same elements, those of each value of the outermost digit of a dimension that has
        several; none if all have one.
        """
        parts = self._parts(sizes) or []
        at = next((at for at, part in enumerate(parts) if len(part) > 1), None)
        if at is None:
            return []
        outer, *inner = parts[at]
        found = []
        for value in range(outer.count):
            one = Digit(outer.size, outer.low + value, 1, outer.stride)
            digits = [*itertools.chain(*parts[:at]), one, *inner]
            digits += itertools.chain(*parts[at + 1 :])
            found.append(Seen(self.first + value * outer.stride, _joined(digits)))
        return found

    def boxes(self, shape: Sequence[int]) -> list[tuple[Spread, Channels]] | None:
        """Return the boxes of a tensor of four dimensions: the channels of all pixels that are
        wanted, from the first one of a surface on, in parts that are evenly apart. None: there are
        none.
        """
        parts = self._parts(shape)
        if parts is None:
            return None
        *pixels, channels = parts
        if any(len(part) > 1 or not all(digit.is_whole for digit in part) for part in pixels):
            return None
        image, row, pixel = (part[0].stride if part else 0 for part in pixels)
        found = []
        for first, begin, digit in self._runs(channels):
            spread = Spread(first, image, row, pixel, digit.stride)
            found.append((spread, (begin + digit.low, digit.count)))
        if any(begin % CHANNELS_PER_SURFACE for _, (begin, _) in found):
            return None
        return found

    def _runs(self, digits: tuple[Digit, ...]) -> Iterator[tuple[int, int, Digit]]:
        """Channels that are evenly apart: where the first wanted one is on the host, which one the
        digit's first value is, and the digit.
        """
        if len(digits) < 2:
            yield self.first, 0, digits[0] if digits else _ONE
            return
        outer, *inner = digits
        size = math.prod(digit.size for digit in inner)
        for value in range(outer.count):
            run = Seen(self.first + value * outer.stride, tuple(inner))
            for first, begin, digit in run._runs(run.digits):
                yield first, (outer.low + value) * size + begin, digit

    def _parts(self, sizes: Sequence[int]) -> list[tuple[Digit, ...]] | None:
        """The digits that make each of ``sizes``, none where that is 1."""
        left = list(self.digits)
        found: list[tuple[Digit, ...]] = []
        for size in reversed(sizes):
            part: list[Digit] = []
            rest = size
            while rest > 1:
                if not left:  # a file may give a RESHAPE fewer elements than the runtime makes
                    return None
                digit = left.pop()
                if digit.size > rest:
                    pair = digit.split(rest)
                    if pair is None:
                        return None
                    outer, digit = pair
                    left.append(outer)
                elif rest % digit.size:
                    return None
                part.insert(0, digit)
                rest //= digit.size
            found.insert(0, _joined(part))
        return found


def _joined(digits: Sequence[Digit]) -> tuple[Digit, ...]:
    found: list[Digit] = []
    for digit in digits:
        if digit.size == 1:
            continue
        both = found[-1].joined(digit) if found else None
        if both is None:
            found.append(digit)
        else:
            found[-1] = both
    return tuple(found)
