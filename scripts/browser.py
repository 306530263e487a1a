"""Chromium, its driver, Selenium and axe-core, for the browser half of the console's tests."""

import shutil
import subprocess
import sys
from pathlib import Path

AXE_VARIABLE = "HEADWATER_AXE"
PROGRAMS = {"chromium": "chromium", "chromedriver": "chromium-driver"}
"""Each program, and the Debian package that it is in."""
SELENIUM = "selenium>=4.30,<5"
AXE = "axe-playwright-python>=0.1.8"  # it carries axe.min.js, which is all that is used of it


class BrowserMissingError(RuntimeError):
    """There is no browser, and none can be installed."""


def ensure_browser() -> None:
    """Install the browser and its driver from Debian where they are missing."""
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise BrowserMissingError(f"Install {', '.join(missing)}.")
    subprocess.run(["apt-get", "update", "-qq"], check=False)
    command = ["apt-get", "install", "-y", "-qq", *missing]
    if subprocess.run(command, check=False).returncode:
        raise BrowserMissingError(f"apt-get could not install {', '.join(missing)}.")


def fetch_selenium(work: Path) -> dict[str, str]:
    """Install what drives the browser in a place of its own, once, and return the variables."""
    place = work / "browser"
    axe = place / "axe_playwright_python" / "axe.min.js"
    if not axe.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(place)]
        subprocess.run([*pip, SELENIUM], check=True)
        subprocess.run([*pip, "--no-deps", AXE], check=True)
    return {AXE_VARIABLE: str(axe), "PYTHONPATH": str(place)}
