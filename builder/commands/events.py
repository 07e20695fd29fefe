"""What happens in a build as lines of JSON for other programs: a part of Bazel's Build Event Protocol.

docs/command_line.md says which events there are and what is in them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING

from . import exit_codes
from .request import Request
from .words import CommandLineError

if TYPE_CHECKING:
    from ..core.action import Action


class Events:
    """Writes events to `file`, one line each; with None it writes nothing. Listens to actions as well."""

    def __init__(self, file: IO[str] | None, root: str = ""):
        self._file = file
        self._root = root
        self._began: dict[str, float] = {}
        self.code = exit_codes.INTERNAL_ERROR

    def write(self, kind: str, key: dict, payload: dict, *, name: str | None = None, children: Iterable[dict] = ()) -> None:
        """One event: `kind` and `key` identify it, `payload` is its content, under `name` where that is not `kind`."""
        if self._file is None:
            return
        event: dict = {"id": {kind: key}}
        if children := list(children):
            event["children"] = children
        event[name or kind] = payload
        # Whoever reads while the build goes on gets whole lines.
        self._file.write(json.dumps(event, ensure_ascii=False) + "\n")
        self._file.flush()

    def expanded(self, request: Request, labels: list[str]) -> None:
        """The patterns mean these targets."""
        children = [{"targetCompleted": {"label": label}} for label in labels]
        self.write("pattern", {"pattern": list(request.patterns)}, {}, name="expanded", children=children)

    def running(self, action: Action) -> None:
        """An action begins to run."""
        self._began[action.outputs[0].exec_path] = time.time()

    def finished(self, action: Action, outcome) -> None:
        """An action's outputs are in their places."""
        self._action(action, {"success": True, "exitCode": 0, "cached": outcome.how.name != "RAN"}, outcome.printed)

    def failed(self, failure) -> None:
        """An action failed."""
        details = {"success": False, "failureDetail": {"message": str(failure)}}
        if failure.reproduce:
            details["reproduce"] = failure.reproduce
        self._action(failure.action, details, failure.printed)

    def expected(self, total: int) -> None:
        """How many actions there are to look at; said by buildMetrics in the end."""

    def _action(self, action: Action, details: dict, printed: str) -> None:
        now = time.time()
        output = action.outputs[0].exec_path
        payload = {"type": action.mnemonic, "label": action.owner, **details}
        payload["startTime"], payload["endTime"] = _timestamp(self._began.pop(output, now)), _timestamp(now)
        payload["commandLine"] = list(action.argv)
        if printed:
            payload["printed"] = printed
        self.write("actionCompleted", {"primaryOutput": output, "label": action.owner}, payload, name="action")

    def completed(self, label: str, outputs: list[str], succeeded: bool) -> None:
        """A target was built, with these outputs relative to the workspace's root, or was not."""
        payload: dict = {"success": succeeded}
        if succeeded:
            payload["importantOutput"] = [{"name": output, "uri": self._uri(output)} for output in outputs]
        self.write("targetCompleted", {"label": label}, payload, name="completed")

    def tested(self, label: str, status: str, log: str, seconds: float, cached: bool) -> None:
        """A test ended; `status` is BEP's: PASSED, FAILED, TIMEOUT or NO_STATUS."""
        payload = {
            "status": status,
            "cachedLocally": cached,
            "testAttemptDurationMillis": str(round(seconds * 1000)),
            "testActionOutput": [{"name": "test.log", "uri": self._uri(log)}],
        }
        self.write("testResult", {"label": label, "run": 1, "shard": 1, "attempt": 1}, payload)

    def _uri(self, path: str) -> str:
        from urllib.parse import quote

        return "file://" + quote(os.path.join(self._root, path))


@contextlib.contextmanager
def recording_events(options, request: Request) -> Iterator[Events]:
    """The events of one command: the first and the last ones are written here. Its `code` must be set inside.

    Raises:
        CommandLineError: the file cannot be written.
    """
    if options.build_event_json_file is None:
        yield Events(None)
        return
    try:
        file = open(options.build_event_json_file, "w", encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        message = f"error: --build_event_json_file={options.build_event_json_file}: {error.strerror}"
        raise CommandLineError(message) from None
    with file:
        events = Events(file, request.root)
        began = time.time()
        _write_started(events, options, request, began)
        try:
            yield events
        except BaseException as error:
            events.code = _code_of(error)
            reason = "USER_INTERRUPTED" if isinstance(error, KeyboardInterrupt) else "ANALYSIS_FAILURE"
            description = {"reason": reason, "description": str(error)}
            events.write("pattern", {"pattern": list(request.patterns)}, description, name="aborted")
            raise
        finally:
            exit_code = {"name": exit_codes.NAMES[events.code], "code": events.code}
            finished = {"exitCode": exit_code, "overallSuccess": events.code == exit_codes.SUCCESS}
            finished["finishTime"] = _timestamp(time.time())
            events.write("buildFinished", {}, finished, name="finished")


def _write_started(events: Events, options, request: Request, began: float) -> None:
    import uuid

    started = {
        "uuid": str(uuid.uuid4()),
        "startTime": _timestamp(began),
        "command": options.verb,
        "optionsDescription": " ".join(sys.argv[1:]),
        "workingDirectory": os.getcwd(),
        "workspaceDirectory": request.root,
    }
    children = [{"pattern": {"pattern": list(request.patterns)}}, {"buildFinished": {}}]
    events.write("started", {}, started, children=children)


def _code_of(error: BaseException) -> int:
    from ..core.diagnostics import BuildError, UsageError

    if isinstance(error, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    if isinstance(error, (UsageError, CommandLineError)):
        return exit_codes.COMMAND_LINE_ERROR
    return exit_codes.BUILD_FAILED if isinstance(error, BuildError) else exit_codes.INTERNAL_ERROR


def _timestamp(seconds: float) -> str:
    """A time as JSON has protocol buffers' timestamps."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"
