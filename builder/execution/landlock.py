"""The second wall: where namespaces are forbidden, Landlock keeps an action to the files that it may see.

What is outside stays where it is, and is refused when it is opened, listed or executed. The network and
other processes' memory are shut off by a filter of system calls. Numbers are those of linux/landlock.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator

from . import linux, namespaces, seccomp

_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR

# All rights that exist, by the version in which they came: 1, 2 (refer), 3 (truncate), 5 (ioctl).
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
# Abstract sockets and signals stay within, since version 6.
_SCOPES = 3

_READABLE = ("/proc", "/etc/group", "/etc/nsswitch.conf", "/etc/passwd", *namespaces.SHOWN)
_DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")


def restrict(spec: dict) -> None:
    """Keep this process, and all that it starts, to what `spec` (see sandbox.py) lets it see.

    Raises:
        OSError: the kernel has no Landlock, or something that should be seen does not exist.
    """
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    version = linux.syscall(_SYS_CREATE_RULESET, 0, 0, _CREATE_RULESET_VERSION, what="Landlock")
    rights = _RIGHTS[min(version, 5)]
    attributes = struct.pack("QQQ", rights, 0, _SCOPES) if version >= 6 else struct.pack("Q", rights)
    rules = linux.syscall(
        _SYS_CREATE_RULESET, ctypes.c_char_p(attributes), len(attributes), 0, what="Landlock's set of rules"
    )
    hidden = tuple(spec["hidden"])
    for path in (*namespaces.SYSTEM, *_READABLE, *spec["visible"]):
        for part, allowed in readable_parts(path, hidden):
            _allow(rules, part, allowed & rights)
    for folder in hidden:
        _allow(rules, folder, _READ_DIR)
    for source, _ in spec["binds"]:
        _allow(rules, source, _READ & rights)
    for device in _DEVICES:
        _allow(rules, device, (_READ_FILE | _WRITE_FILE | _IOCTL_DEV) & rights)
    for name in ("root", "home", "tmp"):
        _allow(rules, os.path.join(spec["folder"], name), rights)
    linux.syscall(_SYS_RESTRICT_SELF, rules, 0, what="Landlock's restriction")
    os.close(rules)
    seccomp.deny_network_and_ipc()


def readable_parts(path: str, hidden: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Which rights to give on which paths so that `path` is readable, and what is in the folders `hidden` is not.

    Rights hold for all that is below. So beside a hidden folder everything else is named; and since its
    parents must be listed for their sake, so can it be: the names in it are seen, their contents are not.
    """
    if any(path.startswith(f"{folder}/") for folder in hidden) or not _holds(path, hidden):
        yield path, _READ
        return
    yield path, _READ_DIR
    if path in hidden:
        return
    with contextlib.suppress(OSError):
        for entry in os.listdir(path):
            yield from readable_parts(os.path.join(path, entry), hidden)


def _holds(path: str, hidden: tuple[str, ...]) -> bool:
    return any(folder == path or folder.startswith(f"{path.rstrip('/')}/") for folder in hidden)


def _allow(rules: int, path: str, allowed: int) -> None:
    """Give rights on a file, or a folder and all below it; nothing, if there is none."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
            return
        raise
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            allowed &= _OF_FILES
        rule = struct.pack("=Qi", allowed, descriptor)
        linux.syscall(_SYS_ADD_RULE, rules, _RULE_PATH_BENEATH, ctypes.c_char_p(rule), 0, what=f"Landlock's rule of {path}")
    finally:
        os.close(descriptor)
