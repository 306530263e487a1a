"""Readings as the text that Prometheus takes, with what the process itself tells."""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import assert_never

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from headwater.metrics.declared import Kind
from headwater.metrics.reading import Reading, Spread, Values
from headwater.metrics.tallies import BOUNDS_S, Durations

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Exposition(Collector):
    """Read the metrics of one server whenever somebody asks; nothing is shared with another."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        self._read = read
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Describe nothing beforehand: to register is not to read."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield each reading as a family of Prometheus."""
        for reading in self._read():
            match reading:
                case Values():
                    yield _family(reading)
                case Spread():
                    yield _histogram(reading)
                case _:
                    assert_never(reading)


def _family(reading: Values) -> Metric:
    metric = reading.metric
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, number in reading.by_labels.items():
        family.add_metric(labels, number)
    return family


def _histogram(reading: Spread) -> Metric:
    metric = reading.metric
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, durations in reading.by_labels.items():
        family.add_metric(labels, _steps(durations), durations.total_s)
    return family


def _steps(durations: Durations) -> list[tuple[str, float]]:
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    return [
        (bound, float(count))
        for bound, count in zip(bounds, accumulate(durations.counts), strict=True)
    ]
