"""An independent check of the files of a data directory that is not open."""
