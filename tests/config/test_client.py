"""The settings of a client."""

from dataclasses import fields

import pytest

from headwater.config.client import ClientSettings
from headwater.config.values import described
from headwater.errors import InvalidAcksError, InvalidOptionError
from tests.cases import cases

MAY_BE_ZERO = {"batch_timeout_ms", "union_tail_bytes_max"}
LIMITS = [
    each.name
    for each in fields(ClientSettings)
    if type(each.default) in (int, float) and each.name not in {"acks", *MAY_BE_ZERO}
]


def test_every_setting_is_described_by_a_sentence():
    texts = {name: text for name, _, text in described(ClientSettings)}

    assert texts.keys() == {setting.name for setting in fields(ClientSettings)}
    assert all(text.endswith(".") for text in texts.values())


@cases("name", LIMITS)
@cases("value", [0, -1])
def test_a_limit_that_makes_no_sense_is_refused(name, value):
    with pytest.raises(InvalidOptionError, match=name):
        ClientSettings(**{name: value})


@cases("name", sorted(MAY_BE_ZERO))
def test_what_can_be_turned_off_is_not_negative(name):
    assert getattr(ClientSettings(**{name: 0}), name) == 0

    with pytest.raises(InvalidOptionError, match=name):
        ClientSettings(**{name: -1})


def test_no_more_batches_travel_than_servers_recognise():
    assert ClientSettings(inflight_per_bucket_max=5).inflight_per_bucket_max == 5
    with pytest.raises(InvalidOptionError, match="only the last 5 batches"):
        ClientSettings(inflight_per_bucket_max=6)


@cases("acks", [-3, 2])
def test_other_acks_than_servers_know_are_refused(acks):
    with pytest.raises(InvalidAcksError, match="acks"):
        ClientSettings(acks=acks)


@cases("acks", [-1, 0, 1])
def test_a_write_may_be_answered_early_or_late(acks):
    assert ClientSettings(acks=acks).acks == acks


@cases("name", [each.name for each in fields(ClientSettings) if type(each.default) is bool])
def test_a_switch_can_be_turned_off(name):
    assert getattr(ClientSettings(**{name: False}), name) is False
