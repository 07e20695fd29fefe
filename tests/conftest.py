"""Settings of all property tests: how busy a machine is decides nothing, and nothing is written beside the sources."""

from hypothesis import HealthCheck, settings

settings.register_profile("project", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")
