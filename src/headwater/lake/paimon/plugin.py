"""The entry point of the format."""

from collections.abc import Mapping

from headwater.lake.paimon.storage import PaimonStorage


def open_lake(config: Mapping[str, str]) -> PaimonStorage:
    """Open a lake of Paimon tables; the config holds the options of a Paimon catalog."""
    return PaimonStorage(dict(config))
