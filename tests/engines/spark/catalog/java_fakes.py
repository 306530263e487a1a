"""Objects that answer like those of the JVM."""

from collections.abc import Sequence


class Named:
    """Have a class with a name."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def getClass(self):  # noqa: N802
        return self

    def getSimpleName(self) -> str:  # noqa: N802
        return self._kind


class Text:
    """Be text that Python is not given as such."""

    def __init__(self, text: str) -> None:
        self._text = text

    def toString(self) -> str:  # noqa: N802
        return self._text


class Field(Named):
    """Be a reference to a column, or a field within one."""

    def __init__(self, *names: str) -> None:
        super().__init__("FieldReference")
        self._names = names

    def fieldNames(self) -> Sequence[str]:  # noqa: N802
        return self._names


class Value(Named):
    """Be a literal."""

    def __init__(self, value: object) -> None:
        super().__init__("LiteralValue")
        self._value = value

    def value(self) -> object:
        return self._value


class Applied(Named):
    """Be a predicate, or another expression that has children."""

    def __init__(self, name: str, *children: Named, kind: str = "Predicate") -> None:
        super().__init__(kind)
        self._name = name
        self._children = children

    def name(self) -> str:
        return self._name

    def children(self) -> Sequence[Named]:
        return self._children


class Change(Named):
    """Be a change of a table: its methods return what it was made with."""

    def __init__(self, kind: str, **answers: object) -> None:
        super().__init__(kind)
        self._answers = answers

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda: self._answers.get(name)
