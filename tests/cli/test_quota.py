"""`headwater quota`: limits of single users."""

import json

from tests.cases import cases
from tests.cli.commanding import Storage, ok

run = Storage("unused")


def test_limits_are_set_listed_and_cleared(tmp_path):
    file = str(tmp_path / "quotas.json")

    ok(run("quota", "set", file, "ann", "user_bytes_in_per_s_max=10mb", "user_scans_max=4"))
    ok(run("quota", "set", file, "CN=bob, O=shop", "user_tables_max=3"))
    ok(run("quota", "clear", file, "ann", "user_scans_max"))

    assert ok(run("quota", "list", file)).splitlines() == [
        "CN=bob, O=shop: user_tables_max=3",
        "ann: user_bytes_in_per_s_max=10485760",
    ]


def test_a_user_without_limits_leaves_the_file(tmp_path):
    file = tmp_path / "quotas.json"
    ok(run("quota", "set", str(file), "ann", "user_tables_max=3"))

    ok(run("quota", "clear", str(file), "ann"))

    assert json.loads(file.read_text()) == {}
    assert file.stat().st_mode & 0o777 == 0o600


@cases(
    "given, told",
    [
        (("set", "ann", "tables=3"), "is not a limit of a user"),
        (("set", "ann", "user_tables_max=many"), "is not a valid value"),
        (("set", "ann", "user_bytes_in_per_s_max=5"), "Use 0 for no limit, 1024 or more"),
        (("set", " ", "user_tables_max=3"), "The name of the user is empty"),
        (("clear", "ann"), "There is no quota of 'ann'"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(given, told, tmp_path):
    verb, *others = given
    file = tmp_path / "quotas.json"

    result = run("quota", verb, str(file), *others)

    assert result.exit_code == 3
    assert told in result.stderr
    assert not file.exists() or json.loads(file.read_text()) == {}
