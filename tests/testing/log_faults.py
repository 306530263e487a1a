"""Faults to plant into the events of a log that was in order; None where one has no place."""

from collections.abc import Callable

from headwater.testing.history import Event, ViolationKind
from tests.testing.log_world import FINAL

Events = list[Event]
Fault = Callable[[Events, int], Events | None]


def reads(events: Events, reader: str | None = None) -> list[Event]:
    """Return the rows that a reader saw, or that all but the last saw."""
    rows = [event for event in events if event["event"] == "read"]
    wanted = [e for e in rows if e["reader"] == reader or (reader is None and e["reader"] != FINAL)]
    return sorted(wanted, key=lambda event: (event["reader"], event["bucket"], event["offset"]))


def pick(found: list[Event], choice: int) -> Event | None:
    return found[choice % len(found)] if found else None


def without(events: Events, gone: Event) -> Events:
    return [event for event in events if event is not gone]


def inner(rows: list[Event]) -> list[Event]:
    """Return the rows that have one before and one behind them."""
    places = {(row["reader"], row["bucket"], row["offset"]) for row in rows}
    return [
        row
        for row in rows
        if {(row["reader"], row["bucket"], row["offset"] + step) for step in (-1, 1)} <= places
    ]


def acks(events: Events) -> dict[str, Event]:
    """Return the answers by the values that they are to."""
    sent = [event["value"] for event in events if event["event"] == "send"]
    return {sent[e["operation"]]: e for e in events if e["event"] == "ack"}


def replaced(events: Events, old: Event, **fields: object) -> Events:
    return [{**event, **fields} if event is old else event for event in events]


def gap_of_a_reader(events: Events, choice: int) -> Events | None:
    row = pick(inner(reads(events)), choice)
    return row and without(events, row)


def gap_at_the_end(events: Events, choice: int) -> Events | None:
    row = pick(inner(reads(events, FINAL)), choice)
    return row and without(events, row)


def lost_tail(events: Events, choice: int) -> Events | None:
    """Lose the last rows of a bucket, one of which was acknowledged."""
    known = acks(events)
    row = pick([row for row in reads(events, FINAL) if row["value"] in known], choice)
    if row is None:
        return None
    kept = [e for e in events if not (behind(e, row) and e["reader"] == FINAL)]
    return [
        {**e, "end": row["offset"]} if e["event"] == "end" and e["bucket"] == row["bucket"] else e
        for e in kept
    ]


def behind(event: Event, row: Event) -> bool:
    is_read = event["event"] == "read" and event["bucket"] == row["bucket"]
    return is_read and event["offset"] >= row["offset"]


def duplicate(events: Events, choice: int) -> Events | None:
    """Store a value once more at the end of its bucket."""
    row = pick(reads(events, FINAL), choice)
    if row is None:
        return None
    end = next(e for e in events if e["event"] == "end" and e["bucket"] == row["bucket"])
    rest = replaced(events, end, end=end["end"] + 1)
    return [*rest, {**row, "offset": end["end"]}]


def swap(events: Events, choice: int) -> Events | None:
    """Exchange two values of a writer for everyone, one behind the other in a bucket."""
    known = acks(events)
    rows = [row for row in reads(events, FINAL) if row["value"] in known]
    pairs = [
        (one, other)
        for one in rows
        for other in rows
        if one["bucket"] == other["bucket"]
        and one["offset"] < other["offset"]
        and one["value"][:2] == other["value"][:2]
    ]
    if not pairs:
        return None
    one, other = pairs[choice % len(pairs)]
    names = {one["value"]: other["value"], other["value"]: one["value"]}
    places = {id(known[row["value"]]): row for row in (one, other)}
    return [swapped(event, names, places.get(id(event)), (one, other)) for event in events]


def swapped(event, names, held, rows):
    if event["event"] == "read":
        return {**event, "value": names.get(event["value"], event["value"])}
    if held is None or event["offset"] is None:
        return event
    return {**event, "offset": (rows[1] if held is rows[0] else rows[0])["offset"]}


def two_values(events: Events, choice: int) -> Events | None:
    """Let one reader see another value than the last one does, at one offset."""
    row = pick(reads(events), choice)
    others = [e for e in reads(events, FINAL) if row and e["value"] != row["value"]]
    return row and others and replaced(events, row, value=others[0]["value"])


def wrong_answer(events: Events, choice: int) -> Events | None:
    """Acknowledge a value at an offset that is not its own."""
    placed = [event for event in acks(events).values() if event["offset"] is not None]
    ack = pick(placed, choice)
    return ack and replaced(events, ack, offset=ack["offset"] + 1)


def read_again(events: Events, choice: int) -> Events | None:
    row = pick(reads(events), choice)
    last = row and [e for e in reads(events, row["reader"]) if e["bucket"] == row["bucket"]][-1]
    if last is None:
        return None
    place = next(index for index, event in enumerate(events) if event is last)
    return [*events[: place + 1], row, *events[place + 1 :]]


def failed_but_visible(events: Events, choice: int) -> Events | None:
    seen = {row["value"] for row in reads(events, FINAL)}
    ack = pick([e for value, e in acks(events).items() if value in seen], choice)
    return ack and [
        {"event": "fail", "operation": e["operation"]} if e is ack else e for e in events
    ]


def never_sent(events: Events, choice: int) -> Events | None:
    row = pick(reads(events, FINAL), choice)
    return row and [
        {**e, "value": "nobody/1"} if e["event"] == "read" and e["value"] == row["value"] else e
        for e in events
    ]


def read_then_gone(events: Events, choice: int) -> Events | None:
    """Take away what only a reader saw, not a writer: its answer was lost, then its row."""
    known = acks(events)
    rows = [r for r in reads(events) if r["value"] not in known]
    row = pick(rows, choice)
    return row and lost_tail_of(events, row)


def lost_tail_of(events: Events, row: Event) -> Events:
    kept = [e for e in events if not (behind(e, row) and e["reader"] == FINAL)]
    end = next(e for e in kept if e["event"] == "end" and e["bucket"] == row["bucket"])
    return replaced(kept, end, end=row["offset"])


KIND = ViolationKind
FAULTS: list[tuple[Fault, ViolationKind]] = [
    (gap_of_a_reader, KIND.GAP),
    (gap_at_the_end, KIND.GAP),
    (lost_tail, KIND.LOST),
    (read_then_gone, KIND.LOST),
    (duplicate, KIND.DUPLICATED),
    (swap, KIND.REORDERED),
    (two_values, KIND.CONFLICTING),
    (wrong_answer, KIND.CONFLICTING),
    (read_again, KIND.BACKWARDS),
    (failed_but_visible, KIND.PHANTOM),
    (never_sent, KIND.PHANTOM),
]
