"""A test that could run in several worlds runs in one, the same each time, or in all of them."""

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from tests.choices import CONTRACTS, chosen, examples

HERE = Path(__file__).parent / "tiering" / "test_some.py"
FORMATS = ("plain", "iceberg", "paimon")


@dataclass(frozen=True)
class Call:
    params: dict[str, object]


@dataclass(frozen=True, eq=False)
class Item:
    """What pytest tells of a test."""

    name: str
    params: dict[str, object] = field(default_factory=dict)
    path: Path = HERE

    @property
    def nodeid(self):
        case = "-".join(map(str, self.params.values()))
        return f"{self.path}::{self.name}" + (f"[{case}]" if self.params else "")

    @property
    def callspec(self):
        return Call(self.params)


def items(name, path=HERE, **params):
    return [
        Item(name, dict(zip(params, values, strict=True)), path)
        for values in product(*params.values())
    ]


def names(found):
    return sorted(item.nodeid for item in found)


def test_of_several_formats_and_storages_one_is_run_the_same_each_time():
    every = items("test_it", lake=FORMATS, storage=("embedded", "served"))

    assert len(chosen(every)) == 1
    assert names(chosen(every)) == names(chosen(every[:]))


def test_every_format_is_used_by_about_as_many_tests():
    every = [item for n in range(300) for item in items(f"test_{n}", lake=FORMATS)]

    used = [item.params["lake"] for item in chosen(every)]

    assert all(70 < used.count(name) < 130 for name in FORMATS)


def test_other_cases_of_a_test_are_all_run():
    every = items("test_it", lake=FORMATS, step=range(7))

    assert sorted(item.params["step"] for item in chosen(every)) == list(range(7))


def test_what_was_asked_for_by_its_id_is_run():
    for item in items("test_it", lake=FORMATS):
        assert chosen([item]) == {item}


def test_a_contract_is_run_in_every_world():
    for suite in CONTRACTS:
        every = items("test_it", suite / "test_some.py", lake=FORMATS)

        assert chosen(every) == set(every)
        assert suite.is_dir()


def test_a_contract_is_run_on_every_format_and_every_storage_but_not_on_every_pair():
    path = CONTRACTS[0] / "test_some.py"
    every = items("test_it", path, storage=("embedded", "served"), lake=("iceberg", "paimon"))

    found = chosen(every)

    assert len(found) == 2
    worlds = {value for item in found for value in item.params.values()}
    assert worlds == {"embedded", "served", "iceberg", "paimon"}


def test_few_examples_are_still_some():
    assert 1 <= examples(1) <= examples(100) <= 100
