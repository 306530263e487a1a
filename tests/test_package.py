"""What the package offers by name, and what importing it costs."""

import subprocess
import sys

import pytest

import headwater
from tests.cases import cases


@cases("name", headwater.__all__)
def test_every_public_name_is_there(name):
    assert getattr(headwater, name) is not None
    assert name in dir(headwater)


def test_every_lazy_name_is_public_or_a_module():
    assert set(headwater._HOMES) - set(headwater.__all__) == {"aio"}
    assert headwater.aio.open is not headwater.open


def test_an_unknown_name_is_told_as_python_does():
    with pytest.raises(AttributeError, match="no attribute 'close'"):
        _ = headwater.close


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, headwater; print(sorted({'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[]"
