"""The JVM as the catalog uses it: class names, cached objects, and proxies for ours.

Spark calls Python objects through py4j as if they were Java; our errors reach it as exceptions.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from inspect import signature
from typing import TypeVar, cast
from zlib import crc32

from py4j.java_gateway import JavaClass, JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater import errors

# Full names of the Spark classes that the catalog uses.

_CONNECTOR = "org.apache.spark.sql.connector"
_CATALOG = f"{_CONNECTOR}.catalog"
_READ = f"{_CONNECTOR}.read"
_WRITE = f"{_CONNECTOR}.write"
_PYTHON = "org.apache.spark.sql.execution.datasources.v2.python"
_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"

# ---- what Python objects implement
STAGING_CATALOG = f"{_CATALOG}.StagingTableCatalog"
STAGED_TABLE = f"{_CATALOG}.StagedTable"
NAMESPACES = f"{_CATALOG}.SupportsNamespaces"
SUPPORTS_READ = f"{_CATALOG}.SupportsRead"
SUPPORTS_WRITE = f"{_CATALOG}.SupportsWrite"
SUPPORTS_DELETE = f"{_CATALOG}.SupportsDeleteV2"
SUPPORTS_PARTITIONS = f"{_CATALOG}.SupportsPartitionManagement"
PUSHES_COLUMNS = f"{_READ}.SupportsPushDownRequiredColumns"
PUSHES_PREDICATES = f"{_READ}.SupportsPushDownV2Filters"
PUSHES_LIMIT = f"{_READ}.SupportsPushDownLimit"
PUSHES_AGGREGATES = f"{_READ}.SupportsPushDownAggregates"
REPORTS_STATISTICS = f"{_READ}.SupportsReportStatistics"
BATCH = f"{_READ}.Batch"
LOCAL_SCAN = f"{_READ}.LocalScan"
STATISTICS = f"{_READ}.Statistics"
WRITE = f"{_WRITE}.Write"
WRITE_BUILDER = f"{_WRITE}.WriteBuilder"
TRUNCATES = f"{_WRITE}.SupportsTruncate"
UPDATES_AS_APPENDS = "org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend"

# ---- what they make and hand over
COLUMNS = f"{_CATALOG}.CatalogV2Util"
CONSTRAINT = f"{_CATALOG}.constraints.Constraint"
IDENTIFIER = f"{_CATALOG}.Identifier"
TABLE_SUMMARY = f"{_CATALOG}.TableSummary"
TABLE_CAPABILITY = f"{_CATALOG}.TableCapability"
CATALOG_CAPABILITY = f"{_CATALOG}.TableCatalogCapability"
PREDICATE = f"{_CONNECTOR}.expressions.filter.Predicate"
EXPRESSIONS = f"{_CONNECTOR}.expressions.Expressions"
NAMED_REFERENCE = f"{_CONNECTOR}.expressions.NamedReference"
TRANSFORM = f"{_CONNECTOR}.expressions.Transform"
METRIC = f"{_CONNECTOR}.metric.CustomMetric"
TASK_METRIC = f"{_CONNECTOR}.metric.CustomTaskMetric"
COLUMNAR_MODE = f"{_READ}.Scan$ColumnarSupportMode"
INPUT_PARTITION = f"{_READ}.InputPartition"
WRITE_INFO = f"{_WRITE}.LogicalWriteInfoImpl"
INTERNAL_ROW = "org.apache.spark.sql.catalyst.InternalRow"
GENERIC_ROW = "org.apache.spark.sql.catalyst.expressions.GenericInternalRow"
UTF8 = "org.apache.spark.unsafe.types.UTF8String"
PYTHON_SOURCE = f"{_PYTHON}.PythonDataSourceV2"
USER_SOURCE = f"{_PYTHON}.UserDefinedPythonDataSource"
PYTHON_TABLE = f"{_PYTHON}.PythonTable"
PYTHON_PARTITION = f"{_PYTHON}.PythonInputPartition"
PYTHON_READERS = f"{_PYTHON}.PythonPartitionReaderFactory"

# ---- what they throw
NO_TABLE = f"{_ANALYSIS}.NoSuchTableException"
NO_NAMESPACE = f"{_ANALYSIS}.NoSuchNamespaceException"
TABLE_EXISTS = f"{_ANALYSIS}.TableAlreadyExistsException"
NAMESPACE_EXISTS = f"{_ANALYSIS}.NamespaceAlreadyExistsException"
NAMESPACE_NOT_EMPTY = f"{_ANALYSIS}.NonEmptyNamespaceException"


# Objects of the JVM, each looked up once: every call there takes time.

KEPT_MAX = 1024
HELD_MAX = 4096
_T = TypeVar("_T")


class Jvm:
    """Creates and caches objects of a session's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = spark
        self._jvm = spark._jvm  # noqa: SLF001 - the only door to the JVM
        self._gateway = spark.sparkContext._gateway  # noqa: SLF001
        self._kept: dict[object, object] = {}
        self._held: deque[object] = deque(maxlen=HELD_MAX)
        self._loader = self.named("org.apache.spark.util.Utils").getContextOrSparkClassLoader()
        self.none = getattr(self.named("scala.None$"), "MODULE$")

    def named(self, name: str) -> JavaClass:
        """A class with its constructors and static methods, by its full name."""
        return self.kept(("named", name), lambda: getattr(self._jvm, name))

    def type_of(self, name: str) -> JavaObject:
        """The `Class` object of a name."""
        return self.kept(("type", name), lambda: self._loader.loadClass(name))

    def held(self, found: _T) -> _T:
        """Keep an object that goes to the JVM alive until many more have gone.

        It goes there by number. If it were collected at once, the JVM could be told to forget the
        number before looking it up, and would find null.
        """
        self._held.append(found)
        return found

    def kept(self, key: object, make: Callable[[], _T]) -> _T:
        """The cached value for a key, made at the first call."""
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= KEPT_MAX:
                # All of it can be made again.
                self._kept.clear()
            found = self._kept[key] = make()
        # A key stands for one kind of value.
        return cast(_T, found)

    def array(self, name: str, items: Sequence[object] = ()) -> JavaObject:
        """Make an array of a class."""
        if not items:
            return self.kept(("empty", name), lambda: self._new_array(name, 0))
        array = self._new_array(name, len(items))
        for place, item in enumerate(items):
            array[place] = item
        return array

    def _new_array(self, name: str, length: int) -> JavaObject:
        return self.named("java.lang.reflect.Array").newInstance(self.type_of(name), length)

    def texts(self, items: Sequence[str]) -> JavaObject:
        """Make an array of strings."""
        return self.array("java.lang.String", items)

    def text_lists(self, items: Sequence[Sequence[str]]) -> JavaObject:
        """Make an array of arrays of strings."""
        arrays = self.named("java.lang.reflect.Array")
        lists = arrays.newInstance(self.texts([]).getClass(), len(items))
        for place, item in enumerate(items):
            lists[place] = self.texts(item)
        return lists

    def struct(self, schema: StructType) -> JavaObject:
        """Convert a schema for the JVM."""
        text = schema.json()
        data_type = self.named("org.apache.spark.sql.types.DataType")
        return self.kept(("struct", text), lambda: data_type.fromJson(text))

    def mapping(self, texts: Mapping[str, str]) -> JavaObject:
        """Make a map of strings."""
        mapping = self.named("java.util.HashMap")()
        for key, text in texts.items():
            mapping.put(key, text)
        return mapping

    def options(self, texts: Mapping[str, str]) -> JavaObject:
        """Make options as Spark passes them to sources and sinks."""
        kind = self.named("org.apache.spark.sql.util.CaseInsensitiveStringMap")
        return kind(self.mapping(texts))

    def default_of(self, interfaces: Sequence[str], method: str, count: int) -> JavaObject | None:
        """Find the interface default for a method with this many arguments, if any."""
        key = ("default", tuple(interfaces), method, count)
        found = self.kept(key, lambda: tuple(self._defaults(interfaces, method, count)))
        return found[0] if found else None

    def _defaults(self, interfaces: Sequence[str], method: str, count: int) -> Iterator[JavaObject]:
        for interface in interfaces:
            for each in self.type_of(interface).getMethods():
                is_it = (each.getName(), each.getParameterCount()) == (method, count)
                if is_it and each.isDefault():
                    yield each

    def run_default(self, proxy: object, method: JavaObject, arguments: Sequence[object]) -> object:
        """Run an interface default for an object that implements it."""
        given = self.array("java.lang.Object", arguments) if arguments else None
        handler = self.named("java.lang.reflect.InvocationHandler")
        return handler.invokeDefault(proxy, method, given)


# Our errors as exceptions of the JVM, so that Spark shows their text.


def text_of(fault: errors.HeadwaterError) -> str:
    """The message of an error with its hint."""
    text = str(fault)
    return text if fault.hint in text else f"{text} {fault.hint}"


def java_class(fault: errors.HeadwaterError) -> str:
    """The matching Java exception; PySpark knows the first two by name."""
    match fault:
        case errors.UnsupportedError():
            return "java.lang.UnsupportedOperationException"
        case errors.RequestError() | errors.MissingError() | errors.ConflictError():
            return "java.lang.IllegalArgumentException"
        case _:
            return "java.lang.RuntimeException"


def java_fault(jvm: Jvm, fault: errors.HeadwaterError) -> Py4JJavaError:
    """The exception that py4j throws in the JVM."""
    text = text_of(fault)
    return Py4JJavaError(text, jvm.named(java_class(fault))(text))


# Python objects as the JVM sees them: implementations of its interfaces.

_HASH_MAX = 0x7FFF_FFFF
_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


class Interfaces:
    """The interfaces of an object, where py4j looks for them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.implements = names


class Proxy:
    """Lets the JVM call an object as if it were Java.

    `readSchema` of an interface is `read_schema` of the object. If the object has no such method,
    or none with these arguments, the interface default runs: a newer Spark may call more methods.
    The JVM hands objects back as its own, so they are equal if their texts are.
    """

    def __init__(self, jvm: Jvm, target: object, interfaces: tuple[str, ...]) -> None:
        self._jvm = jvm
        self._target = target
        self.Java = Interfaces(interfaces)

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self._run, name)

    def toString(self) -> str:  # noqa: N802 - Java's
        """Text of the object."""
        return str(self._target)

    def hashCode(self) -> int:  # noqa: N802 - Java's
        """Hash of the object's text."""
        return crc32(str(self._target).encode()) & _HASH_MAX

    def equals(self, other: JavaObject) -> bool:
        """Tell whether another object is the same."""
        return isinstance(other, JavaObject) and other.toString() == str(self._target)

    def _run(self, name: str, *arguments: object) -> object:
        method = getattr(self._target, snake_case(name), None)
        try:
            if method is None or not _takes(method, arguments):
                return self._jvm.held(self._run_default(name, arguments))
            return self._jvm.held(method(*arguments))
        except errors.HeadwaterError as fault:
            raise self._jvm.held(java_fault(self._jvm, fault)) from fault
        except CapturedException as fault:
            # Spark threw it and PySpark converted it; it goes back as what it was.
            origin = self._jvm.held(fault._origin)  # noqa: SLF001
            raise Py4JJavaError(str(fault), origin) from fault

    def _run_default(self, name: str, arguments: Sequence[object]) -> object:
        method = self._jvm.default_of(self.Java.implements, name, len(arguments))
        if method is None:
            raise AttributeError(f"{self._target} has no method {name}.")
        return self._jvm.run_default(self, method, arguments)


@lru_cache(maxsize=1024)
def snake_case(name: str) -> str:
    """Convert a Java method name to Python's spelling."""
    return _HUMP.sub("_", name).lower()


def _takes(method: Callable[..., object], arguments: Sequence[object]) -> bool:
    try:
        signature(method).bind(*arguments)
    except TypeError:
        return False
    return True
