"""Objects of the JVM that the catalog needs, each looked up once: every call there takes time."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from py4j.java_gateway import JavaClass, JavaObject
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

KEPT_MAX = 1024
HELD_MAX = 4096
_T = TypeVar("_T")


class Jvm:
    """Make and keep objects of the JVM behind a session."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = spark
        self._jvm = spark._jvm  # noqa: SLF001 - the only door to the JVM
        self._gateway = spark.sparkContext._gateway  # noqa: SLF001
        self._kept: dict[object, object] = {}
        self._held: deque[object] = deque(maxlen=HELD_MAX)
        self._loader = self.named("org.apache.spark.util.Utils").getContextOrSparkClassLoader()
        self.none = getattr(self.named("scala.None$"), "MODULE$")

    def named(self, name: str) -> JavaClass:
        """Return a class with its constructors and static methods, by its full name."""
        return self.kept(("named", name), lambda: getattr(self._jvm, name))

    def type_of(self, name: str) -> JavaObject:
        """Return the `Class` of a name."""
        return self.kept(("type", name), lambda: self._loader.loadClass(name))

    def held(self, found: _T) -> _T:
        """Return an object that goes to the JVM, and keep it until many more have gone.

        It goes there by number. Were it collected at once, the JVM could be told to forget the
        number before it looks for it, and would find null.
        """
        self._held.append(found)
        return found

    def kept(self, key: object, make: Callable[[], _T]) -> _T:
        """Return what was made for a key, making it at the first call."""
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= KEPT_MAX:
                # All of it can be made again.
                self._kept.clear()
            found = self._kept[key] = make()
        # A key stands for one kind of value.
        return cast(_T, found)

    def array(self, name: str, items: Sequence[object] = ()) -> JavaObject:
        """Return an array of a class."""
        if not items:
            return self.kept(("empty", name), lambda: self._new_array(name, 0))
        array = self._new_array(name, len(items))
        for place, item in enumerate(items):
            array[place] = item
        return array

    def _new_array(self, name: str, length: int) -> JavaObject:
        return self.named("java.lang.reflect.Array").newInstance(self.type_of(name), length)

    def texts(self, items: Sequence[str]) -> JavaObject:
        """Return an array of strings."""
        return self.array("java.lang.String", items)

    def text_lists(self, items: Sequence[Sequence[str]]) -> JavaObject:
        """Return an array of arrays of strings."""
        arrays = self.named("java.lang.reflect.Array")
        lists = arrays.newInstance(self.texts([]).getClass(), len(items))
        for place, item in enumerate(items):
            lists[place] = self.texts(item)
        return lists

    def struct(self, schema: StructType) -> JavaObject:
        """Return a schema as the JVM has it."""
        text = schema.json()
        data_type = self.named("org.apache.spark.sql.types.DataType")
        return self.kept(("struct", text), lambda: data_type.fromJson(text))

    def mapping(self, texts: Mapping[str, str]) -> JavaObject:
        """Return a map of strings."""
        mapping = self.named("java.util.HashMap")()
        for key, text in texts.items():
            mapping.put(key, text)
        return mapping

    def options(self, texts: Mapping[str, str]) -> JavaObject:
        """Return options as Spark hands them to sources and sinks."""
        kind = self.named("org.apache.spark.sql.util.CaseInsensitiveStringMap")
        return kind(self.mapping(texts))

    def default_of(self, interfaces: Sequence[str], method: str, count: int) -> JavaObject | None:
        """Return the default that interfaces have for a method with so many arguments, if any."""
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
        """Run the default of an interface for an object that implements it."""
        given = self.array("java.lang.Object", arguments) if arguments else None
        handler = self.named("java.lang.reflect.InvocationHandler")
        return handler.invokeDefault(proxy, method, given)
