"""Clock, randomness, threads and background tasks: the only place that uses the system's own."""
