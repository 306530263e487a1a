"""Tiering as a job for spark-submit, whose options say where Spark runs.

spark-submit --master … job.py HOST:PORT --once
"""

import json
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict

from pyspark.sql import SparkSession

from headwater.config.client import SECURITY, Security, variable_of
from headwater.config.lake import exposed_secrets, value_or_file
from headwater.engines.spark.tiering.tier import TieredRound, tier
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import News, TurnEnded, TurnFailed

_DEFAULTS = TieringSettings()


def main(arguments: Sequence[str] | None = None) -> None:
    """Tier as the arguments say; each round is a line of JSON on standard output."""
    given = parse(arguments)
    # Terminated like by Ctrl-C: unfinished work is given back.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    spark = SparkSession.builder.appName("headwater tier").getOrCreate()
    try:
        tier(
            spark,
            given.target,
            tables=[name for text in given.tables for name in text.split(",") if name],
            once=given.once,
            lake=_lake(dict(given.lake)),
            user=given.user,
            password=os.environ.get("HEADWATER_PASSWORD"),
            security=_security(given),
            settings=TieringSettings(poll_interval_s=given.poll, rows_max=given.rows_max),
            listener=tell,
        )
    finally:
        spark.stop()


def parse(arguments: Sequence[str] | None) -> Namespace:
    """Parse the arguments of the job."""
    parser = ArgumentParser(
        description="Copy what tables hold, and their lake tables do not, into the lake.",
        epilog="Workers need Headwater, and must reach the server and the warehouse.",
    )
    parser.add_argument("target", help="HOST:PORT of servers; a directory with a local master.")
    parser.add_argument(
        "--once", action="store_true", help=("Exit when everything is in the lake.")
    )
    parser.add_argument(
        "--tables",
        action="append",
        default=[],
        help=("Only these tables, comma-separated; may be repeated."),
    )
    parser.add_argument(
        "--lake",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help=(
            "An option of the lake's catalog; may be repeated. Pass secrets as "
            "KEY=@FILE, a file that the driver reads: other users can see the command "
            "line."
        ),
    )
    parser.add_argument("--poll", type=float, default=_DEFAULTS.poll_interval_s, help="Seconds.")
    parser.add_argument(
        "--rows-max", type=int, default=_DEFAULTS.rows_max, help=("Rows per round.")
    )
    parser.add_argument(
        "--user",
        default=os.environ.get("HEADWATER_USER"),
        help="User of the server; the password is taken from HEADWATER_PASSWORD.",
    )
    for name, option in SECURITY.items():
        held = os.environ.get(variable_of(name))
        if name == "tls":
            is_on = (held or "").lower() in {"1", "true", "yes", "on"}
            parser.add_argument(option, action="store_true", default=is_on, help="Use TLS.")
        else:
            where = "As for headwater tier; files must be on the driver and on every worker."
            parser.add_argument(option, dest=name, default=held, help=where)
    return parser.parse_args(arguments)


def _security(given: Namespace) -> Security:
    """Collect how to encrypt and log in."""
    found = ((name, getattr(given, name)) for name in SECURITY)
    return tuple((name, value) for name, value in found if value)


def tell(news: News) -> None:
    """Write a finished round as a line."""
    match news:
        case TurnEnded():
            line: dict[str, object] = asdict(TieredRound.of(news))
        case TurnFailed():
            line = {"table": str(news.path), "error": str(news.fault)}
        case _:
            return
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _lake(given: dict[str, str]) -> dict[str, str]:
    if exposed := exposed_secrets(given):
        sys.stderr.write(
            f"headwater: warning: other users of this machine can see the value of"
            f" {', '.join(exposed)} in the list of processes; write it to a file and give"
            f" --lake {exposed[0]}=@FILE\n"
        )
    return {name: value_or_file(name, value) for name, value in given.items()}


def _pair(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not key or not mark:
        raise ValueError(text)
    return key, value


if __name__ == "__main__":
    main()
