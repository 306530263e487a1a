"""The settings of the server."""

from dataclasses import fields

import pytest

from headwater.config.server import ServerSettings
from headwater.config.values import described
from headwater.errors import InvalidOptionError
from tests.cases import cases


def test_every_setting_is_described_by_a_sentence():
    texts = {name: text for name, _, text in described(ServerSettings)}

    assert texts.keys() == {setting.name for setting in fields(ServerSettings)}
    assert all(text.endswith(".") for text in texts.values())


@cases(
    "settings",
    [
        {"port": -1},
        {"port": 65_536},
        {"request_bytes_max": 0},
        {"frame_timeout_s": -1.0},
        {"default_bucket_number": 5000},
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings):
    with pytest.raises(InvalidOptionError, match=next(iter(settings))):
        ServerSettings(**settings)


def test_port_zero_asks_for_any_free_port():
    assert ServerSettings(port=0).port == 0
