"""Names of tables and servers as people write them."""

import pytest

from headwater.cluster.links import Address
from headwater.cluster.paths import parse_addresses, table_path
from headwater.errors import InvalidNameError, InvalidTableError, RequestError
from headwater.model.path import TablePath
from tests.cases import cases


def test_a_name_without_a_database_means_the_default_one():
    assert table_path("orders") == TablePath("fluss", "orders")


def test_a_name_with_a_dot_names_database_and_table():
    assert table_path("shop.orders") == TablePath("shop", "orders")


@cases("name", ["a.b.c", "", "shop.", "shop.or ders", "shop.__orders"])
def test_what_names_no_table_is_refused(name):
    with pytest.raises(InvalidTableError):
        table_path(name)


def test_what_names_no_database_is_refused():
    with pytest.raises(InvalidNameError):
        table_path(".orders")


def test_servers_are_named_with_host_and_port():
    assert parse_addresses("a:1, b:2") == (Address("a", 1), Address("b", 2))
    assert parse_addresses(["a:1"]) == (Address("a", 1),)


def test_the_port_of_fluss_is_meant_where_none_is_given():
    assert parse_addresses("coordinator") == (Address("coordinator", 9123),)


def test_an_address_of_version_6_stands_in_brackets():
    assert parse_addresses("[::1]:9123") == (Address("::1", 9123),)


@cases("text", ["", ",", "host:", ":9123", "host:port", "host:70000"])
def test_what_names_no_server_is_refused(text):
    with pytest.raises(RequestError, match="server"):
        parse_addresses(text)
