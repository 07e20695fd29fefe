"""The same models built under different conditions: what their outputs are, by content.

At full size: `cd tests && ../.venv/bin/python -m support.reproducible [--few | --only CONDITION …] [NAME …]`, for all
models of the zoo or those of these names, under all conditions, under few, which differ in everything, or under these.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rules_executorch import rules
from rules_executorch.builder.core.digest import digest_file

from support.build_command import BUILD, environment
from support.other_user import as_other_user, give

_HERE = Path(__file__).resolve().parent
_PACKAGE = Path(rules.__file__).resolve().parents[1]
_EXAMPLES = next((f for f in (_HERE.parents[1] / "examples", _HERE.parents[2] / "examples") if f.is_dir()), None)
_PRODUCT = ("backends", "builder", "lowering", "rules", "runtime")

_FACTORIES = """
import sys
from rules_executorch.lowering.model import Method, Model
from support import zoo

def _factory(name):
    def make():
        case = zoo.make(name)
        return Model(case.module, {"forward": Method(case.inputs, dynamic_shapes=case.dynamic_shapes)})
    return make

for _name in %r:
    setattr(sys.modules[__name__], _name, _factory(_name))
"""

_BUILD = """
load("@rules_executorch//rules:defs.bzl", "executorch_model")
py_library(name = "py", srcs = glob(["**/*.py"]), deps = ["@rules_executorch//lowering"])
[executorch_model(name = n, model = "factories:" + n, deps = [":py"], methods = {"forward": None}) for n in %r]
"""


@dataclass(frozen=True)
class Condition:
    """What must not matter. `folder` is where the workspace is, below the test's own; `home` the user's home.

    `seed` is the hash seed of the command; `options` are those of the command line. `other_user`: all is another
    user's, who runs the command; root alone can do that.
    """

    name: str
    folder: str = "w"
    home: str = "home"
    seed: str = "0"
    options: tuple[str, ...] = ()
    other_user: bool = False


OTHER_USER = Condition("another user", "theirs", other_user=True)
CONDITIONS = (
    Condition("another folder and home", "another/folder with spaces/and a longer name", "somebody else's"),
    OTHER_USER,
    *(Condition(f"hash seed {seed}", seed=seed) for seed in ("1", "2", "3", "4")),
    Condition("one action at a time", options=("-j1",)),
    Condition("no workers", options=("--noworkers",)),
    Condition("landlock", options=("--sandbox=landlock",)),
    Condition("forest", options=("--sandbox=forest",)),
    Condition("forest without workers", options=("--sandbox=forest", "--noworkers")),
    Condition("each action twice, with another seed and other threads", options=("--check_determinism",)),
)
# Two builds that differ from the first one in everything.
FEW_CONDITIONS = (
    Condition(
        "all different", "another/folder with spaces", "somebody else's", "3", ("-j1", "--noworkers", "--sandbox=landlock")
    ),
    Condition("another sandbox", "elsewhere", "a third one's", "4", ("--sandbox=forest",)),
)


class Bench:
    """Builds the example's model and models of the zoo below the folder `root`, with rules_executorch as it is now.

    `sandboxes` says which each build used, by its condition's name.
    """

    def __init__(self, root: Path, names: Sequence[str]):
        self._root = root
        self.sandboxes: dict[str, str] = {}
        ignored = shutil.ignore_patterns("__pycache__", "build-out")
        for folder in _PRODUCT:
            shutil.copytree(_PACKAGE / folder, root / "rules_executorch" / folder, ignore=ignored)
        (root / "rules_executorch/WORKSPACE").write_text('workspace(name = "rules_executorch")\n')
        source = root / "source"
        self.targets = ["//zoo:all"]
        shutil.copytree(_HERE / "zoo", source / "zoo/support/zoo", ignore=ignored)
        (source / "zoo/support/__init__.py").write_text("")
        (source / "zoo/factories.py").write_text(_FACTORIES % (list(names),))
        (source / "zoo/BUILD").write_text(_BUILD % (list(names),))
        if _EXAMPLES is not None:
            shutil.copytree(_EXAMPLES / "models", source / "models", ignore=ignored)
            self.targets.append("//models:encoder_decoder")
        path = root / "rules_executorch"
        repository = f'local_repository(name = "rules_executorch", path = "{path}")'
        (source / "WORKSPACE").write_text(f'workspace(name = "examples")\n{repository}\n')

    def workspace(self, condition: Condition) -> Path:
        """Where the workspace of a condition is."""
        return self._root / condition.name.replace(" ", "_") / condition.folder

    def build(self, condition: Condition) -> dict[str, str]:
        """The digests of all outputs, by path, built anew. Raises AssertionError where that fails."""
        workspace = self.workspace(condition)
        shutil.copytree(self._root / "source", workspace)
        home = self._root / condition.name.replace(" ", "_") / condition.home
        home.mkdir(parents=True)
        variables = {"HOME": str(home), "USER": condition.home, "PYTHONHASHSEED": condition.seed}
        command = [*BUILD, *condition.options, *self.targets]
        if condition.other_user:
            self._root.chmod(0o755)
            give(home.parent)
            command = as_other_user(command, [self._root, Path(sys.prefix), Path(sys.base_prefix), _PACKAGE])
        result = subprocess.run(
            command,
            cwd=workspace,
            env=environment(home / "cache", **variables),
            capture_output=True,
            text=True,
            timeout=36000,
        )
        assert result.returncode == 0, f"{condition.name}:\n{result.stdout}\n{result.stderr}"
        said = re.search(r"^sandbox: (\w+)", result.stderr, re.MULTILINE)
        self.sandboxes[condition.name] = said[1] if said else "namespaces"
        return digests(workspace / "build-out")


def digests(folder: Path) -> dict[str, str]:
    """The content of every file that a build made, by its path; the builder's own are left out."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    found = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: digest_file(path).hash for name, path in found.items() if not name.startswith(".state/")}


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The files that are in one only, or differ."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def main() -> int:
    """Build everything under all conditions; whether anything differed."""
    from support import zoo

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(zoo.CASES))
    parser.add_argument("--few", action="store_true", help="two builds that differ from the first in everything")
    parser.add_argument("--only", action="append", metavar="CONDITION", help="of all conditions, those of these names")
    options = parser.parse_args()
    conditions = FEW_CONDITIONS if options.few else [c for c in CONDITIONS if options.only is None or c.name in options.only]
    if os.getuid() != 0:
        print(f"{OTHER_USER.name}: left out, since only root can become one")
        conditions = [condition for condition in conditions if not condition.other_user]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.names)
        began = time.monotonic()
        first = bench.build(Condition("first"))
        print(f"first: {len(first)} files of {len(options.names)} models and the example{_since(began)}", flush=True)
        for condition in conditions:
            began = time.monotonic()
            differing = differences(first, bench.build(condition))
            wrong += len(differing)
            sandbox = bench.sandboxes[condition.name]
            print(f"{condition.name}: {', '.join(differing) or 'the same bytes'} ({sandbox}){_since(began)}", flush=True)
            shutil.rmtree(bench.workspace(condition).parents[len(Path(condition.folder).parts) - 1])
    return 1 if wrong else 0


def _since(began: float) -> str:
    return f" ({time.monotonic() - began:.0f} s)"


if __name__ == "__main__":
    sys.exit(main())
