"""Questions of lowering to the evidence for a chip's forms, before it chooses among stages."""

from __future__ import annotations

import enum
from typing import Any, Protocol


class Standing(enum.IntEnum):
    """How well the settings of a task are known; the greater, the better."""

    REFUSED = 0
    """Some setting has never been run, or these failed on this board."""
    IN_PARTS = 1
    """Every setting has been run in this kind of task, though not all of them together."""
    WHOLE = 2
    """This very combination has been run."""


class Evidence(Protocol):
    """Says which stages programs may use."""

    def standing(
        self, kind: Any, stages: Any, element: Any, /, *, keeps_weights: bool = False
    ) -> Standing:
        """How well ``stages`` are known in tasks of ``kind``: ``TaskKind`` and ``Stages`` of
        ``delegate.lower.task``, and an ``Element``. ``keeps_weights``: in CBUF, from the task
        before.
        """

    def knows_task(self, task: Any, /) -> bool:
        """Whether a program may have ``task``, of ``delegate.lower.task``."""

    def refusal(self, task: Any, /) -> str:
        """Why a program may not have a task of a form (``delegate.npu.task_form.TaskForm``); empty:
        it may.
        """
