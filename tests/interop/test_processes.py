"""Nothing that a run has started outlives it."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

ENDS_WITHIN_MS = 30_000
STARTER = """
import sys, time
from pathlib import Path
from scripts.fluss_processes import ProcessGroup

sleeper = ProcessGroup(Path(sys.argv[1])).start("sleeper", ["sleep", "600"])
print(sleeper.pid, flush=True)
time.sleep(600)
"""


def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path: Path):
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        sleeper = os.pidfd_open(int(starter.stdout.readline()))
        ended = select.poll()
        ended.register(sleeper, select.POLLIN)

        starter.send_signal(signal.SIGKILL)

        assert ended.poll(ENDS_WITHIN_MS)
    os.close(sleeper)
