"""Programs that long tests use: what is missing of them, and installing it where we may."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence

# By the program that shows that a Debian package is there.
PACKAGES = {
    "strace": "strace",
    "faketime": "faketime",
    "nft": "nftables",
    "ip": "iproute2",
    "mount": "mount",
}
_PLACES = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
INSTALL_S_MAX = 600


def missing(tools: Iterable[str]) -> tuple[str, ...]:
    """Return the programs that are not there."""
    return tuple(tool for tool in tools if shutil.which(tool, path=_PLACES) is None)


def ensure(tools: Iterable[str]) -> None:
    """Install what is missing, if we may; what cannot be installed stays missing."""
    packages = sorted({PACKAGES[tool] for tool in missing(tools)})
    if not packages or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    print(f"installs {', '.join(packages)}", flush=True)
    install = ["apt-get", "install", "-y", "-q", *packages]
    # On a new machine the lists of packages are empty or old.
    if not run_quietly(install) and run_quietly(["apt-get", "update", "-q"]):
        run_quietly(install)


def run_quietly(command: Sequence[str], *, within_s: float = INSTALL_S_MAX) -> bool:
    """Run a command, and tell whether it ended well, and in time."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=within_s,
        )
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command)} took longer than {within_s} s", flush=True)
        return False
    return done.returncode == 0


def why_not(tools: Iterable[str]) -> str:
    """Return why tests with these tools cannot be run; empty if they can."""
    wanted = tuple(tools)
    if not wanted:
        return ""
    if lacking := missing(wanted):
        return f"no {', '.join(lacking)}: apt-get install {' '.join(PACKAGES[t] for t in lacking)}"
    return "" if os.geteuid() == 0 else "needs root"
