"""The pages, one file for each group; a handler collects facts and names a template."""
