"""An independent look at the files of a data directory that is not open."""
