"""Options that describe no catalog are told apart from a catalog that is away."""

import pytest

from headwater.errors import InvalidOptionError
from headwater.lake.lakes import open_lake
from tests.cases import cases


@cases(
    ("config", "told"),
    [
        ({"type": "nonsense"}, "nonsense"),
        ({"type": "rest"}, "URI missing"),
        ({"type": "sql", "uri": "postgresql+pg8000://host/db"}, "pyiceberg"),
    ],
)
def test_options_that_open_no_catalog_say_what_is_wrong(config, told):
    with pytest.raises(InvalidOptionError, match=told) as caught:
        open_lake("iceberg", {"warehouse": "file:///nowhere", **config}).catalog().list_tables()

    assert "type" in caught.value.hint
