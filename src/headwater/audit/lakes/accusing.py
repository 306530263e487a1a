"""Findings about one lake table, in its words."""

from dataclasses import dataclass

from headwater.audit.finding import Check, Finding, Severity
from headwater.errors import HeadwaterError
from headwater.model.boundary import LakeBucket
from headwater.model.path import TablePath


@dataclass(frozen=True, slots=True)
class Accusing:
    """Write findings about one table."""

    path: TablePath
    partitions: dict[int, str]
    """The names of all partitions that the table or its lake table knows."""

    def bucket(
        self,
        check: Check,
        bucket: LakeBucket,
        message: str,
        *,
        remedy: str,
        offset: int | None = None,
        severity: Severity = Severity.ERROR,
    ) -> Finding:
        """Say what is wrong with a bucket."""
        return Finding(
            check=check,
            severity=severity,
            table=str(self.path),
            partition=self.name_of(bucket),
            bucket=bucket.bucket,
            offset=offset,
            message=message,
            remedy=remedy,
        )

    def table(
        self,
        check: Check,
        message: str,
        *,
        remedy: str,
        partition: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> Finding:
        """Say what is wrong with the whole table, or with a partition of it."""
        return Finding(
            check=check,
            severity=severity,
            table=str(self.path),
            partition=partition,
            message=message,
            remedy=remedy,
        )

    def fault(self, check: Check, fault: HeadwaterError) -> Finding:
        """Say that something could not be read, and why."""
        return self.table(check, fault.message, remedy=fault.hint)

    def name_of(self, bucket: LakeBucket) -> str | None:
        """Return the name of the partition of a bucket, or its number if that is not known."""
        number = bucket.partition_id
        return None if number is None else self.partitions.get(number, f"number {number}")
