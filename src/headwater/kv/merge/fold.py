"""The way of a batch through a merge rule, from its records to its changes."""

import numpy as np

from headwater.config.choices import ChangelogImage, DeleteBehavior
from headwater.errors import DeletionDisabledError
from headwater.kv.merge.batch import Batch, Ids
from headwater.kv.merge.engine import Engine
from headwater.kv.merge.plan import Plan, plan_of
from headwater.kv.merge.turns import Turns
from headwater.kv.merge.writes import Writes


def fold(engine: Engine, writes: Writes, *, image: ChangelogImage, ids: Ids | None = None) -> Plan:
    """Apply the records of a batch in order and plan the changes; nothing is changed yet.

    1. Leave deletes aside, or refuse them, as the table says.
    2. Group the records by key.
    3. Let the rule decide what each record does.
    4. Write that down as changes of the log.
    """
    records = np.arange(writes.record_count)
    if engine.delete_behavior is not DeleteBehavior.ALLOW and writes.is_delete.any():
        if engine.delete_behavior is DeleteBehavior.DISABLE:
            raise DeletionDisabledError("This table takes no deletes.")
        records = np.flatnonzero(~writes.is_delete)
    turns = Turns.of(writes, records)
    outcome = engine.rule.decide(Batch(writes, turns, ids))
    return plan_of(outcome, image=image, is_blind=engine.is_blind)
