"""The settings of a session that do something, by the names that Flink gives them."""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.pipelines.sql.faults import fault, meant
from headwater.pipelines.sql.names import Names
from headwater.pipelines.sql.statements import SetSetting

RUNTIME_MODE = "execution.runtime-mode"
RESULT_MODE = "sql-client.execution.result-mode"


@dataclass(frozen=True, slots=True)
class SessionSetting:
    """A setting, what it does, and the values that it takes."""

    key: str
    meaning: str
    values: tuple[str, ...] = ()
    """All of them, in lower case; () for free text."""
    default: str = ""


SETTINGS = (
    SessionSetting(
        RUNTIME_MODE,
        "Whether queries run as streams that never end, or as batches over the rows of now.",
        ("streaming", "batch"),
        "streaming",
    ),
    SessionSetting(
        RESULT_MODE,
        "How the rows of a SELECT are shown: as they come, with what each does (`changelog`,"
        " `tableau`), or as the current result (`table`).",
        ("tableau", "changelog", "table"),
        "tableau",
    ),
    SessionSetting("table.local-time-zone", "The time zone of TIMESTAMP_LTZ and of the clock."),
    SessionSetting("pipeline.name", "The name of the next job, by which it is found again."),
    SessionSetting("parallelism.default", "The number of tasks after a shuffle."),
    SessionSetting("execution.checkpointing.interval", "The time between two micro-batches."),
    SessionSetting("state.checkpoints.dir", "The directory of checkpoints of jobs."),
    SessionSetting("execution.checkpointing.dir", "The same as state.checkpoints.dir."),
    SessionSetting("table.dml-sync", "Wait for the end of an INSERT.", ("true", "false"), "false"),
)
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
_BY_KEY: Mapping[str, SessionSetting] = {each.key: each for each in SETTINGS}


def is_streaming(names: Names) -> bool:
    """Tell whether statements run as streams, as they do unless a script says otherwise."""
    return (names.setting(RUNTIME_MODE) or "streaming").lower() != "batch"


def known_setting(key: str) -> SessionSetting | None:
    """Return the declaration of a setting, or None if nothing follows it."""
    return _BY_KEY.get(key)


def check_setting(statement: SetSetting) -> tuple[str, ...]:
    """Raise for a value that a setting does not take; returns a note for an unknown key."""
    known = _BY_KEY.get(statement.key)
    if statement.key.startswith(_OF_SPARK):
        return ()
    if known is None:
        near = _INSTEAD.get(statement.key) or meant(statement.key, _BY_KEY)
        return (f"'{statement.key}' does nothing here, and is kept. {near}".rstrip(),)
    if known.values and statement.value.lower() not in known.values:
        raise fault(
            statement.source,
            f"'{statement.key}' cannot be '{statement.value}'.",
            hint=f"Write {' or '.join(repr(each) for each in known.values)}.",
        )
    return ()
