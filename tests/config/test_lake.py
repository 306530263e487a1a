from pathlib import Path

import pytest

from headwater.config.lake import lake_config, shown_address, told_properties
from headwater.config.options import LakeFormat
from headwater.config.server import ServerSettings
from headwater.errors import InvalidOptionError
from tests.cases import cases

DATA = Path("/data")
REST = {"type": "rest", "uri": "http://catalog"}


def iceberg(**given: str) -> dict[str, str]:
    properties = {f"datalake.iceberg.{name}": value for name, value in given.items()}
    return lake_config(LakeFormat.ICEBERG, properties, directory=DATA)


def paimon(**given: str) -> dict[str, str]:
    properties = {f"datalake.paimon.{name}": value for name, value in given.items()}
    return lake_config(LakeFormat.PAIMON, properties, directory=DATA)


def test_a_lake_lies_below_the_data_directory_unless_told_otherwise():
    assert iceberg() == {
        "type": "sql",
        "uri": "sqlite:////data/lake/iceberg/catalog.sqlite",
        "warehouse": "file:///data/lake/iceberg",
    }
    assert paimon() == {"warehouse": "/data/lake/paimon"}


def test_a_data_directory_keeps_its_lake_whatever_it_is_called():
    told = lake_config(LakeFormat.ICEBERG, {}, directory=Path("/my data ü"))

    assert told["warehouse"] == "file:///my data ü/lake/iceberg"


def test_a_warehouse_may_lie_elsewhere_than_its_catalog():
    assert iceberg(warehouse="s3://lake")["warehouse"] == "s3://lake"
    assert iceberg(warehouse="s3://lake")["type"] == "sql"
    assert paimon(warehouse="s3://lake") == {"warehouse": "s3://lake"}


def test_a_catalog_in_a_database_needs_a_warehouse_and_others_have_their_own():
    assert iceberg(uri="postgresql+psycopg2://db/lake")["warehouse"] == "file:///data/lake/iceberg"
    assert iceberg(**REST) == REST
    assert paimon(metastore="rest", uri="http://catalog") == {
        "metastore": "rest",
        "uri": "http://catalog",
    }


def test_properties_of_one_format_are_not_those_of_another():
    assert lake_config(LakeFormat.PAIMON, {"datalake.iceberg.uri": "x"}, directory=DATA) == paimon()


def test_clients_are_told_where_the_lake_is_but_no_secrets():
    config = {**REST, "s3.secret-access-key": "s", "s3.access-key-id": "k", "token": "t"}

    assert told_properties(LakeFormat.ICEBERG, config) == {
        "table.datalake.iceberg.type": "rest",
        "table.datalake.iceberg.uri": "http://catalog",
    }


@cases("name", ["uri", "iceberg.uri", "datalake.uri", "datalake.hudi.uri"])
def test_a_property_of_no_lake_is_refused(name):
    with pytest.raises(InvalidOptionError, match="is not a lake property"):
        ServerSettings(lake_properties={name: "x"})


def test_a_default_format_that_is_not_served_is_refused():
    with pytest.raises(InvalidOptionError, match="iceberg or paimon"):
        ServerSettings(datalake_format="hudi")


@cases(
    ("name", "value", "is_told"),
    [
        ("uri", "postgresql+psycopg2://ann:geheim@db/lake", False),
        ("uri", "jdbc:postgresql://ann:geheim@db/lake", False),
        ("uri", "postgresql+psycopg2://ann@db/lake", True),
        ("catalog-key", "lake", True),
        ("jdbc.password", "geheim", False),
    ],
)
def test_an_address_with_a_password_is_a_secret_and_the_name_of_a_catalog_is_none(
    name, value, is_told
):
    told = told_properties(LakeFormat.PAIMON, {name: value})

    assert told == ({f"table.datalake.paimon.{name}": value} if is_told else {})


@cases(
    ("address", "shown"),
    [
        ("postgresql://user:pass@word@host:1/db", "postgresql://host:1/db"),
        ("jdbc:postgresql://host/db?password=secret", "jdbc:postgresql://host/db"),
        ("jdbc:sqlite:/a@b/c.db", "jdbc:sqlite:/a@b/c.db"),
        ("sqlite:////a@b/c.db?timeout=60", "sqlite:////a@b/c.db"),
        ("file:///lake", "file:///lake"),
        ("/lake", "/lake"),
    ],
)
def test_an_address_is_shown_without_what_lets_people_in(address, shown):
    assert shown_address(address) == shown
