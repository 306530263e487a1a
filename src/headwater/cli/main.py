"""The complete `headwater` command."""

from headwater.cli.commands import COMMANDS, app_of

app = app_of(COMMANDS)
