"""Tables of every kind, after a life that leaves nothing out, give no cause for a finding."""

from collections.abc import Iterator

import pytest

from headwater.audit.report import Check, Severity
from tests.audit.lakes.auditing import Audited, audited
from tests.union.storage import Storage
from tests.union.story import Story, Traits
from tests.union.telling import KINDS, fitting, told, written

QUICK = [Traits(format="paimon", is_keyed=True), Traits(format="iceberg", is_partitioned=True)]
MERGES = [
    ("iceberg", {"table.merge-engine": "first_row"}),
    (
        "paimon",
        {"table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "n"},
    ),
    ("iceberg", {"table.merge-engine": "aggregation"}),
    ("paimon", {"table.changelog.image": "wal"}),
    ("paimon", {"table.kv.ttl": "1 d"}),
]


@pytest.fixture(scope="module")
def storage(tmp_path_factory) -> Iterator[Storage]:
    opened = Storage.open(tmp_path_factory.mktemp("audited") / "data")
    yield opened
    opened.close()


def audit(story: Story, *, deep: bool = True) -> Audited:
    return story.run(lambda _world: audited(story.table._table, deep=deep))


@pytest.mark.parametrize("traits", KINDS, ids=str)
def test_a_table_that_was_changed_evolved_and_cut_is_in_order(storage, traits):
    story = told(storage, traits)
    story.tier()

    report = audit(story)

    assert report.findings == ()
    assert report.proof(Check.LAKE_ROWS).amount > 0


@pytest.mark.parametrize("traits", QUICK, ids=str)
def test_a_table_with_long_upkeep_is_in_order(storage, traits):
    kept_up(Story(storage, traits))


@pytest.mark.torture
@pytest.mark.parametrize("traits", KINDS, ids=str)
def test_a_table_of_any_kind_with_long_upkeep_is_in_order(storage, traits):
    kept_up(Story(storage, traits))


def kept_up(story: Story) -> None:
    """Tier a table often, cut updates in half, compact, expire and cut; then audit it."""
    for turn in range(7):
        story.write(fitting(story, written(range(turn * 3, turn * 3 + 12), n=turn)))
        story.tier(rows_max=5 if turn == 3 else 1000)
    story.tier()
    story.compact(reports=True)
    story.expire_snapshots(keep=3)
    story.cut()
    story.write(fitting(story, written(range(9), n=9)))

    assert audit(story).findings == ()


@pytest.mark.parametrize("traits", [each for each in KINDS if each.is_partitioned], ids=str)
def test_partitions_that_were_dropped_and_made_anew_are_no_error(storage, traits):
    story = Story(storage, traits)
    story.write(fitting(story, written(range(20))))
    story.tier()
    story.drop_partition("mon")
    story.write(fitting(story, written(range(100, 120))))
    story.tier()
    story.expire_snapshots(keep=1)

    found = audit(story)

    assert found.errors == []
    assert {each.severity for each in found.findings} <= {Severity.WARNING}


@pytest.mark.parametrize(("lake", "options"), MERGES, ids=str)
def test_every_way_to_merge_rows_is_in_order(storage, lake, options):
    story = Story(storage, Traits(format=lake, is_keyed=True, options=tuple(options.items())))
    for turn in range(3):
        story.write(fitting(story, written(range(turn * 5, turn * 5 + 15), n=turn)))
        story.tier()
    story.write(fitting(story, written(range(7), n=9)))

    report = audit(story)

    assert report.findings == ()
    is_partly = "table.kv.ttl" in options or "table.changelog.image" in options
    assert bool(report.proof(Check.LAKE_ROWS).note) == is_partly


def test_a_log_that_was_cut_beyond_the_lake_leaves_a_gap(storage):
    story = Story(storage, Traits(buckets=1))
    story.write(fitting(story, written(range(5))))
    story.tier()
    story.write(fitting(story, written(range(5, 8))))
    story.write(fitting(story, written(range(8, 10))))
    storage.cut(story.table.info.table_id, checked=False)

    findings = audit(story, deep=False).errors

    assert [(each.check, each.offset) for each in findings] == [(Check.TIERS, 5)]
    assert "--begin-anew" in findings[0].remedy


@pytest.fixture
def cut_early(storage) -> Story:
    """Return a table whose log was cut before anything went to the lake."""
    story = Story(storage, Traits(buckets=1))
    story.write(fitting(story, written(range(20))))
    storage.cut(story.table.info.table_id, checked=False)
    story.write(fitting(story, written(range(20, 25))))
    return story


def test_a_log_that_was_cut_before_any_round_leaves_a_gap(cut_early):
    report = audit(cut_early, deep=False)

    assert [(each.check, each.offset) for each in report.errors] == [(Check.TIERS, 0)]
    assert report.proof(Check.TIERS).amount == 0


def test_rows_that_may_have_expired_before_a_table_had_a_lake_are_worth_a_look(cut_early):
    cut_early.table.set_options({"table.log.ttl": "7 d"})

    (finding,) = audit(cut_early, deep=False).findings

    assert (finding.severity, finding.offset) == (Severity.WARNING, 0)
    assert "before the table had a lake" in finding.message


def test_rows_that_were_gone_when_a_lake_began_are_told_for_good(cut_early):
    cut_early.tier()

    (finding,) = audit(cut_early).findings

    assert (finding.check, finding.severity) == (Check.TIERS, Severity.WARNING)
    assert "--begin-anew" in finding.message


def test_a_partition_that_was_never_tiered_may_not_lack_rows(storage):
    story = Story(storage, Traits(buckets=1, is_partitioned=True))
    story.write(fitting(story, written(range(20), days=("mon", "mon"))))
    story.tier()
    for turn in range(4):
        story.write(fitting(story, written(range(turn * 5, turn * 5 + 5), days=("tue", "tue"))))
    storage.cut(story.table.info.table_id, checked=False)

    (finding,) = audit(story, deep=False).errors

    assert (finding.check, finding.partition, finding.offset) == (Check.TIERS, "tue", 0)


def test_changes_by_key_that_are_in_no_tier_are_worth_a_look_while_the_state_has_the_rows(storage):
    story = Story(storage, Traits(buckets=1, is_keyed=True))
    for turn in range(4):
        story.write(fitting(story, written(range(5), n=turn)))
    storage.cut(story.table.info.table_id, checked=False)

    before = audit(story, deep=False).findings
    story.tier()

    assert [each.severity for each in before] == [Severity.WARNING]
    assert audit(story, deep=False).findings == ()
