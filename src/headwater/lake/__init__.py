"""Lake formats behind one interface: tables of open files that every engine can read."""
