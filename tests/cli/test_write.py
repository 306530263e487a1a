"""What a write tells of its rows when it is ended before it is done."""

import signal

import pyarrow as pa
import pytest
import typer

from headwater import errors
from headwater.cli.target import source_of
from headwater.cli.write import InputPlan, _write
from headwater.write.receipts import Receipt

SCHEMA = pa.schema([("id", pa.int64())])
BATCH_ROWS = 10


@pytest.fixture
def reading(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id\n" + "".join(f"{number}\n" for number in range(35)))
    return InputPlan((source_of(path, given=None),), SCHEMA, BATCH_ROWS)


def ending(*signals, fault=None, at=3):
    """Return a store that is sent signals, or fails, while it writes its third batch."""
    calls = []

    def store(rows):
        calls.append(rows)
        if len(calls) == at:
            for number in signals:
                signal.raise_signal(number)
            if fault is not None:
                raise fault
        return Receipt(rows.num_rows, ())

    return store


def known(fault, *, written, unknown):
    fault.rows_written, fault.rows_unknown = written, unknown
    return fault


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, typer.Exit)]
)
def test_a_signal_ends_a_write_behind_the_batch_on_its_way_and_counts_it(
    reading, capsys, number, kind
):
    handler = signal.getsignal(number)

    with pytest.raises(kind) as told:
        _write(reading, ending(number))

    assert capsys.readouterr().err.splitlines()[-1] == (
        "headwater: 30 rows written before it stopped"
    )
    assert getattr(told.value, "exit_code", 143) == 143
    assert signal.getsignal(number) is handler


def test_a_second_signal_ends_it_at_once_and_what_is_unknown_is_called_so(reading, capsys):
    with pytest.raises(KeyboardInterrupt):
        _write(reading, ending(signal.SIGINT, signal.SIGINT))

    assert capsys.readouterr().err.splitlines()[-1] == (
        "headwater: at least 20 rows, at most 30 rows written before it stopped:"
        " the outcome of the last 10 rows is unknown"
    )


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (errors.InvalidValueError("Bad."), "20 rows written before it stopped"),
        (errors.TimedOutError("Late."), "at least 20 rows, at most 30 rows"),
        (
            known(errors.TimedOutError("Late."), written=4, unknown=3),
            "at least 24 rows, at most 27 rows",
        ),
        (
            known(errors.RecordTooLargeError("Large."), written=4, unknown=0),
            "24 rows written before it stopped",
        ),
    ],
)
def test_an_error_counts_what_it_knows(reading, capsys, fault, told):
    with pytest.raises(type(fault)):
        _write(reading, ending(fault=fault))

    assert told in capsys.readouterr().err


def test_a_first_batch_of_which_nothing_is_known_is_told_as_well(reading, capsys):
    with pytest.raises(errors.TimedOutError):
        _write(reading, ending(fault=errors.TimedOutError("Late."), at=1))

    assert "at least 0 rows, at most 10 rows written" in capsys.readouterr().err
