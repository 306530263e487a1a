"""Run the `headwater` command with `python -m headwater`."""

from headwater.cli.entry import main

main()
