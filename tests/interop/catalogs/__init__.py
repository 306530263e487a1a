"""Lakes whose catalogs are servers."""
