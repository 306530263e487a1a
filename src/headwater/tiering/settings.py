"""Settings of a tierer: how often it asks, how much it takes at once, what it clears away."""

from dataclasses import dataclass

from headwater.config.setting import check_positive, integer, seconds, switch
from headwater.tiering.plan import Limits

_FREE = frozenset({"begins_anew"})
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringSettings:
    """Hold the limits of a tierer."""

    poll_interval_s: float = seconds(
        10.0, "Pause before the server is asked again, when it had no table to tier."
    )
    heartbeat_interval_s: float = seconds(
        10.0, "How often the server is told that a table is still being tiered."
    )
    goodbye_s: float = seconds(
        5.0, "Time that a tierer which is stopped may take to give its table back."
    )
    rows_max: int = integer(
        5_000_000, "Offsets of one bucket in one round; the rest waits for the next."
    )
    begins_anew: bool = switch(
        "Begin a lake table anew with what the log still holds, where the lake has lost rows that"
        " the log has not any more. Otherwise that is an error."
    )
    orphans_interval_s: float = seconds(
        _DAY_S, "How often files that no snapshot names are looked for in a lake table."
    )
    orphans_age_s: float = seconds(
        3 * _DAY_S, "Age of such files from which they are removed; younger ones may be in use."
    )

    def __post_init__(self) -> None:
        check_positive(self, free=_FREE)

    @property
    def limits(self) -> Limits:
        """Return what bounds a round."""
        return Limits(rows_max=self.rows_max, begins_anew=self.begins_anew)
