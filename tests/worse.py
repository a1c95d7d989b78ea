"""Worse chips that the simulator can play, for tests of what must notice them."""

from typing import NamedTuple

from delegate import _native


class Deviation(NamedTuple):
    """One way to be worse: "kind:stage:way"; ``what`` completes "Such a task ...". Names that are
    joined by commas make a chip with all of them.
    """

    name: str
    kind: str
    stage: str
    what: str

    @property
    def way(self) -> str:
        """The last part of the name."""
        return self.name.split(":")[2]


DEVIATIONS = tuple(Deviation(*item) for item in _native.deviations())


def everywhere(*ways: str) -> str:
    """A chip that is worse in ``ways`` ("stage:way") in tasks of every kind that can be so. Raises
    ValueError for a way that no kind has.
    """
    names = []
    for wanted in ways:
        found = [item.name for item in DEVIATIONS if f"{item.stage}:{item.way}" == wanted]
        if not found:
            raise ValueError(f"no deviation of a chip is called {wanted}")
        names += found
    return ",".join(names)


def chip_of(text: str) -> str:
    """The chip of a list like "bs:ties_up,dense:task:hangs": without a kind, for tasks of all."""
    parts = text.split(",")
    return ",".join(part if part.count(":") == 2 else everywhere(part) for part in parts)
