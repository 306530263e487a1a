"""What the changes of a log leave: the last change of each key, for a reader to merge.

Both forms have the same methods, and neither changes when its fold goes on:

- `key_count`, `byte_count`, `is_spilled`: how many keys were changed, what they take, and whether
  in files.
- `live(columns)`: the rows that are there after the changes, in no order.
- `without_changed(rows)`: the rows of a lake, which hold the columns of the key, whose key was not
  changed. In memory, they come in their order; with changes in files, in no order.
- `changed_keys()`: the primary key of every changed row, each once. It is a table for engines to
  join with, so all keys are in memory at once even where the changes are in files: what Arrow
  takes for them, e.g. 8 MB for a million BIGINTs.
- `may_touch(file)`: whether a changed row may be in a file of the lake; True if not known.
- `parts()`: the changes themselves, no key twice, as many at a time as memory should hold.

Live rows and rows that were not changed, together, are the rows of the table.
"""

from typing import TypeAlias

from headwater.client.union.merge.in_files import FoldedInFiles
from headwater.client.union.merge.in_memory import FoldedInMemory

Folded: TypeAlias = FoldedInMemory | FoldedInFiles
