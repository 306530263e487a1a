"""Settings for the whole suite."""

from hypothesis import HealthCheck, settings

# The machine may be shared and slow: no example is judged by its duration.
settings.register_profile("headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headwater")
