"""The error tree is what its docstring says, and codes find their way back."""

import re

import pytest

from headwater import errors
from headwater.errors import HeadwaterError, error_of_code

CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, HeadwaterError)
}


def test_the_docstring_draws_every_error_and_no_other():
    drawn = set(re.findall(r"\b\w+Error\b", errors.__doc__ or ""))

    assert drawn == set(CLASSES)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_code_comes_back_as_an_error_that_asks_the_same_of_the_caller(name):
    kind = CLASSES[name]

    found = error_of_code(kind.code, "why")

    assert found.code == kind.code
    assert found.message == "why"


def test_an_unknown_code_comes_back_as_the_root():
    assert type(error_of_code(9999, "why")) is HeadwaterError


def test_a_hint_follows_the_message():
    assert str(errors.StorageError("It broke.", hint="Mend it.")) == "It broke. Mend it."
