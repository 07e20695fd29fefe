"""Actions: one command with declared inputs and outputs, as analysis makes and execution runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, order=True)
class Artifact:
    """A file that actions read or write.

    `exec_path` is where an action sees it, relative to the folder that it runs in:
    `<repository name>/<package>/<file>`, whichever workspace is the main one, so that an action
    has the same key from every workspace. `source` is the file on disk for a source file, and
    None for what an action makes.
    """

    exec_path: str
    source: Path | None = None

    def __post_init__(self) -> None:
        # By parts rather than by a PurePath: there are as many artifacts as files.
        if not all(part and part != "." and part != ".." for part in self.exec_path.split("/")):
            raise ValueError(f"an artifact's path must be relative and normal, not {self.exec_path!r}")

    def __hash__(self) -> int:
        # A string remembers its hash, a Path does not; and actions by the thousand have hundreds of inputs in common.
        return hash(self.exec_path)


@dataclass(frozen=True)
class Toolchain:
    """A tool that actions run and do not declare file by file.

    `command` starts it on this machine (empty: it is only trees of files); `identity` says what
    it is on any machine (name, version, target), and is all of it that enters a key. `trees`
    are folders of this machine that actions see at `.toolchain/<tree name>/` below the folder
    that they run in, so that no argv holds a path of this machine. `visible` are files and folders
    of this machine that they see where they are, besides the system's own.
    """

    name: str
    command: tuple[str, ...]
    identity: str
    trees: Mapping[str, Path] = field(default_factory=dict)
    visible: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resources:
    """What an action needs of the machine: processors, and memory in MiB."""

    cpus: int = 1
    memory_mib: int = 512


@dataclass(frozen=True)
class Preload:
    """Code that many Python actions begin by importing, and that a worker may have imported once for all of them.

    `steps` are "module", which is imported, or "module:function", which is then called without arguments, once or
    several times; they depend on nothing but the toolchain, `inputs`, which are inputs of the action as well, and the
    preloads before this one. `import_roots` are folders of the execution root from which they are imported.
    """

    steps: tuple[str, ...]
    import_roots: tuple[str, ...]
    inputs: tuple[Artifact, ...]


@dataclass(frozen=True)
class Imports:
    """Which Python sources an action needs: of its inputs `sources`, those that importing `module` may read.

    `roots` are the folders of sys.path, relative to the execution root. Of the sources, `used` are needed however
    they are imported, and so is what they import.
    """

    module: str
    roots: tuple[str, ...]
    sources: tuple[Artifact, ...]
    used: tuple[Artifact, ...] = ()


@dataclass(frozen=True)
class Action:
    """One step of a build.

    `argv` follows the command of `toolchain` ("" for none: argv[0] is an input); `also` names
    further toolchains whose trees the action sees. `environment` is all that the process gets besides
    the fixed variables that every action has. `inputs` and `outputs` are in the order given,
    each once. `owner` is the label of the target that asked for it, for messages only: it is in
    no key.

    `imports`, if given, says which of its inputs matter. The others are neither seen by the action nor part of
    its key, so that changing them does not run it again.

    `preloads` change how soon a Python action is done, and nothing else: they are in no key. Nor is
    `keeps_for`: where there is any, the action finds at `.toolchain/kept/`, read-only, the files that earlier
    actions left in `kept/` in their home, with the same toolchain and the same content of these inputs. It
    verifies what it finds, and makes the same outputs with it and without.
    """

    mnemonic: str
    toolchain: str
    argv: tuple[str, ...]
    inputs: tuple[Artifact, ...]
    outputs: tuple[Artifact, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    resources: Resources = Resources()
    owner: str = ""
    imports: Imports | None = None
    preloads: tuple[Preload, ...] = ()
    keeps_for: tuple[Artifact, ...] = ()

    def __post_init__(self) -> None:
        if not self.outputs:
            raise ValueError(f"{self.mnemonic} of {self.owner} declares no output")
        for output in self.outputs:
            if output.source is not None:
                raise ValueError(f"{self.mnemonic} of {self.owner} would overwrite source {output.exec_path}")
        for name, group in (("inputs", self.inputs), ("outputs", self.outputs)):
            paths = [a.exec_path for a in group]
            if len(set(paths)) != len(paths):
                raise ValueError(f"{self.mnemonic} of {self.owner} repeats {name}")
        if self.imports and not {*self.imports.used} <= {*self.imports.sources} <= {*self.inputs}:
            raise ValueError(f"{self.mnemonic} of {self.owner}: its imports are not among its inputs")


@dataclass(frozen=True)
class RunSpec:
    """How a built target is run or tested: a command over files laid out as in an action.

    `argv` follows the toolchain's command ("" for none: argv[0] is a runfile). `runfiles` are
    the files that it sees, at their exec_paths; `also` as in Action. `timeout_seconds` is how
    long a test may take.
    """

    argv: tuple[str, ...]
    runfiles: tuple[Artifact, ...]
    toolchain: str = ""
    also: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: int = 300
