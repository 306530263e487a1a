"""What travels between driver and workers: values as bytes, under the version that wrote them."""

import pickle
from collections.abc import Sequence
from typing import TypeAlias, cast

from headwater import __version__
from headwater.errors import HeadwaterError, UnsupportedError
from headwater.lake.spi import WriteResult
from headwater.tiering.task import Outcome, RewriteTask, TieringTask

Task: TypeAlias = TieringTask | RewriteTask
Answer: TypeAlias = Outcome | WriteResult | HeadwaterError

_MARK = f"headwater {__version__}\n".encode()


def pack_tasks(tasks: Sequence[Task]) -> bytes:
    """Return tasks as bytes; together, since they have much in common."""
    return _MARK + pickle.dumps(tuple(tasks))


def unpack_tasks(data: bytes) -> tuple[Task, ...]:
    """Read tasks that a driver of the same version has packed."""
    return cast("tuple[Task, ...]", _loaded(data))


def pack_answer(answer: Answer) -> bytes:
    """Return what came of a task, or what was wrong with it, as bytes."""
    return _MARK + pickle.dumps(answer)


def unpack_answer(data: bytes) -> Answer:
    """Read what a worker of the same version has packed."""
    return cast("Answer", _loaded(data))


def _loaded(data: bytes) -> object:
    if not data.startswith(_MARK):
        other = data.partition(b"\n")[0][:40].decode(errors="replace")
        raise UnsupportedError(
            f"A process of this Spark has {_MARK.decode().strip()}, and another one {other}.",
            hint="Install the same version for the driver and for all workers.",
        )
    return pickle.loads(data[len(_MARK) :])  # noqa: S301 - from our own driver or worker
