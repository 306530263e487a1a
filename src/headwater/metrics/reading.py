"""The values of a metric at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.metrics.declared import Declared
from headwater.metrics.tallies import Durations

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """Hold the value of a counter or gauge for each combination of labels."""

    metric: Declared
    by_labels: Mapping[Labels, float]


@dataclass(frozen=True, slots=True)
class Spread:
    """Hold the durations of a histogram for each combination of labels."""

    metric: Declared
    by_labels: Mapping[Labels, Durations]


Reading = Values | Spread


def value(metric: Declared, number: float) -> Values:
    """Return the value of a metric without labels."""
    return Values(metric, {(): number})
