"""Settings of all property tests: a result depends on the sources alone, and nothing is written beside them.

Neither how busy a machine is nor chance decides: the same examples are tried in every run. For others,
HYPOTHESIS_PROFILE=explore draws them anew each time.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "project", deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", parent=settings.get_profile("project"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "project"))
