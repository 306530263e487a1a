"""Jobs: their names, what makes them the same, and the folders that keep how far they are."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import ConflictError, JobChangedError
from headwater.pipelines.jobs import (
    NAME_CHARACTERS_MAX,
    JobStatus,
    JobStore,
    PipelineJob,
    cause_of,
    fingerprint,
    job_name,
    normal,
)
from headwater.pipelines.launch import JobNames
from tests.cases import cases
from tests.choices import examples
from tests.pipelines.planned import copy_plan, table, text

INSERT = "INSERT INTO sink SELECT id FROM t"


def test_a_job_is_named_after_its_sinks_unless_it_has_a_name():
    assert job_name([table("a"), table("b")], None) == "insert-into_c.d.a+c.d.b"
    assert job_name([table("a")], "orders") == "orders"


def test_a_name_that_is_too_long_is_cut_and_stays_unique():
    names = {job_name([table("x" * 200 + end)], None) for end in "ab"}

    assert len(names) == 2
    assert all(len(name) <= NAME_CHARACTERS_MAX for name in names)


def test_jobs_of_one_script_with_the_same_sink_are_told_apart_by_order():
    names = JobNames()

    given_names = [names.of("job", mark) for mark in ("a", "b", "a")]

    assert given_names == ["job", "job#2", "job"]


@cases(
    "written",
    [
        "INSERT INTO  sink\n  SELECT id FROM t",
        "-- copies\nINSERT INTO sink SELECT id /* all */ FROM t",
        "INSERT INTO sink SELECT id FROM t -- the end",
    ],
)
def test_spaces_and_comments_do_not_change_a_job(written):
    source = table(options={"bootstrap.servers": "a:1"})

    assert normal(written) == INSERT
    assert fingerprint(text(written), copy_plan(source), None) == fingerprint(
        text(INSERT), copy_plan(source), None
    )


def test_what_is_in_quotes_and_hints_stays():
    written = "SELECT '--  a' /*+ OPTIONS('x'='1') */ FROM `b  c`"

    assert normal(written) == written


@cases(
    "plan, zone",
    [
        (copy_plan(table(options={"rows": "2"})), None),
        (copy_plan(table(options={"rows": "1"}), delay_ms=5), None),
        (copy_plan(table("other", options={"rows": "1"})), None),
        (copy_plan(table(options={"rows": "1"}), columns=("id", "item")), None),
        (copy_plan(table(options={"rows": "1"})), "Europe/Berlin"),
    ],
)
def test_what_a_job_reads_is_part_of_it(plan, zone):
    before = fingerprint(text(INSERT), copy_plan(table(options={"rows": "1"})), None)

    assert fingerprint(text(INSERT), plan, zone) != before


def test_how_a_server_is_reached_is_not_part_of_a_job():
    marks = {
        fingerprint(text(INSERT), copy_plan(table(options=options)), None)
        for options in (
            {"bootstrap.servers": "a:1"},
            {"bootstrap.servers": "b:2", "client.security.sasl.password": "x"},
        )
    }

    assert len(marks) == 1


# Folders.


def test_a_job_that_is_run_again_has_the_same_checkpoints(tmp_path):
    first = JobStore(str(tmp_path)).open("job", "mark", INSERT, restart=False)
    first.release()

    again = JobStore(str(tmp_path)).open("job", "mark", INSERT, restart=False)

    assert again.checkpoint(1) == first.checkpoint(1)
    again.release()


def test_another_statement_under_the_same_name_is_refused_with_the_old_one(tmp_path):
    store = JobStore(str(tmp_path))
    store.open("job", "mark", INSERT, restart=False).release()
    (tmp_path / "job" / "run-1" / "sink-1" / "offsets").mkdir(parents=True)

    with pytest.raises(JobChangedError, match=r"INSERT INTO sink") as caught:
        store.open("job", "other", "INSERT INTO x SELECT 1", restart=False)

    assert "--restart" in str(caught.value)
    assert store.records()[0].statement == INSERT


def test_a_job_that_never_began_takes_another_statement(tmp_path):
    store = JobStore(str(tmp_path))
    store.open("job", "mark", INSERT, restart=False).release()
    (tmp_path / "job" / "run-1" / "sink-0").mkdir(parents=True)

    again = store.open("job", "other", "INSERT INTO x SELECT 1", restart=False)

    assert again.record.statement == "INSERT INTO x SELECT 1"
    again.release()


def test_a_restart_begins_with_new_checkpoints_and_the_new_statement(tmp_path):
    store = JobStore(str(tmp_path))
    first = store.open("job", "mark", INSERT, restart=False)
    first.release()

    again = store.open("job", "other", "INSERT INTO x SELECT 1", restart=True)
    again.release()

    assert again.checkpoint(0) != first.checkpoint(0)
    assert store.records()[0].statement == "INSERT INTO x SELECT 1"


def test_a_job_runs_once_at_a_time(tmp_path):
    held = JobStore(str(tmp_path)).open("job", "mark", INSERT, restart=False)

    with pytest.raises(ConflictError, match="running already"):
        JobStore(str(tmp_path)).open("job", "mark", INSERT, restart=False)

    held.release()
    JobStore(str(tmp_path)).open("job", "mark", INSERT, restart=False).release()


def test_a_job_whose_record_was_cut_short_begins_anew(tmp_path):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "job.json.new").write_text('{"name": "jo')

    folder = JobStore(str(tmp_path)).open("job", "mark", INSERT, restart=False)

    assert folder.record.run == 1
    folder.release()


def test_a_sink_is_new_until_it_has_an_offset(tmp_path):
    folder = JobStore(str(tmp_path)).open("job", "mark", INSERT, restart=False)
    before = folder.is_new(0)

    (tmp_path / "job" / "run-1" / "sink-0" / "offsets").mkdir(parents=True)

    assert (before, folder.is_new(0)) == (True, False)
    folder.release()


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
@settings(max_examples=examples(50), deadline=None)
def test_jobs_with_different_names_have_different_folders(tmp_path_factory, names):
    store = JobStore(str(tmp_path_factory.mktemp("jobs")))

    folders = [store.open(name, "m", INSERT, restart=False) for name in names]

    assert len({each.path.lower() for each in folders}) == len({n.lower() for n in names})
    assert len({each.path for each in folders}) == 2
    for each in folders:
        each.release()


@cases(
    "told, cause",
    [
        ("a\nheadwater.errors.tree.TableMissingError: It is gone.\n at x", "It is gone."),
        ("x\nValueError: no number\n", "no number"),
        ("[UNRESOLVED_COLUMN] nothing\nmore", "[UNRESOLVED_COLUMN] nothing"),
        ("[NO] `a`. SQLSTATE: 42703; line 1 pos 7;\n'Project", "[NO] `a`."),
        (
            "An error occurred while calling o1.x.\n: org.a.SparkError: [X] It is gone.\n\tat a",
            "[X] It is gone.",
        ),
    ],
)
def test_of_a_long_error_the_cause_is_told(told, cause):
    assert cause_of(told) == cause


@dataclass
class FakeQuery:
    """A query that complains when it is stopped, as Spark's do in the middle of a batch."""

    complaint: str | None = None
    isActive: bool = True  # noqa: N815 - as Spark calls it

    def exception(self) -> str | None:
        return self.complaint

    def stop(self) -> None:
        self.complaint, self.isActive = self.complaint or "stopped in a batch", False


def test_a_job_that_complains_because_it_is_stopped_has_not_failed():
    job = PipelineJob(name="copy", statement="INSERT", started_ms=0, queries=(FakeQuery(),))

    job.stop()

    assert job.status is JobStatus.STOPPED
    assert job.fault() is None


def test_a_job_of_which_one_query_failed_stays_failed_when_the_rest_is_stopped():
    queries = (FakeQuery("no room", isActive=False), FakeQuery())
    job = PipelineJob(name="copy", statement="INSERT", started_ms=0, queries=queries)

    job.settle()

    assert job.status is JobStatus.FAILED
    assert "no room" in str(job.fault())
    assert not queries[1].isActive
