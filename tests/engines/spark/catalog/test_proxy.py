"""Python objects that the JVM calls."""

import pytest
from py4j.protocol import Py4JJavaError

from headwater.engines.spark.catalog.jvm import Proxy, java_class, snake_case, text_of
from headwater.errors import (
    DisconnectedError,
    InvalidTableError,
    TableMissingError,
    UnsupportedError,
)


class Fake:
    """Stand in for the JVM: exceptions say what they are, and defaults are named."""

    def __init__(self) -> None:
        self.all_held: list[object] = []

    def held(self, found):
        self.all_held.append(found)
        return found

    def named(self, name: str):
        return lambda text: Thrown(f"{name}: {text}")

    def default_of(self, interfaces, method: str, count: int):
        return None if method == "unheardOf" else (interfaces, method, count)

    def run_default(self, proxy: Proxy, method, arguments):
        return method, tuple(arguments)


class Thrown:
    """Stand in for an exception of Java."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._target_id = ""


class Target:
    def read_schema(self, text: str) -> str:
        return f"read {text}"

    def fail(self) -> None:
        raise InvalidTableError("Wrong.", hint="Right it.")

    def __str__(self) -> str:
        return "target"


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def proxy(fake) -> Proxy:
    return Proxy(fake, Target(), ("a.B",))


def test_names_are_spelled_as_in_python():
    assert snake_case("toMicroBatchStream") == "to_micro_batch_stream"
    assert snake_case("id") == "id"


def test_a_method_of_java_is_one_of_the_object(proxy):
    assert proxy.readSchema("x") == "read x"


def test_whatever_goes_to_java_is_held_until_it_has_arrived(proxy, fake):
    proxy.readSchema("x")
    with pytest.raises(Py4JJavaError) as caught:
        proxy.fail()

    assert fake.all_held == ["read x", caught.value]


def test_other_methods_and_arguments_have_the_default_of_the_interface(proxy):
    assert proxy.readSchema("x", "y") == ((("a.B",), "readSchema", 2), ("x", "y"))
    assert proxy.somethingNew() == ((("a.B",), "somethingNew", 0), ())


def test_a_method_that_nobody_has_is_an_error(proxy):
    with pytest.raises(AttributeError, match="target has no method unheardOf"):
        proxy.unheardOf()


def test_errors_are_thrown_with_their_hint(proxy):
    with pytest.raises(Py4JJavaError) as caught:
        proxy.fail()

    thrown = caught.value.java_exception.text
    assert thrown == "java.lang.IllegalArgumentException: Wrong. Right it."


def test_an_object_is_told_by_its_text(proxy):
    other = Proxy(Fake(), Target(), ("a.B",))

    assert proxy.toString() == "target"
    assert proxy.hashCode() == other.hashCode()
    assert not proxy.equals("target")


def test_each_kind_of_error_has_an_exception_of_java():
    assert java_class(UnsupportedError("x")).endswith("UnsupportedOperationException")
    assert java_class(TableMissingError("x")).endswith("IllegalArgumentException")
    assert java_class(DisconnectedError("x")).endswith("RuntimeException")


def test_the_advice_of_a_class_is_shown_where_the_error_has_none():
    fault = TableMissingError("There is no table t.")

    assert text_of(fault) == f"There is no table t. {fault.hint}"
