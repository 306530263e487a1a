"""The decision about one question, against the oracle, and the texts of permissions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import RequestError
from headwater.model.acl import (
    Acl,
    Asker,
    Permissions,
    parse_operation,
    parse_principal,
    parse_principals,
    parse_resource,
    query_for,
)
from tests.cases import cases
from tests.choices import examples
from tests.server.permissions.oracle import OPERATIONS, may

PRINCIPALS = ["User:ada", "User:bob", "Group:ops", "Group:all", "User:ops", "*:*"]
PLACES = ["cluster", "*", "*.*", "shop", "lab", "shop.orders", "shop.items", "lab.orders"]
HOSTS = ["10.0.0.1", "10.0.0.2"]
ASKED = [place for place in PLACES if "*" not in place]
entries = st.lists(
    st.tuples(
        st.sampled_from(PRINCIPALS),
        st.sampled_from(OPERATIONS),
        st.sampled_from(PLACES),
        st.sampled_from([*HOSTS, "*"]),
    ),
    max_size=8,
)


def acl_of(entry) -> Acl:
    principal, operation, place, host = entry
    resource = {"*": "database:*", "*.*": "table:*"}.get(place, place)
    return Acl(
        parse_resource(resource), parse_principal(principal), parse_operation(operation), host
    )


@settings(max_examples=examples(2000))
@given(
    entries,
    st.sampled_from(["ada", "bob", "ops"]),
    st.sets(st.sampled_from(["ops", "all"])),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(ASKED),
)
def test_a_decision_is_that_of_the_oracle(granted, user, groups, host, operation, place):
    permissions = Permissions(map(acl_of, granted))
    asker = Asker(user, tuple(groups), host)

    found = permissions.allowing(asker, parse_operation(operation), parse_resource(place))

    principals = [f"User:{user}", *(f"Group:{group}" for group in groups)]
    assert (found is not None) == may(granted, principals, host, operation, place)
    assert found is None or found in permissions.entries


@settings(max_examples=examples(500))
@given(entries, st.sampled_from(["ada", "bob"]), st.sampled_from(OPERATIONS))
def test_something_is_allowed_anywhere_if_it_is_allowed_on_some_resource(granted, user, operation):
    permissions, asker = Permissions(map(acl_of, granted)), Asker(user, (), HOSTS[0])

    found = permissions.allowing_anywhere(asker, parse_operation(operation))

    places = [*ASKED, "*", "*.*"]
    expected = any(may(granted, [f"User:{user}"], HOSTS[0], operation, on) for on in places)
    assert (found is not None) == expected


@settings(max_examples=examples(200))
@given(entries)
def test_one_more_entry_never_takes_anything_away(granted):
    ask = Asker("ada", ("ops",), HOSTS[0]), parse_operation("READ"), parse_resource("shop.orders")

    for count in range(len(granted)):
        before = Permissions(map(acl_of, granted[:count])).allowing(*ask)
        after = Permissions(map(acl_of, granted[: count + 1])).allowing(*ask)

        assert before is None or after is not None


@cases(
    ("text", "shown"),
    [
        ("cluster", "cluster"),
        ("shop", "database:shop"),
        ("database:shop", "database:shop"),
        ("shop.orders", "table:shop.orders"),
        ("table:shop.orders", "table:shop.orders"),
        ("table:*", "table:*"),
        ("database:*", "database:*"),
    ],
)
def test_a_resource_is_read_in_short_and_shown_in_full(text, shown):
    assert str(parse_resource(text)) == shown
    assert parse_resource(shown) == parse_resource(text)


@cases("text", ["", "*", "table:shop", "table:", "view:a.b", "shop.*", "database:a.b", "x" * 600])
def test_a_text_that_names_no_resource_is_refused(text):
    with pytest.raises(RequestError):
        parse_resource(text)


@cases("text", ["shop", "table:shop.orders", "database:shop", "shop.orders"])
@cases("mark", ["\0", "\x1b[2J", " ", "é", "\u202e"])
def test_a_name_that_no_table_can_have_is_refused(text, mark):
    with pytest.raises(RequestError, match="is not the name of a"):
        parse_resource(text + mark)


@cases("text", ["", "ada", "User:", "Role:ada", "User:*", ":ada", "User:ada\0", "User:\x1b[2J"])
def test_a_text_that_names_nobody_is_refused(text):
    with pytest.raises(RequestError):
        parse_principal(text)


def test_principals_are_separated_by_semicolons():
    assert sorted(map(str, parse_principals("User:a; Group:b;;"))) == ["Group:b", "User:a"]
    assert parse_principals("") == frozenset()


@cases("text", ["ANY", "", "reading", "READ,WRITE"])
def test_an_operation_that_cannot_be_granted_is_refused(text):
    with pytest.raises(RequestError, match="ALL, READ, WRITE"):
        parse_operation(text)


def test_a_query_finds_what_has_all_of_its_traits():
    granted = [("User:ada", "READ", "shop", "*"), ("User:ada", "WRITE", "shop", "*")]
    permissions = Permissions(map(acl_of, granted))

    found = permissions.matching(
        query_for(parse_resource("shop"), operation=parse_operation("READ"))
    )

    assert found == [acl_of(granted[0])]
    assert len(permissions.matching(query_for())) == 2
