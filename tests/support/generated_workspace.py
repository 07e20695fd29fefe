"""Workspaces made of genrules by chance, edited by chance, with outputs that can be told without building.

A target's output is the text of its sources, one after the other, and a line with the word that its macro adds.
So what a clean build would make is known at once, and incremental builds can be compared with it by the thousand.
A target that joins others' outputs fails while one of its sources has the word `spoiled` in it.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_MACRO = '''\
def join(name, srcs):
    native_join(name = name, srcs = srcs)

def native_join(name, srcs):
    genrule(
        name = name,
        srcs = srcs,
        outs = [name + ".out"],
        cmd = "case '$(SRCS)' in *.out*) if grep -q spoiled $(SRCS); then exit 1; fi;; esac; cat $(SRCS) > $@; echo {word} >> $@",
        visibility = ["//visibility:public"],
    )
'''

# Edits add no more than this, so that the ten-thousandth build takes as long as the first.
_PACKAGES, _FILES, _TARGETS = 4, 4, 3


@dataclass
class Package:
    """Source files by name, and targets: the labels (":x", "//p:x", "x.txt") that each joins."""

    files: dict[str, str] = field(default_factory=dict)
    targets: dict[str, list[str]] = field(default_factory=dict)
    comment: str = ""


class GeneratedWorkspace:
    """A workspace at `root` whose files follow from `packages` and `word`, and from nothing else.

    Every package has a target `all` that joins whatever its glob() finds. A class since edits change it.
    """

    def __init__(self, root: Path, seed: int, packages: int = 3, targets: int = 2):
        self.root = root
        self.random = random.Random(seed)
        self.word = "first"
        self.packages: dict[str, Package] = {}
        self._count = 0
        for _ in range(packages):
            self._add_package()
            for _ in range(targets):
                self._add_target()
        self._on_disk: dict[Path, str] = {}
        self.write()

    def expected(self) -> dict[str, str]:
        """The text of every output, by its path below build-out."""
        known: dict[tuple[str, str], str] = {}
        return {
            f"{package}/{name}.out": self._output(package, name, known)
            for package in self.packages
            for name in ("all", *self.packages[package].targets)
        }

    def found(self) -> dict[str, str | None]:
        """What there is of the outputs; None for one that is missing."""
        return {path: _text(self.root / "build-out" / path) for path in self.expected()}

    def write(self) -> None:
        """Bring the files on disk up to date; those that stay as they are are not touched."""
        wanted = self._files()
        for path in self._on_disk.keys() - wanted.keys():
            path.unlink()
        for package in {path.parent for path in self._on_disk} - {path.parent for path in wanted}:
            shutil.rmtree(package)
        for path, text in wanted.items():
            if self._on_disk.get(path) != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self._on_disk = wanted

    def edit(self) -> str:
        """Make one random change, on disk as well; returns what it was."""
        edits: list[Callable[[], str | None]] = [
            self._edit_file, self._edit_file, self._replace_by_older, self._swap_files, self._add_file, self._remove_file,
            self._rename_file, self._edit_macro, self._add_target, self._remove_target, self._rename_target,
            self._edit_sources, self._add_package, self._remove_package, self._comment, self._touch,
            self._delete_output, self._tamper_with_output, self._delete_outputs,
        ]  # fmt: skip
        while True:
            done = self.random.choice(edits)()
            if done is not None:
                self.write()
                return done

    def spoil(self) -> Callable[[], None]:
        """Write `spoiled` to a file; returns what takes it back."""
        package, file = self._any_file()
        files = self.packages[package].files
        before, files[file] = files[file], "spoiled\n"
        self.write()

        def take_back() -> None:
            files[file] = before
            self.write()

        return take_back

    def must_fail(self) -> bool:
        """Whether what is spoiled has reached a target that joins outputs."""
        known: dict[tuple[str, str], str] = {}
        return any(
            "spoiled" in self._output(package, name, known) and any(":" in source for source in sources)
            for package, contents in self.packages.items()
            for name, sources in contents.targets.items()
        )

    def _output(self, package: str, name: str, known: dict[tuple[str, str], str]) -> str:
        if (package, name) not in known:
            contents = self.packages[package]
            if name == "all":
                text = "".join(contents.files[file] for file in sorted(contents.files))
            else:
                text = "".join(self._source(package, label, known) for label in contents.targets[name])
            known[package, name] = f"{text}{self.word}\n"
        return known[package, name]

    def _source(self, package: str, label: str, known: dict[tuple[str, str], str]) -> str:
        if label.startswith("//"):
            other, _, name = label[2:].partition(":")
            return self._output(other, name, known)
        if label.startswith(":"):
            return self._output(package, label[1:], known)
        return self.packages[package].files[label]

    def _files(self) -> dict[Path, str]:
        files = {
            self.root / "WORKSPACE": 'workspace(name = "w")\n',
            self.root / "m/BUILD": "",
            self.root / "m/m.bzl": _MACRO.format(word=self.word),
        }
        for name, package in self.packages.items():
            targets = [f'join(name = "{t}", srcs = {srcs!r})\n' for t, srcs in package.targets.items()]
            head = f'load("//m:m.bzl", "join")\n{package.comment}\njoin(name = "all", srcs = glob(["*.txt"]))\n'
            files[self.root / name / "BUILD"] = head + "".join(targets)
            files.update({self.root / name / file: text for file, text in package.files.items()})
        return files

    def _new_name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def _new_text(self) -> str:
        return f"{self.random.randrange(10**6)}\n"

    def _any_package(self) -> str:
        return self.random.choice(list(self.packages))

    def _any_file(self) -> tuple[str, str]:
        package = self._any_package()
        return package, self.random.choice(list(self.packages[package].files))

    def _any_target(self) -> tuple[str, str] | None:
        targets = [(package, name) for package, contents in self.packages.items() for name in contents.targets]
        return self.random.choice(targets) if targets else None

    def _labels(self, package: str, before: int | None = None) -> list[str]:
        """What a target of `package` may join: files, and targets that were made earlier, so that there is no cycle."""
        labels = list(self.packages[package].files)
        for other, contents in self.packages.items():
            for name in contents.targets:
                if before is None or int(name[1:]) < before:
                    labels.append(f":{name}" if other == package else f"//{other}:{name}")
        return labels

    def _users(self, package: str, name: str) -> list[tuple[str, list[str]]]:
        """The packages and sources of targets that join a target or file."""
        return [
            (other, sources)
            for other, contents in self.packages.items()
            for sources in contents.targets.values()
            if f"//{package}:{name}" in sources or (other == package and {f":{name}", name} & set(sources))
        ]

    def _edit_file(self) -> str:
        package, file = self._any_file()
        self.packages[package].files[file] = self._new_text()
        return f"edited {package}/{file}"

    def _replace_by_older(self) -> str:
        package, file = self._any_file()
        self.packages[package].files[file] = self._new_text()
        self.write()
        path = self.root / package / file
        other = path.with_name("older")
        other.write_text(path.read_text())
        os.utime(other, (1_000_000_000, 1_000_000_000))
        os.replace(other, path)
        return f"replaced {package}/{file} by an older file"

    def _swap_files(self) -> str | None:
        (package, file), (other, second) = self._any_file(), self._any_file()
        if (package, file) == (other, second):
            return None
        one, two = self.root / package / file, self.root / other / second
        os.rename(one, self.root / "swapped")
        os.rename(two, one)
        os.rename(self.root / "swapped", two)
        files, others = self.packages[package].files, self.packages[other].files
        files[file], others[second] = others[second], files[file]
        self._on_disk = self._files()
        return f"swapped {package}/{file} and {other}/{second}"

    def _add_file(self) -> str | None:
        package, name = self._any_package(), f"{self._new_name('f')}.txt"
        if len(self.packages[package].files) >= _FILES:
            return None
        self.packages[package].files[name] = self._new_text()
        return f"added {package}/{name}"

    def _remove_file(self) -> str | None:
        package, file = self._any_file()
        if len(self.packages[package].files) < 2 or self._users(package, file):
            return None
        del self.packages[package].files[file]
        return f"removed {package}/{file}"

    def _rename_file(self) -> str:
        package, file = self._any_file()
        name = f"{self._new_name('f')}.txt"
        os.rename(self.root / package / file, self.root / package / name)
        contents = self.packages[package]
        text = contents.files.pop(file)
        contents.files[name] = text
        for sources in contents.targets.values():
            sources[:] = [name if source == file else source for source in sources]
        self._on_disk[self.root / package / name] = self._on_disk.pop(self.root / package / file)
        return f"renamed {package}/{file} to {name}"

    def _edit_macro(self) -> str:
        self.word = f"word{self.random.randrange(1000)}"
        return "edited the macro"

    def _add_target(self) -> str | None:
        package = self._any_package()
        if len(self.packages[package].targets) >= _TARGETS:
            return None
        labels = self._labels(package)
        name = self._new_name("t")
        self.packages[package].targets[name] = self.random.sample(labels, min(len(labels), self.random.randint(1, 3)))
        return f"added {package}:{name}"

    def _remove_target(self) -> str | None:
        found = self._any_target()
        if found is None or self._users(*found):
            return None
        del self.packages[found[0]].targets[found[1]]
        return f"removed {found[0]}:{found[1]}"

    def _rename_target(self) -> str | None:
        found = self._any_target()
        if found is None:
            return None
        package, name = found
        # The number says before what it may stand, and stays.
        new = ("u" if name[0] == "t" else "t") + name[1:]
        for _, sources in self._users(package, name):
            sources[:] = [
                s[: -len(name)] + new if s in (f":{name}", f"//{package}:{name}") else s for s in sources
            ]
        targets = self.packages[package].targets
        self.packages[package].targets = {new if t == name else t: sources for t, sources in targets.items()}
        return f"renamed {package}:{name} to {new}"

    def _edit_sources(self) -> str | None:
        found = self._any_target()
        if found is None:
            return None
        labels = self._labels(found[0], before=int(found[1][1:]))
        sources = self.random.sample(labels, min(len(labels), self.random.randint(1, 3)))
        self.packages[found[0]].targets[found[1]] = sources
        return f"other sources for {found[0]}:{found[1]}"

    def _add_package(self) -> str | None:
        if len(self.packages) >= _PACKAGES:
            return None
        name = self._new_name("p")
        self.packages[name] = Package({f"{self._new_name('f')}.txt": self._new_text()})
        return f"added package {name}"

    def _remove_package(self) -> str | None:
        name = self._any_package()
        if len(self.packages) < 3 or any(self._users(name, t) for t in self.packages[name].targets):
            return None
        del self.packages[name]
        return f"removed package {name}"

    def _comment(self) -> str:
        package = self._any_package()
        self.packages[package].comment = f"# {self.random.random()}"
        return f"a comment in {package}/BUILD"

    def _touch(self) -> str:
        package, file = self._any_file()
        os.utime(self.root / package / file)
        return f"touched {package}/{file}"

    def _any_output(self) -> Path | None:
        outputs = [path for path in self.expected() if (self.root / "build-out" / path).exists()]
        return self.root / "build-out" / self.random.choice(outputs) if outputs else None

    def _delete_output(self) -> str | None:
        if output := self._any_output():
            output.unlink()
        return output and f"deleted {output.name}"

    def _tamper_with_output(self) -> str | None:
        """Replace an output by another file of the same size and time."""
        output = self._any_output()
        if output is None:
            return None
        times, text = output.stat(), output.read_text()
        output.unlink()
        output.write_text("x" * len(text))
        os.utime(output, ns=(times.st_atime_ns, times.st_mtime_ns))
        return f"tampered with {output.name}"

    def _delete_outputs(self) -> str | None:
        output = self._any_output()
        if output is None or self.random.random() < 0.7:
            return None
        shutil.rmtree(output.parent if self.random.random() < 0.5 else self.root / "build-out")
        return "deleted outputs"


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
