"""`python -I -S launch.py COMMAND [ARGUMENT …]`: what `buildw` starts in a checkout.

An editable installation is found through a module that takes Python longer to load than a build in which nothing
changed takes in all. So that build is answered first, from this folder; for anything else, COMMAND takes over.
"""

import os
import sys
import types

package = types.ModuleType("rules_executorch")
package.__path__ = [os.path.dirname(os.path.dirname(os.path.realpath(__file__)))]
sys.modules["rules_executorch"] = package

from rules_executorch.builder.commands import unchanged  # noqa: E402

if not unchanged.answer(sys.argv[2:]):
    os.execv(sys.argv[1], sys.argv[1:])
