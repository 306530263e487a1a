"""Engines that are not installed are said to be missing, and how to install them."""

import subprocess
import sys

from tests.cases import cases

PROGRAM = """
import sys
sys.modules[{name!r}] = None
import headwater.{name}
"""


@cases("name", ["polars", "datafusion"])
def test_an_engine_that_is_missing_is_named_with_its_extra(name):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name)],
        check=False,
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 1
    assert f"pip install 'headwater[{name}]'" in ended.stderr


def test_the_parser_of_pipelines_is_named_with_its_extra():
    program = "import sys\nsys.modules['sqlglot'] = None\nimport headwater.pipelines.sql.parse\n"

    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    assert ended.returncode == 1
    assert "pip install 'headwater[sql]'" in ended.stderr
