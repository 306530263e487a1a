"""Run the `headwater` command with `python -m headwater`."""

from headwater.cli.main import app

app()
