"""What pages show, collected without HTTP: functions of a client that return frozen values."""
