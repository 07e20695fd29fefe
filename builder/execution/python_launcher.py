"""What the toolchain `python` runs: `python -S -s launcher.py SITE… -- [--import-root=DIR …] MODULE [ARG …]`.

Runs MODULE as `python -m` would, with sys.path = the import roots (relative to the folder that it
runs in), the standard library, and the toolchain's site-packages. Of the distribution
`rules_executorch` only what lies below the import roots can be imported: what an action uses, it
declares. Imports nothing of this project's, since it runs in processes that belong to others.
"""

import os
import sys
from importlib.machinery import ModuleSpec

HIDDEN = "rules_executorch"


class OnlyDeclared:
    """Finds the package `rules_executorch` among the import roots, and nowhere else."""

    def __init__(self, roots):
        self.roots = roots

    def find_spec(self, name, path=None, target=None):
        if name != HIDDEN:
            return None
        folders = self.folders()
        if not folders:
            raise ModuleNotFoundError(
                "nothing of rules_executorch is among the inputs: add what is imported to `deps`, for example "
                "@rules_executorch//lowering",
                name=name,
            )
        # A list of folders that stays as it is: a namespace package would look through sys.path again.
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = folders
        return spec

    def folders(self):
        """Where the package's parts are."""
        folders = [os.path.join(root, HIDDEN) for root in self.roots]
        return [folder for folder in folders if os.path.isdir(folder)]


def main(argv):
    separator = argv.index("--")
    site_packages, rest = argv[:separator], argv[separator + 1 :]
    roots = []
    while rest and rest[0].startswith("--import-root="):
        roots.append(os.path.abspath(rest.pop(0).partition("=")[2]))
    if not rest:
        sys.exit("python toolchain: no module to run")
    module = rest[0]
    # The interpreter put this file's folder first.
    sys.path[:] = roots + sys.path[1:] + site_packages
    sys.meta_path.insert(0, OnlyDeclared(roots))
    # As `python -m` leaves it: run_module puts the module's file in the first place.
    sys.argv[:] = rest
    # Only now, so that what runpy imports is not found below this file's folder.
    import runpy

    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
