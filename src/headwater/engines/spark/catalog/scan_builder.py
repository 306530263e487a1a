"""What Spark's optimizer pushes into a read: columns, conditions, a limit, a count."""

import json
from collections.abc import Sequence
from dataclasses import replace

from py4j.java_gateway import JavaObject
from pyspark.sql.types import StructType

from headwater.engines.spark.catalog.count_scan import CountScan
from headwater.engines.spark.catalog.expressions import items, read_predicate
from headwater.engines.spark.catalog.filters import EVERYTHING, Branches, both, branches_of
from headwater.engines.spark.catalog.interfaces import (
    LOCAL_SCAN,
    PREDICATE,
    PUSHES_AGGREGATES,
    PUSHES_COLUMNS,
    PUSHES_LIMIT,
    PUSHES_PREDICATES,
)
from headwater.engines.spark.catalog.jvm import Jvm
from headwater.engines.spark.catalog.proxy import Proxy
from headwater.engines.spark.catalog.scan import Scan
from headwater.engines.spark.catalog.widths import narrowest
from headwater.engines.spark.reading.sizes import row_count
from headwater.engines.spark.source_options import SourceOptions
from headwater.model.schema import Schema


class ScanBuilder:
    """Gather what one reference to a table needs of it; each reference has its own."""

    interfaces = (PUSHES_COLUMNS, PUSHES_PREDICATES, PUSHES_LIMIT, PUSHES_AGGREGATES)

    def __init__(
        self,
        jvm: Jvm,
        options: SourceOptions,
        schema: StructType,
        *,
        filterable: Schema,
        given: dict[str, str],
    ) -> None:
        self._jvm = jvm
        self._options = options
        self._whole = self._wanted = schema
        self._filterable = filterable
        self._given = given
        # What the user limits or filters comes first, and Spark's conditions after it.
        self._is_open = options.where is None and options.limit is None
        self._branches: Branches = EVERYTHING
        self._pushed: list[JavaObject] = []
        self._count: int | None = None

    def __str__(self) -> str:
        return f"scan builder of {self._options.table} {id(self)}"

    # ---- columns

    def prune_columns(self, required: JavaObject) -> None:
        """Read these columns only; of one that is nested, all of it."""
        names = StructType.fromJson(json.loads(required.json())).names
        self._wanted = StructType([self._whole[name] for name in names])

    # ---- conditions

    def push_predicates(self, predicates: Sequence[JavaObject]) -> JavaObject:
        """Take the conditions that can be tested here, and return the others."""
        left = [each for each in items(predicates) if not (self._is_open and self._take(each))]
        return self._jvm.array(PREDICATE, left)

    def _take(self, predicate: JavaObject) -> bool:
        expression = read_predicate(predicate)
        if expression is None:
            return False
        branches = branches_of(expression, self._filterable)
        joined = None if branches is None else both(self._branches, branches)
        if joined is None:
            return False
        self._branches = joined
        self._pushed.append(predicate)
        return True

    def pushed_predicates(self) -> JavaObject:
        """Return the conditions that were taken."""
        return self._jvm.array(PREDICATE, self._pushed)

    def supports_iterative_pushdown(self) -> bool:
        """Say that one round is enough."""
        return False

    # ---- limit

    def push_limit(self, limit: int) -> bool:
        """Read no more rows than a limit."""
        if not self._is_open:
            return False
        self._options = replace(self._options, limit=limit)
        return True

    def is_partially_pushed(self) -> bool:
        """Say that Spark has to limit the rows as well."""
        return True

    # ---- count

    def support_complete_push_down(self, aggregation: JavaObject) -> bool:
        """Tell whether an aggregation is a mere `count(*)`."""
        if len(aggregation.groupByExpressions()):
            return False
        kinds = [each.getClass().getSimpleName() for each in aggregation.aggregateExpressions()]
        return kinds == ["CountStar"]

    def push_aggregation(self, aggregation: JavaObject) -> bool:
        """Count the rows here, if somebody knows without reading them."""
        if not self.support_complete_push_down(aggregation):
            return False
        self._count = row_count(self._final())
        return self._count is not None

    # ---- done

    def build(self) -> Proxy:
        """Return the scan."""
        if self._count is not None:
            counted = CountScan(self._jvm, rows=self._count, table=self._options.table)
            return Proxy(self._jvm, counted, (LOCAL_SCAN,))
        schema = self._wanted if self._wanted.fields else narrowest(self._whole)
        options = replace(self._final(), columns=tuple(schema.names))
        scan = Scan(self._jvm, options, schema, given=self._given)
        return Proxy(self._jvm, scan, Scan.interfaces)

    def _final(self) -> SourceOptions:
        if self._branches == EVERYTHING:
            return self._options
        return replace(self._options, where=self._branches)
