"""Read a table together with another reader, and go on later: `python cursors.py [HOST:PORT]`.

Without an address everything happens in this process, in a directory that is removed afterwards.
"""

import sys
import tempfile

import headwater


def create_jobs(hw: headwater.Client) -> headwater.Table:
    hw.drop_table("jobs", missing_ok=True)
    # Jobs are spread by their number, so that both readers get some.
    return hw.create_table("jobs", {"id": "BIGINT"}, buckets=4, bucket_by="id")


def read_together(jobs: headwater.Table) -> None:
    """Let two readers of one name divide the buckets; usually they are two processes."""
    with jobs.cursor("workers") as first, jobs.cursor("workers") as second:
        while not (len(first.assigned) == len(second.assigned) == 2):
            first.poll(0.05)
            second.poll(0.05)
        jobs.append({"id": list(range(1000))})
        seen = {"first": 0, "second": 0}
        while sum(seen.values()) < 1000:
            seen["first"] += sum(batch.rows.num_rows for batch in first.poll(0.2))
            seen["second"] += sum(batch.rows.num_rows for batch in second.poll(0.2))
    fewer, more = sorted(seen.values())
    print(f"1000 jobs: one reader did {fewer} of them, the other {more}")


def read_on(jobs: headwater.Table) -> None:
    """Begin behind what was read before, whoever read it."""
    jobs.append({"id": 1000})
    with jobs.cursor("workers") as cursor:
        for batch in cursor:
            print(f"next is job {batch.rows['id'][0]}")
            break


def run(hw: headwater.Client) -> None:
    jobs = create_jobs(hw)
    read_together(jobs)
    print(f"{hw.cursors.describe('workers', 'jobs').lag_rows} rows behind")
    read_on(jobs)
    hw.cursors.delete("workers", "jobs")


def main() -> None:
    if len(sys.argv) > 1:
        with headwater.connect(sys.argv[1]) as hw:
            run(hw)
        return
    with tempfile.TemporaryDirectory() as directory, headwater.open(directory) as hw:
        run(hw)


if __name__ == "__main__":
    main()
