"""The error tree is what its docstring says, and codes find their way back."""

import pickle
import re
import traceback

from headwater import errors
from headwater.errors import HeadwaterError, error_of_code, moves_leader
from tests.cases import cases

CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, HeadwaterError)
}
BRANCHES = set(HeadwaterError.__subclasses__())
LEAVES = sorted(
    name for name, kind in CLASSES.items() if kind is not HeadwaterError and kind not in BRANCHES
)
FLUSS_CODES = (-1, *range(1, 74))
# Those whose exception in Fluss is a RetriableException, then two that it retries by other means
# (51) or that a client must send to another server (65).
RETRIABLE_CODES = {1, 3, 9, 10, 11, 12, 14, 21, 25, 26, 28, 29, 44, 70, 72, 73, 51, 65}
SHARED_CODES = {
    1: errors.DisconnectedError,
    -1: errors.ServerFaultError,
    2: errors.UnsupportedError,
    7: errors.TableMissingError,
    8: errors.TableExistsError,
    10: errors.LogStorageError,
    15: errors.InvalidTableError,
    31: errors.OutOfOrderSequenceError,
    44: errors.LeaderMissingError,
    53: errors.LakeSnapshotMissingError,
}


class FieldsError(errors.OffsetOutOfRangeError):
    """An error with fields that its constructor wants by name."""

    def __init__(self, *, bucket: int, offset: int) -> None:
        super().__init__(f"Offset {offset} of bucket {bucket} is gone.")
        self.bucket = bucket
        self.offset = offset


def drawn_tree():
    """Return what the docstring draws below each branch."""
    _, *blocks = re.split(r"[├└]── (?=\w+Error  )", errors.__doc__ or "")
    named = [re.findall(r"\b\w+Error\b", block) for block in blocks]
    return {branch: sorted(below) for branch, *below in named}


def test_the_docstring_draws_every_error_in_its_branch_and_no_other():
    declared = {
        branch.__name__: sorted(name for name in LEAVES if issubclass(CLASSES[name], branch))
        for branch in BRANCHES
    }

    assert drawn_tree() == declared


def test_every_error_is_exported():
    assert set(errors.__all__) == {*CLASSES, "error_of_code", "moves_leader"}


@cases("name", LEAVES)
def test_an_error_stands_in_exactly_one_branch(name):
    kind = CLASSES[name]

    assert sum(issubclass(kind, branch) for branch in BRANCHES) == 1


@cases("name", sorted(CLASSES))
def test_an_error_gives_advice_of_its_own(name):
    hint = vars(CLASSES[name])["hint"]

    assert hint.endswith(".")
    assert len(hint) < 100


@cases("code", FLUSS_CODES)
def test_a_code_of_fluss_comes_back_as_an_error_below_the_root(code):
    found = error_of_code(code, "why")

    assert type(found) is not HeadwaterError
    assert found.code == code
    assert found.message == "why"


@cases("code", FLUSS_CODES)
def test_an_error_can_be_retried_where_fluss_retries_it(code):
    assert error_of_code(code, "why").retriable == (code in RETRIABLE_CODES)


@cases("name", LEAVES)
def test_a_class_sends_a_code_that_comes_back_as_itself_unless_it_shares_it(name):
    kind = CLASSES[name]

    assert type(error_of_code(kind.code, "why")) is SHARED_CODES.get(kind.code, kind)


def test_every_class_that_shares_a_code_is_meant_to():
    codes = [kind.code for name, kind in CLASSES.items() if name in LEAVES]

    assert {code for code in codes if codes.count(code) > 1} <= set(SHARED_CODES)


def test_an_error_after_which_to_retry_later_can_be_retried():
    kinds = [kind for kind in CLASSES.values() if issubclass(kind, errors.RetryLaterError)]

    assert all(kind.retriable for kind in kinds)


def test_an_unknown_code_comes_back_as_the_root_and_is_named():
    found = error_of_code(9999, "why")

    assert type(found) is HeadwaterError
    assert found.code == 9999
    assert str(found) == "why (code 9999)"


@cases(("code", "text"), [(9, "The server answered with code 9."), (99, "(code 99)")])
def test_an_answer_without_a_message_still_says_something(code, text):
    assert str(error_of_code(code, "")) == text


def test_a_hint_follows_the_message():
    assert str(errors.StorageError("It broke.", hint="Mend it.")) == "It broke. Mend it."


def test_the_advice_of_the_class_stands_in_for_a_hint_but_not_in_the_text():
    fault = errors.TableMissingError("There is no table 'a.b'.")

    assert fault.hint == errors.TableMissingError.hint
    assert str(fault) == "There is no table 'a.b'."


def test_the_advice_of_the_class_is_shown_in_a_traceback():
    told = errors.TableMissingError("There is no table 'a.b'.")
    copy = pickle.loads(pickle.dumps(told))

    for fault in (told, copy):
        shown = "".join(traceback.format_exception(fault))
        assert shown.count(errors.TableMissingError.hint) == 1


def test_a_hint_of_its_own_is_all_that_a_traceback_shows():
    shown = "".join(traceback.format_exception(errors.StorageError("No.", hint="Mend it.")))

    assert shown.count("Mend it.") == 1
    assert errors.StorageError.hint not in shown


def test_a_hint_crosses_the_wire_once():
    sent = errors.TableMissingError("It is gone.", hint="Look elsewhere.")

    received = error_of_code(sent.code, str(sent))

    assert str(received) == "It is gone. Look elsewhere."


@cases("name", sorted(CLASSES))
@cases("hint", ["", "Mend it."])
def test_an_error_survives_a_pickle(name, hint):
    fault = CLASSES[name]("It broke.", hint=hint)
    fault.code = 4711

    copy = pickle.loads(pickle.dumps(fault))

    assert type(copy) is type(fault)
    assert (str(copy), copy.args, vars(copy)) == (str(fault), fault.args, vars(fault))
    assert (copy.message, copy.hint) == ("It broke.", fault.hint)


def test_an_error_with_fields_survives_a_pickle():
    fault = FieldsError(bucket=3, offset=7)

    copy = pickle.loads(pickle.dumps(fault))

    assert (copy.bucket, copy.offset) == (3, 7)
    assert str(copy) == "Offset 7 of bucket 3 is gone."


def test_the_leader_is_asked_for_again_where_fluss_would():
    moved = {code for code in FLUSS_CODES if moves_leader(error_of_code(code, "why"))}

    assert moved == {1, 10, 11, 12, 21, 44}


def test_the_leader_is_asked_for_again_after_a_server_has_said_goodbye():
    assert moves_leader(errors.StoppingError("Going down."))
