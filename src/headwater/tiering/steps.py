"""The steps of a round, and those who are told of them."""

from collections.abc import Awaitable, Callable
from enum import Enum


class Step(Enum):
    """Name the steps of a round, in their order."""

    TABLE = "table"
    LAKE_TABLE = "lake table"
    HEAD = "head"
    LOGS = "logs"
    ADOPT = "adopt"
    PLAN = "plan"
    CLAIM = "claim"
    WRITE = "write"
    PREPARE = "prepare"
    COMMIT = "commit"
    REPORT = "report"


Watch = Callable[[Step], Awaitable[None]]
"""Told of every step before it is taken; one that raises ends the round there."""


async def no_watch(_step: Step) -> None:
    """Take no note of a step."""
