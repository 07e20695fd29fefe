"""Settings of all property tests: a result depends on the sources alone, and nothing is written beside them.

Neither how busy a machine is nor chance decides: the same examples are tried in every run. For others,
HYPOTHESIS_PROFILE=explore draws them anew each time.
"""

import importlib.util
import os
from pathlib import Path

from hypothesis import HealthCheck, settings

settings.register_profile(
    "project", deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", parent=settings.get_profile("project"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "project"))

# Where the tests are an action, the package is among its inputs and not installed: processes of theirs find it, too.
_package = Path(next(iter(importlib.util.find_spec("rules_executorch").submodule_search_locations)))
if _package.name == "rules_executorch":
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_package.parent), os.environ.get("PYTHONPATH")]))
