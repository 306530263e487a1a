"""The settings of a session: what `SET 'key' = 'value'` gives, and what each of them does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pyspark.sql import SparkSession

from headwater.config.values import (
    BOOLEAN,
    DURATION,
    INT_MAX,
    TEXT,
    ZONE,
    Option,
    choice,
    whole_number,
)


class RuntimeMode(StrEnum):
    """Whether statements read what there is, or go on with what comes."""

    STREAMING = "streaming"
    BATCH = "batch"


class ShownAs(StrEnum):
    """How the rows of a streaming SELECT are shown."""

    TABLEAU = "tableau"
    CHANGELOG = "changelog"
    TABLE = "table"


RUNTIME_MODE = Option(
    name="execution.runtime-mode",
    kind=choice(RuntimeMode),
    default="streaming",
    description="`streaming`: queries go on with what comes. `batch`: they read what there is.",
)
RESULT_MODE = Option(
    name="sql-client.execution.result-mode",
    kind=choice(ShownAs),
    default="tableau",
    description="How a streaming SELECT is shown: `tableau` and `changelog` print each change with "
    "its `op`, `table` prints the result anew after each micro-batch.",
)
TIME_ZONE = Option(
    name="table.local-time-zone",
    kind=ZONE,
    description="Zone in which times without one are understood, such as `Europe/Berlin`.",
)
PIPELINE_NAME = Option(
    name="pipeline.name",
    kind=TEXT,
    description="Name of the next job; by default it is made from the names of its sinks.",
)
PARALLELISM = Option(
    name="parallelism.default",
    kind=whole_number(low=1, high=INT_MAX),
    description="Number of tasks after a shuffle. A job with state keeps the number it began with.",
)
CHECKPOINT_INTERVAL = Option(
    name="execution.checkpointing.interval",
    kind=DURATION,
    description="At most one micro-batch of a job per interval; by default as many as can be.",
)
CHECKPOINT_DIRECTORY = Option(
    name="state.checkpoints.dir",
    kind=TEXT,
    default=".headwater/jobs",
    description="Where jobs keep how far they are: a path or a URL, the same in every run.",
)
DML_SYNC = Option(
    name="table.dml-sync",
    kind=BOOLEAN,
    default="false",
    description="Whether a script waits at each INSERT until its job has ended.",
)
SETTINGS = (
    RUNTIME_MODE,
    RESULT_MODE,
    TIME_ZONE,
    PIPELINE_NAME,
    PARALLELISM,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_DIRECTORY,
    DML_SYNC,
)
_DECLARED: Mapping[str, Option[object]] = {option.name: option for option in SETTINGS}
_SAME = {"execution.checkpointing.dir": CHECKPOINT_DIRECTORY.name}
# What a setting changes in the Spark session.
_OF_SPARK = {
    TIME_ZONE.name: "spark.sql.session.timeZone",
    PARALLELISM.name: "spark.sql.shuffle.partitions",
}


@dataclass(slots=True)
class SessionSettings:
    """What was set, with the values that Spark had before."""

    spark: SparkSession
    values: dict[str, str] = field(default_factory=dict)
    _before: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: str) -> None:
        """Set a value; one that nothing here uses is kept, as the planner tells."""
        key = _SAME.get(key, key)
        option = _DECLARED.get(key)
        if option is not None:
            option.read(value)
        if (name := _OF_SPARK.get(key)) is not None:
            self._before.setdefault(key, self.spark.conf.get(name) or "")
            self.spark.conf.set(name, value)
        elif key.startswith("spark."):
            self.spark.conf.set(key, value)
        self.values[key] = value

    def reset(self, key: str | None) -> None:
        """Forget one value or all of them."""
        for each in list(self.values) if key is None else [key]:
            self.values.pop(each, None)
            if each in self._before:
                self.spark.conf.set(_OF_SPARK[each], self._before.pop(each))

    @property
    def is_streaming(self) -> bool:
        """Tell whether statements go on with what comes."""
        return RUNTIME_MODE.required(self.values) is RuntimeMode.STREAMING

    def shown(self) -> dict[str, str]:
        """All settings that have a value, also by default."""
        defaults = {each.name: each.default for each in SETTINGS if each.default is not None}
        return dict(sorted({**defaults, **self.values}.items()))
