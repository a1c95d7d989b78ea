"""Joins functions to the convolutions whose results only they read: one task instead of two.

In: plans in execution order. Out: the same, in which some convolutions also look up the function of
one value that follows them. Which plans are of that kind they say themselves (``Follower``), and
which can take such a thing in (``Leader``). A result is one that the operators one after the other
could give if each were within one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from delegate.lower.operation import Follower, Leader, Plan, Planning

Joined = dict[tuple[int, int], tuple[Plan, Plan, Plan | None]]
"""The outcome for a leader and its follower, by their identities: both of them, and the joined plan
if there is one.
"""


def fuse(
    plans: Sequence[Plan], planning: Planning, kept: Sequence[int], known: Joined
) -> list[Plan]:
    """``kept``: tensors that others than ``plans`` need. ``known``: what is not tried again."""
    readers = Counter(tensor for plan in plans for tensor, _ in plan.footprint.reads)
    found: dict[int, Plan] = {}  # by result
    for plan in plans:
        result = plan
        if isinstance(plan, Follower):
            (tensor,) = plan.operation.operands
            leader = found.get(tensor)
            is_hidden = readers[tensor] == 1 and tensor not in kept
            if is_hidden and isinstance(leader, Leader):
                pair = id(leader), id(plan)
                if pair not in known:
                    known[pair] = leader, plan, leader.followed_by(planning, plan)
                joined = known[pair][2]
                if joined is not None:
                    del found[tensor]
                    result = joined
        found[plan.footprint.result] = result
    return list(found.values())
