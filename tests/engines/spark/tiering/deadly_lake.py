"""A lake whose writers kill the process they run in, once: at a step that a test names."""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headwater.errors import LakeUnreachableError
from headwater.lake.lakes import open_lake


class Moment(StrEnum):
    """Name the moments of a task."""

    OPENED = "opened"
    WRITING = "writing"
    FINISHING = "finishing"
    FINISHED = "finished"


@dataclass(frozen=True)
class DeadlyLake:
    """Be a lake of another format, except for one moment."""

    format: str
    config: Mapping[str, str]
    moment: Moment | None
    """When to die; None to fail with an error instead."""
    mark: Path
    """A file that tells that somebody has died already."""

    @property
    def lake(self):
        return open_lake(self.format, self.config)

    def catalog(self):
        return self.lake.catalog()

    def committer(self, spec):
        return self.lake.committer(spec)

    def source(self, spec):
        return self.lake.source(spec)

    def keeper(self, spec):
        return self.lake.keeper(spec)

    def writer(self, spec, task):
        return DeadlyWriter(self, self.lake.writer(spec, task))

    def reach(self, moment: Moment) -> None:
        if self.moment is None:
            raise LakeUnreachableError("The warehouse is gone.")
        if moment is not self.moment:
            return
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class DeadlyWriter:
    """Write as another writer does, and die on the way."""

    lake: DeadlyLake
    writer: object = field(repr=False)

    def write(self, rows, *, deleted=None):
        self.lake.reach(Moment.OPENED)
        self.writer.write(rows, deleted=deleted)
        self.lake.reach(Moment.WRITING)

    def finish(self):
        self.lake.reach(Moment.FINISHING)
        result = self.writer.finish()
        self.lake.reach(Moment.FINISHED)
        return result

    def abort(self):
        self.writer.abort()
