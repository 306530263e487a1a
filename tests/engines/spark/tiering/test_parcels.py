"""What travels between driver and workers of tiering."""

import pytest

from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.tiering.runner import (
    Errand,
    pack_answer,
    pack_tasks,
    unpack_answer,
    unpack_tasks,
)
from headwater.errors import LakeUnreachableError, UnsupportedError
from headwater.lake.spi import LakeTableSpec, Rewrite, WriteResult
from headwater.model.path import TablePath
from headwater.model.schema import Schema
from headwater.tiering.task import RewriteTask
from tests.lake.plain_lake import open_lake

WORK = Rewrite(partition=(("day", "1"),), bucket=2, file_count=3, byte_count=4, payload=b"files")
SPEC = LakeTableSpec(path=TablePath("shop", "orders"), schema=Schema(columns=()))


def rewriting(directory) -> RewriteTask:
    lake = open_lake({"warehouse": str(directory)})
    return RewriteTask(lake=lake, spec=SPEC, work=WORK)


def test_tasks_arrive_as_they_were_sent(tmp_path):
    tasks = [rewriting(tmp_path), rewriting(tmp_path)]

    arrived = unpack_tasks(pack_tasks(tasks))

    assert [each.work for each in arrived] == [WORK, WORK]
    assert arrived[0].spec == SPEC


def test_answers_arrive_as_they_were_sent():
    result = WriteResult(
        partition=(), bucket=1, row_count=2, file_count=3, byte_count=4, payload=b"5"
    )

    assert unpack_answer(pack_answer(result)) == result


def test_an_error_keeps_its_class_and_its_advice():
    fault = LakeUnreachableError("The warehouse is gone.", hint="Bring it back.")

    arrived = unpack_answer(pack_answer(fault))

    assert isinstance(arrived, LakeUnreachableError)
    assert (str(arrived), arrived.hint) == (str(fault), "Bring it back.")


def test_what_another_version_has_sent_is_refused_with_advice():
    data = b"headwater 9.9.9\n" + pack_answer(LakeUnreachableError("gone")).partition(b"\n")[2]

    with pytest.raises(UnsupportedError, match=r"headwater 9\.9\.9.*Install the same version"):
        unpack_answer(data)


def test_a_worker_of_another_version_answers_with_that():
    errand = Errand(SparkConnection(servers=("localhost:1",)), b"headwater 9.9.9\n")

    answer = unpack_answer(errand._answer(0) and pack_answer(errand._answer(0)))

    assert isinstance(answer, UnsupportedError)
