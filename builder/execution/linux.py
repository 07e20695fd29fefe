"""The calls of Linux's kernel that sandboxes need and that Python's library does not have (before 3.12).

Numbers and structures are those of the kernel's own headers (linux/sched.h, mount.h, capability.h, prctl.h).
Standard library only, and little of it: this is loaded for every action.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

MNT_DETACH = 2

MOUNT_ATTR_RDONLY = 1
MOUNT_ATTR_NOSUID = 2
MOUNT_ATTR_NODEV = 4

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
# The same number on every architecture, as of all calls since Linux 5.1.
_SYS_MOUNT_SETATTR = 442
_MADV_COLLAPSE = 25
# Of x86-64 and, with pages of 4 KiB, of arm64; where they have another size, fewer of them are made.
_HUGE_PAGE = 2 << 20
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapabilityData(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


def checked(result: int, what: str) -> int:
    """The result of a call of libc's. Raises OSError, saying what was tried, where it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: object, what: str) -> int:
    """A system call by its number; integers are passed as longs. Raises OSError."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return checked(_libc.syscall(ctypes.c_long(number), *words), what)


def unshare(flags: int) -> None:
    """Leave the namespaces of these kinds for new ones. Raises OSError."""
    checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    """mount(2). Raises OSError."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() if options else None,
    )
    if result:
        checked(result, f"mount {source} on {target}")


def bind(source: str, target: str) -> None:
    """Show the file or folder `source`, with all that is mounted below it, at `target`. Raises OSError."""
    mount(source, target, None, MS_BIND | MS_REC)


def set_mount_attributes(path: str, *, add: int = 0, remove: int = 0, recursive: bool = False) -> None:
    """mount_setattr(2), since Linux 5.12. Raises OSError."""
    attributes = _MountAttributes(add, remove, 0, 0)
    syscall(
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        ctypes.c_char_p(os.fsencode(path)),
        _AT_RECURSIVE if recursive else 0,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
        what=f"mount_setattr {path}",
    )


def change_root(folder: str) -> None:
    """Make `folder`, a mount, the root and the current folder; the old root is out of reach. Raises OSError."""
    os.chdir(folder)
    # With the same folder twice, the old root comes to lie upon the new one, from where it is taken away.
    checked(_libc.syscall(ctypes.c_long(_pivot_root_number()), b".", b"."), "pivot_root")
    checked(_libc.umount2(b".", MNT_DETACH), "umount of the old root")
    os.chdir("/")


def prctl(option: int, argument: int = 0) -> None:
    """prctl(2) with one argument. Raises OSError."""
    zero = ctypes.c_ulong(0)
    checked(_libc.prctl(option, ctypes.c_ulong(argument), zero, zero, zero), f"prctl {option}")


def drop_capabilities() -> None:
    """Give up all capabilities for good, also for programs that are executed. Raises OSError."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    data = (_CapabilityData * 2)()
    checked(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")


def collapse_memory() -> None:
    """Have this process's own memory in huge pages as far as it can be (madvise(2), since Linux 6.1).

    Forking then copies some hundred entries of page tables rather than one for each 4 KiB, and ending a
    forked process is as much cheaper. Where the kernel cannot, all stays as it is.
    """
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        mappings = [line.split(None, 5) for line in file]
    for addresses, permissions, _, device, *rest in mappings:
        is_memory = permissions == "rw-p" and device == "00:00" and not rest[-1].startswith("[stack")
        if is_memory:
            first, last = (int(address, 16) for address in addresses.split("-"))
            # One by one: a range is given up at the first page that will not do.
            for page in range(-(-first // _HUGE_PAGE) * _HUGE_PAGE, last - _HUGE_PAGE + 1, _HUGE_PAGE):
                _libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(_HUGE_PAGE), _MADV_COLLAPSE)


def _pivot_root_number() -> int:
    numbers = {"x86_64": 155, "i686": 217, "armv7l": 218, "ppc64le": 203, "s390x": 217, "loongarch64": 41, "riscv64": 41}
    return {**numbers, "aarch64": 41}[os.uname().machine]
