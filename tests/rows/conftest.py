from hypothesis import HealthCheck, settings

# A loaded machine is no reason to fail, and a draw of nested rows takes its time.
settings.register_profile("rows", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rows")
