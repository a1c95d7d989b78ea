"""Say which element of a source each element of a result is: one type for all that moves values.

Elements are counted row by row, so that a reshape is the identity. A map is a union of pieces; a
piece is a box of digits, each with a count, a stride in the source and a stride in the result. Both
sides are alike, so that inverting a map exchanges them. A layout of memory is a map, too. Elements
of the result that no piece has are unknown, or not wanted: windows and padding of groups.

Composition is exact. Where a window and a digit do not fit together, a piece becomes several.
Unions have no normal form: ask every piece, compare no two maps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

Shape = Sequence[int]

MOST_PIECES = 1024
"""Maps of so many pieces help nobody: no operator has more than a few."""

FAR = 1 << 40
"""More than any tensor has elements."""


class MapError(ValueError):
    """A map is not known, or has too many pieces."""


class Fill(NamedTuple):
    """The source of a border: one value instead of a tensor."""

    value: int


class Digit(NamedTuple):
    """``size`` elements; from one to the next in the source (0: repeated, below 0: backwards) and
    in the result.
    """

    size: int
    source: int
    result: int


class Piece(NamedTuple):
    """Element ``first_result + sum(i * digit.result)`` of the result is element ``first_source +
    sum(i * digit.source)`` of ``source``, an operand's position.

    Digits lie in descending order of their strides in the result. These are above 0 and nested: all
    inner digits together never reach an outer one's next value.
    """

    source: int | Fill
    first_source: int
    first_result: int
    digits: tuple[Digit, ...]

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(digit.size for digit in self.digits)

    def normal(self) -> Piece:
        """Return the same piece with digits in order, as few as there can be."""
        first_source, first_result = self.first_source, self.first_result
        digits = []
        for size, source, result in self.digits:
            if result < 0:
                first_source += (size - 1) * source
                first_result += (size - 1) * result
            if size > 1:
                sign = -1 if result < 0 else 1
                digits.append(Digit(size, sign * source, sign * result))
        digits.sort(key=lambda digit: -digit.result)
        found: list[Digit] = []
        for inner in digits:
            outer = found[-1] if found else None
            if outer and outer[1:] == (inner.size * inner.source, inner.size * inner.result):
                found[-1] = inner._replace(size=outer.size * inner.size)
            else:
                found.append(inner)
        return Piece(self.source, first_source, first_result, tuple(found))

    def exchanged(self) -> Piece | None:
        """Return the piece from the result to the source, named 0; None: it is no such piece."""
        digits = tuple(Digit(size, result, source) for size, source, result in self.digits)
        found = Piece(0, self.first_result, self.first_source, digits).normal()
        return found if found.is_nested else None

    @property
    def is_nested(self) -> bool:
        """Return whether no inner digits together reach an outer one's next value in the result."""
        reach = 0
        for digit in reversed(self.digits):
            if digit.result <= reach:
                return False
            reach += (digit.size - 1) * digit.result
        return True

    def with_next(self, other: Piece) -> Piece | None:
        """Return both as one piece, if they are values of one digit side by side; None: they are
        not.
        """
        apart = other.first_source - self.first_source, other.first_result - self.first_result
        for digit, size, outer, inner in (
            *((d, d.size, self, other) for d in self.digits),
            *((d, 1, other, self) for d in other.digits),
        ):
            rest = tuple(d for d in outer.digits if d is not digit)
            if rest == inner.digits and apart == (size * digit.source, size * digit.result):
                longer = digit._replace(size=digit.size + 1)
                return self._replace(digits=(*rest, longer)).normal()
        if self.digits != other.digits:
            return None
        found = self._replace(digits=(*self.digits, Digit(2, *apart))).normal()
        return found if found.is_nested else None


@dataclass(frozen=True, slots=True)
class IndexMap:
    """The elements of a result of ``size``. ``pieces`` have no element of it in common."""

    size: int
    pieces: tuple[Piece, ...]

    @property
    def is_whole(self) -> bool:
        """Return whether every element of the result has a source."""
        return sum(piece.size for piece in self.pieces) == self.size

    def shift(self, source: int = 0) -> int | None:
        """Return by how much all elements have higher numbers in ``source`` than in the result;
        None: they differ.
        """
        found = {
            piece.first_source - piece.first_result
            if all(digit.source == digit.result for digit in piece.digits)
            else None
            for piece in self.pieces
            if piece.source == source
        }
        return found.pop() if len(found) == 1 else None

    def compose(self, *inner: IndexMap) -> IndexMap:
        """Return the map from the sources of ``inner``, of which number n makes source n of this
        one. Raises MapError.
        """
        found: list[Piece] = []
        for piece in self.pieces:
            if isinstance(piece.source, Fill):
                found.append(piece)
                continue
            for before in inner[piece.source].pieces:
                found += _through(piece, before)
                if len(found) > MOST_PIECES:
                    raise MapError(f"it has more than {MOST_PIECES} pieces")
        return IndexMap(self.size, tuple(found))

    def invert(self, source: int, size: int) -> IndexMap | None:
        """Return where the elements of ``source``, which has ``size``, go to. None: an element goes
        to several places.
        """
        given = [piece.exchanged() for piece in self.pieces if piece.source == source]
        found = [piece for piece in given if piece is not None]
        pairs = itertools.combinations(found, 2)
        if len(found) < len(given) or any(_meet(one, other) for one, other in pairs):
            return None
        return IndexMap(size, tuple(found))

    def is_order(self, size: int) -> bool:
        """Return whether the result has every element of its source, which has ``size``, once."""
        return self.is_whole and self.size == size and self.invert(0, size) is not None

    def by_dimensions(self, result: Shape, *sources: Shape) -> IndexMap:
        """Return the same map of a result, and of sources if given, in layouts whose dimensions do
        not reach into one another: the values of the last lie 1 apart, those of each before it FAR
        times more. See ``coordinates``. Raises MapError.
        """
        found = _layout(tuple(result)).compose(self)
        inner = (_back(tuple(shape), name) for name, shape in enumerate(sources))
        return found.compose(*inner) if sources else found

    def in_bytes(self, size: int) -> IndexMap:
        """Return the map of the bytes of elements of ``size``, without borders."""
        if size == 1:
            return self
        pieces = (
            Piece(
                piece.source,
                piece.first_source * size,
                piece.first_result * size,
                (*(Digit(n, s * size, r * size) for n, s, r in piece.digits), Digit(size, 1, 1)),
            ).normal()
            for piece in self.pieces
        )
        return IndexMap(self.size * size, tuple(pieces))


# Composition. An element of the result leads to one of the middle, which leads to one of a source.


_Term = tuple[int, int, int, int]
"""A digit on its way: its size, and its strides in the result, the middle and the source."""


class _Way(NamedTuple):
    """A piece on its way: the first element on each side, and terms."""

    result: int
    middle: int
    source: int
    terms: tuple[_Term, ...]

    def part(self, at: int, begin: int, *parts: tuple[int, int]) -> _Way:
        """Return what is left from value ``begin`` of a term on, which becomes terms of these sizes
        and distances.
        """
        _, result, middle, source = self.terms[at]
        inner = ((n, k * result, k * middle, k * source) for n, k in parts if n > 1)
        return _Way(
            self.result + begin * result,
            self.middle + begin * middle,
            self.source + begin * source,
            (*self.terms[:at], *inner, *self.terms[at + 1 :]),
        )


def _through(outer: Piece, inner: Piece) -> list[Piece]:
    """Return the elements of ``outer`` that ``inner`` makes: numbers in the middle are divided by
    each digit of ``inner`` in turn, until 0 is left.
    """
    first, middle = outer.first_result, outer.first_source - inner.first_result
    terms = []
    for size, source, result in outer.digits:
        if source < 0:
            first, middle = first + (size - 1) * result, middle + (size - 1) * source
        sign = -1 if source < 0 else 1
        terms.append((size, sign * result, sign * source, 0))
    ways = [_Way(first, middle, inner.first_source, tuple(terms))]
    is_dense = bool(inner.digits) and inner.digits[-1].result == 1  # nothing is left of any number
    for digit in inner.digits if is_dense else (*inner.digits, Digit(1, 0, 1)):
        ways = [part for given in ways for part in _divided(given, digit)]
    pieces = []
    for way in sorted(ways, key=lambda way: way.result):
        digits = tuple(Digit(size, source, result) for size, result, _, source in way.terms)
        pieces.append(Piece(inner.source, way.source, way.result, digits).normal())
    return _merged(pieces)


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Return neighbours that are values of one digit as one piece."""
    found: list[Piece] = []
    for piece in pieces:
        both = found[-1].with_next(piece) if found else None
        if both:
            found[-1] = both
        else:
            found.append(piece)
    return found if len(found) == len(pieces) else _merged(found)


def _divided(way: _Way, by: Digit) -> list[_Way]:
    """Return the parts of ``way`` whose middle is a value of ``by`` and a remainder, which is the
    new middle.
    """
    done: list[_Way] = []
    todo = [way]
    while todo:
        way = todo.pop()
        first, rest = divmod(way.middle, by.result)
        last, most = first, rest
        quotients, rests = [], []
        for size, _, middle, _ in way.terms:
            quotient, left = divmod(middle, by.result)
            last += quotient * (size - 1)
            most += left * (size - 1)
            quotients.append(quotient)
            rests.append(left)
        if first >= by.size or (last < 0 and most < by.result):
            continue
        if most >= by.result:
            todo += _periods(way, rests, by.result) or _sides(way, rest, most, rests, by.result)
        elif first < 0:
            todo += _sides(way, first, last, quotients, 0)
        elif last >= by.size:
            todo += _sides(way, first, last, quotients, by.size)
        else:
            terms = (
                (size, result, left, source + quotient * by.source)
                for (size, result, _, source), quotient, left in zip(
                    way.terms, quotients, rests, strict=True
                )
            )
            done.append(_Way(way.result, rest, way.source + first * by.source, tuple(terms)))
        if len(done) + len(todo) > MOST_PIECES:
            raise MapError(f"it has more than {MOST_PIECES} pieces")
    return done


def _periods(way: _Way, rests: Sequence[int], step: int) -> list[_Way]:
    """Return ``way`` with whole periods of the first term that wraps round as a term of their own,
    and what is left of it; nothing where none does.
    """
    for at, ((size, *_), rest) in enumerate(zip(way.terms, rests, strict=True)):
        period = step // math.gcd(rest, step)
        if rest and size > period:
            whole, left = divmod(size, period)
            found = [way.part(at, 0, (whole, period), (period, 1))]
            return found + ([way.part(at, whole * period, (left, 1))] if left else [])
    return []


def _sides(way: _Way, first: int, last: int, strides: Sequence[int], bound: int) -> list[_Way]:
    """Return parts in which ``first`` and the sum of ``strides``, at most ``last``, is on one side
    of ``bound``, or which have a term less.
    """
    at = max(range(len(strides)), key=strides.__getitem__)
    stride, size = strides[at], way.terms[at][0]
    most = last - stride * (size - 1)
    below = min(max(-((most - bound) // stride), 0), size)
    above = min(-((first - bound) // stride), size)
    found = [way.part(at, 0, (below, 1))] if below else []
    found += [way.part(at, value) for value in range(below, above)]
    return found + ([way.part(at, above, (size - above, 1))] if above < size else [])


def _meet(one: Piece, other: Piece) -> bool:
    """Return whether both pieces have an element of the result."""
    digits = tuple(Digit(digit.size, digit.result, 0) for digit in one.digits)
    return bool(_through(Piece(0, one.first_result, 0, digits), other))


def row_major(shape: Shape) -> tuple[int, ...]:
    """Return the strides of a tensor's dimensions."""
    inner = itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1)
    return tuple(inner)[::-1][: len(shape)]


def box_piece(
    sizes: Shape,
    source: Shape,
    result: Shape,
    first_source: int = 0,
    first_result: int = 0,
    name: int | Fill = 0,
) -> Piece:
    """Return a box of ``sizes`` with such strides and first elements on both sides."""
    digits = tuple(map(Digit, sizes, source, result))
    return Piece(name, first_source, first_result, digits).normal()


def strided(sizes: Shape, strides: Shape, first: int = 0) -> IndexMap:
    """Return a tensor of ``sizes``, whose dimensions lie so far apart in the source."""
    piece = box_piece(sizes, strides, row_major(sizes), first)
    return IndexMap(math.prod(sizes), (piece,))


def identity(shape: Shape) -> IndexMap:
    """Return elements as they are: RESHAPE, SQUEEZE, EXPAND_DIMS."""
    return strided((math.prod(shape),), (1,))


def tiled(shape: Shape, times: Shape) -> IndexMap:
    """Return the whole tensor so many times one behind the other in each dimension."""
    sizes = [n for pair in zip(times, shape, strict=True) for n in pair]
    return strided(sizes, [n for stride in row_major(shape) for n in (0, stride)])


@lru_cache(maxsize=256)
def _layout(shape: tuple[int, ...]) -> IndexMap:
    """Return the layout of a tensor whose dimensions lie apart."""
    far = row_major([FAR] * len(shape))
    return IndexMap(FAR ** len(shape), (box_piece(shape, row_major(shape), far),))


@lru_cache(maxsize=256)
def _back(shape: tuple[int, ...], name: int) -> IndexMap:
    """Return the tensor that ``_layout`` brings apart, of the source of this name."""
    far = row_major([FAR] * len(shape))
    return IndexMap(math.prod(shape), (box_piece(shape, far, row_major(shape), name=name),))


def coordinates(number: int, rank: int) -> tuple[int, ...]:
    """Return an element, or a distance, of ``by_dimensions`` in each of the dimensions."""
    found: list[int] = []
    for _ in range(rank):
        nearest = (number + FAR // 2) // FAR
        found.insert(0, number - nearest * FAR)
        number = nearest
    return tuple(found)
