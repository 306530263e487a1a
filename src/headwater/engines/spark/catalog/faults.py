"""Our errors as exceptions of the JVM, so that Spark shows what they say."""

from py4j.protocol import Py4JJavaError

from headwater.engines.spark.catalog.jvm import Jvm
from headwater.errors import (
    ConflictError,
    HeadwaterError,
    MissingError,
    RequestError,
    UnsupportedError,
)


def text_of(fault: HeadwaterError) -> str:
    """Return the message of an error with its hint."""
    text = str(fault)
    return text if fault.hint in text else f"{text} {fault.hint}"


def java_class(fault: HeadwaterError) -> str:
    """Return the exception of Java that says the same; PySpark knows the first two by name."""
    match fault:
        case UnsupportedError():
            return "java.lang.UnsupportedOperationException"
        case RequestError() | MissingError() | ConflictError():
            return "java.lang.IllegalArgumentException"
        case _:
            return "java.lang.RuntimeException"


def java_fault(jvm: Jvm, fault: HeadwaterError) -> Py4JJavaError:
    """Return what py4j throws in the JVM."""
    text = text_of(fault)
    return Py4JJavaError(text, jvm.named(java_class(fault))(text))
