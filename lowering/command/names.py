"""Objects of the user's own, by "module:name"."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from typing import Any

from ..errors import LoweringError, did_you_mean


def import_named(name: str, what: str) -> Any:
    """The object `name` ("module:attribute"); `what` says in errors what it is to be.

    Raises LoweringError where the name is malformed, or there is no such module or attribute.
    """
    module_name, separator, attribute = name.partition(":")
    if not (module_name and separator and attribute):
        raise LoweringError(f"{what} is {name!r}, and must be written MODULE:NAME")
    module = import_module(module_name, what)
    if not hasattr(module, attribute):
        public = [each for each in vars(module) if not each.startswith("_")]
        raise LoweringError(f"{what}: module {module_name} has no {attribute!r}{did_you_mean(attribute, public)}")
    return getattr(module, attribute)


def import_module(name: str, what: str) -> Any:
    """The module `name`. Raises LoweringError where there is none, or where it fails to import."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            raise LoweringError(
                f"{what}: there is no module {name!r}",
                remedies=["add the target that has it to `deps`", "check the module's name against its file's path"],
            ) from error
        raise LoweringError(
            f"{what}: importing {name} fails: {error}\n  from: {user_line(error)}",
            remedies=[_who_has(missing)],
        ) from error
    except LoweringError:
        raise
    except Exception as error:
        raise failed(f"{what}: importing {name} fails", error) from error


def _who_has(module: str) -> str:
    """What to do for a module that is not there."""
    if module.startswith("rules_executorch.backends"):
        return "name the backend in `backends`, as in backends = [\"@rules_executorch//backends/NAME\"]"
    return f"add the target that has {module} to `deps`"


def call_user(function: Any, what: str) -> Any:
    """What the user's function returns. Raises LoweringError with the line where it fails."""
    try:
        return function()
    except LoweringError:
        raise
    except Exception as error:
        raise failed(f"{what} fails", error) from error


def failed(message: str, error: Exception) -> LoweringError:
    """An exception of the user's code, as one of ours."""
    return LoweringError(f"{message}: {type(error).__name__}: {error}\n  from: {user_line(error)}")


def user_line(error: BaseException) -> str:
    """`file:line: code` of the innermost frame that is neither of the standard library nor of an installed package."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    ours = str(Path(__file__).parent)
    stdlib = str(Path(importlib.__file__).parent.parent)
    for frame in reversed(frames):
        if "site-packages" not in frame.filename and not frame.filename.startswith((ours, stdlib)):
            return f"{frame.filename}:{frame.lineno}: {frame.line}"
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
