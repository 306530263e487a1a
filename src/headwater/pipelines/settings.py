"""The settings of a running session: what `SET` gave, and what that changes in Spark."""

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from headwater.pipelines.sql.settings import (
    DECLARED,
    PARALLELISM,
    RUNTIME_MODE,
    SAME_SETTING,
    SETTINGS,
    TIME_ZONE,
    RuntimeMode,
)

# What a setting changes in the Spark session.
_OF_SPARK = {
    TIME_ZONE.name: "spark.sql.session.timeZone",
    PARALLELISM.name: "spark.sql.shuffle.partitions",
}


def _of_spark(key: str) -> str | None:
    """The setting of Spark that a key stands for."""
    return key if key.startswith("spark.") else _OF_SPARK.get(key)


@dataclass(slots=True)
class SessionSettings:
    """What was set, with the values that Spark had before."""

    spark: SparkSession
    values: dict[str, str] = field(default_factory=dict)
    _before: dict[str, str | None] = field(default_factory=dict)
    """Settings of Spark as they were; None if they had no value."""

    def set(self, key: str, value: str) -> None:
        """Set a value; one that nothing here uses is kept, as the planner tells."""
        key = SAME_SETTING.get(key, key)
        option = DECLARED.get(key)
        if option is not None:
            option.read(value)
        if (name := _of_spark(key)) is not None:
            before = self.spark.conf.get(name, None)
            self.spark.conf.set(name, value)
            self._before.setdefault(name, before)
        self.values[key] = value

    def reset(self, key: str | None) -> None:
        """Forget one value or all of them."""
        for each in list(self.values) if key is None else [SAME_SETTING.get(key, key)]:
            self.values.pop(each, None)
            name = _of_spark(each)
            if name is None or name not in self._before:
                continue
            before = self._before.pop(name)
            if before is None:
                self.spark.conf.unset(name)
            else:
                self.spark.conf.set(name, before)

    @property
    def is_streaming(self) -> bool:
        """Tell whether statements go on with what comes."""
        return RUNTIME_MODE.required(self.values) is RuntimeMode.STREAMING

    def shown(self) -> dict[str, str]:
        """All settings that have a value, also by default."""
        defaults = {each.name: each.default for each in SETTINGS if each.default is not None}
        return dict(sorted({**defaults, **self.values}.items()))
