"""Joins operations to the convolutions whose results only they read: one task instead of two.

In: plans in execution order. Out: the same, in which some convolutions also compute what follows
them: a function of one value, a sum with another tensor. Which plans are of that kind they say
themselves (``Follower``), and which can take such a thing in (``Leader``). The results are no
longer TensorFlow Lite's for every input: ``numerics=fast``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delegate.chip.limits import surfaces_of
from delegate.lower.operation import Follower, Leader, Plan, Planning

Joined = dict[tuple[int, int], tuple[Plan, Plan, Plan | None]]
"""What became of a leader and its follower, by their identities: both of them, and the joined plan
if there is one.
"""


def fuse(
    planning: Planning, plans: Sequence[Plan], kept: Sequence[int], known: Joined
) -> list[Plan]:
    """``kept``: tensors that others than ``plans`` need. ``known``: what is not tried again. A
    joined plan stands where its last node did, so that all of its operands are there.
    """
    readers: dict[int, int] = {}
    for plan in plans:
        for tensor, _ in plan.footprint.reads:
            readers[tensor] = readers.get(tensor, 0) + 1
    found: dict[int, Plan] = {}  # by result
    for plan in plans:
        result = plan
        if isinstance(plan, Follower):
            for tensor in plan.follows:
                leader = found.get(tensor)
                is_hidden = readers[tensor] == 1 and tensor not in kept
                if not is_hidden or not isinstance(leader, Leader):
                    continue
                pair = id(leader), id(plan)
                if pair not in known:
                    known[pair] = leader, plan, leader.followed_by(planning, plan, tensor)
                joined = known[pair][2]
                if joined is not None and _operands_suffice(planning, joined, found):
                    del found[tensor]
                    result = joined
                    break
        found[plan.footprint.result] = result
    return list(found.values())


def _operands_suffice(planning: Planning, plan: Plan, found: Mapping[int, Plan]) -> bool:
    """Whether somebody writes all surfaces of the tensors that ``plan`` reads besides its first
    one, or could: tasks of convolutions read whole groups.
    """
    for tensor, surfaces in plan.footprint.reads[1:]:
        if surfaces <= surfaces_of(planning.tensor(tensor).view.channels):
            continue
        if tensor in planning.joined:  # what follows is a neighbour
            return False
        if tensor in found:
            maker = found[tensor].footprint
            if maker.writes + maker.unwritten < surfaces:
                return False
    return True
