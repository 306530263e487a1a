"""The `headwater` command, whole."""

from headwater.cli.commands import COMMANDS, app_of

app = app_of(COMMANDS)
