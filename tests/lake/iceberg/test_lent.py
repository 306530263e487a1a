"""What a catalog lends for reaching files travels with tasks."""

from types import SimpleNamespace

from headwater.lake.iceberg.files import lent


def table_with(**properties):
    return SimpleNamespace(io=SimpleNamespace(properties=properties))


def test_credentials_that_a_catalog_lends_travel_and_what_is_known_does_not():
    table = table_with(token="lent", region="here")

    assert lent(table, {"region": "here"}) == {"token": "lent"}


def test_objects_that_a_rest_catalog_puts_beside_them_stay_with_the_driver():
    table = table_with(token="lent", signer=object())

    assert lent(table, {}) == {"token": "lent"}
