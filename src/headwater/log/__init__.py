"""One bucket's log: segments, index, recovery, writer state, retention."""
