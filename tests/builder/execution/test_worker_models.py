"""Models by workers with torch and the engine preloaded: the same bytes as without."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from support.build_command import build, counts, write_files

MODEL = """
import torch
from rules_executorch.lowering.model import Method, Model

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x):
        return torch.softmax(self.b(torch.relu(self.a(x))), dim=-1)

def net():
    length = torch.export.Dim("n", min=1, max=9)
    return Model(Net(), {"forward": Method((torch.randn(3, 6),), dynamic_shapes={"x": {0: length}})})
"""

BUILD = """
load("@rules_executorch//rules:defs.bzl", "executorch_model", "partitioner")

py_library(name = "net", srcs = ["net.py"], deps = ["@rules_executorch//lowering"])

executorch_model(
    name = "m",
    model = "net:net",
    deps = [":net"],
    methods = {"forward": partitioner("@rules_executorch//backends/reference")},
)
"""


def _outputs(root: Path) -> dict[str, bytes]:
    folder = root / "build-out"
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("m.*") if ".state" not in p.parts}


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="workers need Linux")
def test_a_model_has_the_same_bytes_with_workers_and_without(tmp_path: Path) -> None:
    files = {"BUILD": BUILD, "net.py": MODEL}
    warm, cold = write_files(tmp_path / "warm", files), write_files(tmp_path / "cold", files)
    workers = tmp_path / "run" / "rules_executorch"
    (tmp_path / "run").mkdir(mode=0o700)
    try:
        results = [
            build(warm, "//:m", XDG_RUNTIME_DIR=str(tmp_path / "run")),
            build(cold, "//:m", "--noworkers", XDG_RUNTIME_DIR=str(tmp_path / "unused")),
        ]
        assert [result.returncode for result in results] == [0, 0], results
        assert counts(results[0]) == counts(results[1])
        # The toolchain's zygote, that with the engine, and that with the backend as well.
        assert len([path for path in workers.iterdir() if path.is_socket()]) == 3
        assert (workers.glob("*.log").__next__()).read_text() == ""
        assert not (tmp_path / "unused").exists()
        outputs = _outputs(warm)
        assert {"m.pte", "m.report.json"} <= outputs.keys()
        assert outputs == _outputs(cold)
        # By now, the processes that wait have taken the small model to a program once more.
        time.sleep(3)
        (warm / "net.py").write_text(f"{MODEL}# edited\n")
        assert counts(build(warm, "//:m", XDG_RUNTIME_DIR=str(tmp_path / "run")))[0] == 1
        assert outputs == _outputs(warm)
    finally:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.fsencode(workers) in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
