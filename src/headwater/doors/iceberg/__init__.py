"""An Iceberg REST catalog, read only, whose tables show lake and log as one."""
