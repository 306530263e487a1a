"""Settings for the whole suite."""

import os

from hypothesis import HealthCheck, settings

# The machine may be shared and slow: no example is judged by its duration. The same code passes
# or fails each time; `make torture` looks for examples that were never tried.
settings.register_profile(
    "headwater",
    deadline=None,
    derandomize="HEADWATER_RANDOM" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("headwater")
