"""Filters of system calls: what the other walls leave open is denied, and what is opened can be asked about.

Programs for the kernel's packet filter, as linux/seccomp.h and linux/filter.h describe them.
"""

from __future__ import annotations

import _socket
import ctypes
import errno
import os
import struct

from . import linux

# Numbers of calls, and the constant by which linux/audit.h names the architecture.
_CALLS = {
    "x86_64": {
        "arch": 0xC000003E, "seccomp": 317, "socket": 41,
        "open": 2, "creat": 85, "openat": 257, "execve": 59, "execveat": 322,
        "shmget": 29, "semget": 64, "msgget": 68, "ptrace": 101, "add_key": 248, "request_key": 249, "keyctl": 250,
        "process_vm_readv": 310, "process_vm_writev": 311, "mq_open": 240,
    },
    "aarch64": {
        "arch": 0xC00000B7, "seccomp": 277, "socket": 198,
        "openat": 56, "execve": 221, "execveat": 281,
        "shmget": 194, "semget": 190, "msgget": 186, "ptrace": 117, "add_key": 217, "request_key": 218, "keyctl": 219,
        "process_vm_readv": 270, "process_vm_writev": 271, "mq_open": 180,
    },
}  # fmt: skip
# The same everywhere, as of all calls since Linux 5.1.
_COMMON = {"io_uring_setup": 425, "openat2": 437}

# Ways to what other processes have, or left behind. io_uring would get round the filter.
_DENIED = (
    "shmget", "semget", "msgget", "mq_open", "ptrace", "process_vm_readv", "process_vm_writev",
    "add_key", "request_key", "keyctl", "io_uring_setup",
)  # fmt: skip
OPENING = ("open", "creat", "openat", "openat2", "execve", "execveat")

_LOAD_WORD = 0x20
_JUMP_IF_EQUAL = 0x15
_JUMP_IF_NOT_LESS = 0x35
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_NOTIFY = 0x7FC00000
_ERRNO = 0x00050000
# Offsets in struct seccomp_data.
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
# Numbers from here on are those of another way to call the kernel (x32).
_X32 = 0x40000000

_SET_MODE_FILTER = 1
_FLAG_NEW_LISTENER = 8


def calls() -> dict[str, int]:
    """The numbers of this machine's calls by name. Raises OSError where they are not known here."""
    known = _CALLS.get(os.uname().machine)
    if known is None:
        raise OSError(errno.ENOSYS, f"the system calls of {os.uname().machine} are not known")
    return {**known, **_COMMON}


def deny_network_and_ipc() -> None:
    """Let this process, and all that it starts, make no sockets but local ones, and share nothing with others.

    Raises:
        OSError: the kernel has no such filters.
    """
    numbers = calls()
    checks = b"".join(_if_equal(numbers[name], _ERRNO | errno.EPERM) for name in _DENIED)
    # The family of a socket is read only if it is one.
    checks += _instruction(_JUMP_IF_EQUAL, 0, 3, numbers["socket"])
    checks += _instruction(_LOAD_WORD, 0, 0, _FIRST_ARGUMENT)
    checks += _instruction(_JUMP_IF_EQUAL, 1, 0, _socket.AF_UNIX)
    checks += _instruction(_RETURN, 0, 0, _ERRNO | errno.EACCES)
    _install(numbers, checks, 0)


def ask_about_opening() -> int:
    """Let another process answer for what this one, and all that it starts, open and execute.

    Returns the descriptor of which that process reads the questions (see opened.py).

    Raises:
        OSError: the kernel has no such filters.
    """
    numbers = calls()
    checks = b"".join(_if_equal(numbers[name], _NOTIFY) for name in OPENING if name in numbers)
    return _install(numbers, checks, _FLAG_NEW_LISTENER)


def _install(numbers: dict[str, int], checks: bytes, flags: int) -> int:
    program = (
        _instruction(_LOAD_WORD, 0, 0, _ARCH)
        + _instruction(_JUMP_IF_EQUAL, 1, 0, numbers["arch"])
        + _instruction(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
        + _instruction(_LOAD_WORD, 0, 0, _NUMBER)
        + _instruction(_JUMP_IF_NOT_LESS, 0, 1, _X32)
        + _instruction(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
        + checks
        + _instruction(_RETURN, 0, 0, _ALLOW)
    )
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    text = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(text))
    call = numbers["seccomp"]
    return linux.syscall(call, _SET_MODE_FILTER, flags, ctypes.c_char_p(header), what="seccomp")


def _if_equal(number: int, answer: int) -> bytes:
    return _instruction(_JUMP_IF_EQUAL, 0, 1, number) + _instruction(_RETURN, 0, 0, answer)


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
