"""Python objects as the JVM sees them: implementations of its interfaces."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from inspect import signature
from zlib import crc32

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from headwater.engines.spark.catalog.faults import java_fault
from headwater.engines.spark.catalog.jvm import Jvm
from headwater.errors import HeadwaterError

_HASH_MAX = 0x7FFF_FFFF
_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


class Interfaces:
    """Name the interfaces of an object where py4j looks for them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.implements = names


class Proxy:
    """Let the JVM call an object as if it were Java.

    `readSchema` of an interface is `read_schema` of the object. Where the object has no such
    method, or none with these arguments, the default of the interface runs: a newer Spark may
    call what this one does not. The JVM hands objects back as its own, so that they are equal
    where their texts are.
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
        """Return what the object is."""
        return str(self._target)

    def hashCode(self) -> int:  # noqa: N802 - Java's
        """Return a hash of what the object is."""
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
        except HeadwaterError as fault:
            raise self._jvm.held(java_fault(self._jvm, fault)) from fault
        except CapturedException as fault:
            # Spark threw it and PySpark made it Python's; it goes on as what it was.
            origin = self._jvm.held(fault._origin)  # noqa: SLF001
            raise Py4JJavaError(str(fault), origin) from fault

    def _run_default(self, name: str, arguments: Sequence[object]) -> object:
        method = self._jvm.default_of(self.Java.implements, name, len(arguments))
        if method is None:
            raise AttributeError(f"{self._target} has no method {name}.")
        return self._jvm.run_default(self, method, arguments)


@lru_cache(maxsize=1024)
def snake_case(name: str) -> str:
    """Return the name of a method of Java as Python spells it."""
    return _HUMP.sub("_", name).lower()


def _takes(method: Callable[..., object], arguments: Sequence[object]) -> bool:
    try:
        signature(method).bind(*arguments)
    except TypeError:
        return False
    return True
