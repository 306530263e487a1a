"""The memory that a process may take, as control groups and the machine tell it."""

import pytest

from headwater.runtime.memory import anonymous_bytes, memory_there_is

MACHINE = "MemTotal:       16384 kB\nMemFree:        1 kB\n"
MIB = 1024 * 1024
UNLIMITED = str(2**63 - 4096)


@pytest.fixture
def system(tmp_path):
    """Write the files of a system; names are paths below its root."""

    def write(files: dict[str, str]):
        for name, text in {"proc/meminfo": MACHINE, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def test_without_a_group_it_is_the_machine(system):
    assert memory_there_is(system({})) == 16 * MIB


def test_the_second_version_is_asked_from_the_group_up_to_the_root(system):
    root = system(
        {
            "proc/self/cgroup": "0::/pod/app\n",
            "sys/fs/cgroup/pod/app/memory.max": "max\n",
            "sys/fs/cgroup/pod/memory.max": f"{8 * MIB}\n",
        }
    )

    assert memory_there_is(root) == 8 * MIB


def test_a_container_sees_its_own_group_as_the_root(system):
    for files in (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": str(4 * MIB)},
        {"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/memory.max": str(4 * MIB)},
        {
            "proc/self/cgroup": "4:memory:/docker/abc\n0::/\n",
            "sys/fs/cgroup/memory.max": "max",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": str(4 * MIB),
        },
    ):
        assert memory_there_is(system(files)) == 4 * MIB


def test_the_first_version_is_asked_too_and_no_limit_is_none(system):
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/a/b\n",
        "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": UNLIMITED,
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": UNLIMITED,
    }

    assert memory_there_is(system(files)) == 16 * MIB
    limited = {**files, "sys/fs/cgroup/memory/a/memory.limit_in_bytes": str(2 * MIB)}
    assert memory_there_is(system(limited)) == 2 * MIB


def test_damaged_files_are_no_limit(system):
    root = system({"proc/self/cgroup": "nonsense\n::\n", "sys/fs/cgroup/memory.max": "much"})

    assert memory_there_is(root) == 16 * MIB


def test_what_is_taken_is_told_where_the_system_tells_it(tmp_path):
    assert anonymous_bytes() > MIB
    assert anonymous_bytes(tmp_path) == 0
