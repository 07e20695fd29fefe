"""Where things are in a workspace: sources, outputs below `build-out/`, and the builder's own state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.action import Artifact

OUTPUT_FOLDER = "build-out"


@dataclass(frozen=True)
class Layout:
    """The paths of a main workspace with root folder `root` and name `name`."""

    root: Path
    name: str

    @property
    def outputs(self) -> Path:
        """The folder of all outputs."""
        return self.root / OUTPUT_FOLDER

    @property
    def state(self) -> Path:
        """The builder's own files; nobody else reads or writes them."""
        return self.outputs / ".state"

    @property
    def machine(self) -> Path:
        """What builds found out about this machine and remember."""
        return self.state / "machine"

    @property
    def imports(self) -> Path:
        """What sources were found to import."""
        return self.state / "imports"

    @property
    def staging(self) -> Path:
        """Outputs on their way to their places: on one file system with these, emptied by every build."""
        return self.state / "staging"

    def output(self, exec_path: str) -> Path:
        """Where the output `exec_path` appears: other repositories' are below `external/`."""
        return self.root / self.relative_output(exec_path)

    def relative_output(self, exec_path: str) -> str:
        """The same, relative to the root."""
        repository, _, rest = exec_path.partition("/")
        return f"{OUTPUT_FOLDER}/{rest if repository == self.name else f'external/{exec_path}'}"

    def file(self, artifact: Artifact) -> Path:
        """Where a source or an output is on disk."""
        return artifact.source if artifact.source is not None else self.output(artifact.exec_path)

    def path(self, artifact: Artifact) -> str:
        """The same as text, which is quicker where there are thousands."""
        return f"{self.root}/{self.relative_output(artifact.exec_path)}" if artifact.source is None else str(artifact.source)

    def stamp(self, exec_path: str) -> Path:
        """The empty file whose time tells ninja when the action whose first output is `exec_path` last changed one."""
        return self.root / self.relative_stamp(exec_path)

    def relative_stamp(self, exec_path: str) -> str:
        """The same, relative to the root."""
        return f"{OUTPUT_FOLDER}/.state/done/{exec_path}"

    def record(self, exec_path: str) -> Path:
        """What is known of the last run of the action whose first output is `exec_path`."""
        return self.state / "records" / f"{exec_path}.json"
