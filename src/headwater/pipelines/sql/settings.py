"""The settings of a session that do something, by the names that Flink gives them."""

from collections.abc import Mapping
from enum import StrEnum

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
from headwater.pipelines.sql.faults import fault, meant
from headwater.pipelines.sql.names import Names
from headwater.pipelines.sql.statements import SetSetting


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
    description="Name of the jobs that follow, the second one of a script with `#2`; by default it "
    "is made from the names of the sinks.",
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
DECLARED: Mapping[str, Option[object]] = {option.name: option for option in SETTINGS}
SAME_SETTING = {"execution.checkpointing.dir": CHECKPOINT_DIRECTORY.name}
# Settings of Flink that scripts often have, and what holds here instead.
_INSTEAD: Mapping[str, str] = {
    "table.exec.state.ttl": "State is kept as long as the watermark says.",
    "table.exec.mini-batch.enabled": "Rows always come in micro-batches.",
    "table.exec.mini-batch.allow-latency": "Set 'execution.checkpointing.interval'.",
    "table.exec.source.idle-timeout": "Spark's watermark is that of the slowest table.",
    "table.optimizer.distinct-agg.split.enabled": "Spark decides how to aggregate.",
    "execution.checkpointing.mode": "Writes are always exactly once.",
    "state.backend.type": "Set 'spark.sql.streaming.stateStore.providerClass' in Spark.",
    "restart-strategy.type": "Run the script again: a job goes on from its checkpoint.",
}
_OF_SPARK = "spark."
"""Settings of Spark itself, which get there as they are."""


def is_streaming(names: Names) -> bool:
    """Tell whether statements run as streams, as they do unless a script says otherwise."""
    mode = names.setting(RUNTIME_MODE.name) or RuntimeMode.STREAMING
    return mode.lower() != RuntimeMode.BATCH


def check_setting(statement: SetSetting) -> tuple[str, ...]:
    """Raise for a value that a setting does not take; returns a note for an unknown key."""
    if statement.key.startswith(_OF_SPARK):
        return ()
    known = DECLARED.get(SAME_SETTING.get(statement.key, statement.key))
    if known is None:
        near = _INSTEAD.get(statement.key) or meant(statement.key, DECLARED)
        return (f"'{statement.key}' does nothing here, and is kept. {near}".rstrip(),)
    if known.kind.read(statement.value) is None:
        raise fault(
            statement.source,
            f"'{statement.key}' cannot be '{statement.value}'.",
            hint=f"Write {known.kind.expected}.",
        )
    return ()
