"""The strongest wall: an action in namespaces of its own, with a file system of only what it may see.

It sees its inputs and toolchain, read-only, at an execution root that has the same path for every action;
private home and temporary folders; processes, network, IPC and host name of its own. It is nobody's root:
all of this happens in a user namespace, so that no privilege is needed, and none is left when it runs.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import struct
from collections.abc import Sequence

from . import linux

# Where every action stands, whoever builds and wherever.
ROOT = "/run/build/root"
HOME = "/run/build/home"
TEMPORARY = "/tmp"

# The action's own folders, by their names in the folder that it runs in.
_PRIVATE = {"root": ROOT, "home": HOME, "tmp": TEMPORARY}

USER = 1000
HOST_NAME = "localhost"

# From linux/sockios.h and linux/if.h.
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1

# The system's own programs and libraries; those of them that are links stay links.
SYSTEM = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr", "/nix/store", "/gnu/store")

# What programs expect of the rest of a system. The processors are seen since libraries of linear algebra ask for them.
SHOWN = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ssl/openssl.cnf",
    "/sys/devices/system/cpu",
)
_WRITTEN = {
    "/etc/group": f"root:x:0:\nbuild:x:{USER}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/passwd": (
        f"root:x:0:0::/:/bin/sh\nbuild:x:{USER}:{USER}::{HOME}:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
    ),
}
_DEVICES = ("full", "null", "random", "urandom", "zero")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}

_NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWCGROUP
)


def leave() -> None:
    """Leave the host's namespaces. The process must have one thread; its next child is the first of the new ones.

    Raises:
        OSError: the kernel forbids it.
    """
    user, group = os.geteuid(), os.getegid()
    linux.unshare(_NAMESPACES)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{USER} {user} 1")
    _write("/proc/self/gid_map", f"{USER} {group} 1")


def prepare(place: str, visible: Sequence[str], hidden: Sequence[str]) -> None:
    """In the first process of the new namespaces: at the folder `place`, make the file system that an action sees.

    It has the system, and of the toolchains what is `visible` and not `hidden` (see sandbox.py), but nothing of
    the action's own: that can be done before it is known which action it will be.

    Raises:
        OSError: the kernel forbids it.
    """
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    _mount_empty_root(place)
    _add_system(place)
    _add_devices(place)
    _add_toolchains(place, _in_private(visible, False), _in_private(hidden, False))
    _name_host()
    _raise_loopback()


def enter(top: str, spec: dict) -> None:
    """In a further process: add what is the action's own to what `prepare` made at `top`, and see nothing else.

    Of `spec` it reads `folder`, `binds`, and again `visible` and `hidden`: what of these lies in a folder that is
    private to the action, such as /tmp. Afterwards the process is in the execution root, and has no capability.

    Raises:
        OSError: the kernel forbids it, or something that should be seen does not exist.
    """
    for name, inside in _PRIVATE.items():
        linux.bind(os.path.join(spec["folder"], name), top + inside)
    _add_toolchains(top, _in_private(spec["visible"], True), _in_private(spec["hidden"], True))
    for source, exec_path in spec["binds"]:
        linux.bind(source, f"{top}{ROOT}/{exec_path}")
    linux.set_mount_attributes(top, add=linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID, recursive=True)
    for folder in (ROOT, HOME, TEMPORARY, "/dev/shm", "/dev/pts"):
        linux.set_mount_attributes(top + folder, remove=linux.MOUNT_ATTR_RDONLY)
    # Writable, since a sandbox within this one may mount it only as it is here.
    linux.mount("proc", f"{top}/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    linux.change_root(top)
    os.chdir(ROOT)
    linux.drop_capabilities()


def _mount_empty_root(top: str) -> None:
    """A file system in memory, with places for the private folders, which are on disk."""
    linux.mount("tmpfs", top, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    os.mkdir(f"{top}/proc")
    for inside in _PRIVATE.values():
        os.makedirs(top + inside)


def _add_system(top: str) -> None:
    for path in (*SYSTEM, *SHOWN):
        _show(top, path)
    for path, text in _WRITTEN.items():
        with open(top + path, "w", encoding="ascii") as file:
            file.write(text)


def _add_toolchains(top: str, visible: Sequence[str], hidden: Sequence[str]) -> None:
    """Show what is visible; of a folder that is hidden, only what is visible in it."""
    inside = [path for path in visible if path.startswith(tuple(f"{folder}/" for folder in hidden))]
    for path in visible:
        if path not in inside:
            _show(top, path)
    for folder in hidden:
        if os.path.isdir(top + folder):
            linux.mount("tmpfs", top + folder, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    for path in inside:
        _show(top, path)


def _in_private(paths: Sequence[str], inside: bool) -> list[str]:
    """Those of `paths` that are, or are not, `inside` a private folder."""
    private = tuple(f"{folder}/" for folder in _PRIVATE.values())
    return [path for path in paths if path.startswith(private) is inside]


def _add_devices(top: str) -> None:
    os.mkdir(f"{top}/dev")
    for name in _DEVICES:
        _show(top, f"/dev/{name}")
    for name, target in _DEVICE_LINKS.items():
        os.symlink(target, f"{top}/dev/{name}")
    for name, kind, options in (("shm", "tmpfs", "mode=1777"), ("pts", "devpts", "newinstance,ptmxmode=0666,mode=620")):
        os.mkdir(f"{top}/dev/{name}")
        linux.mount(kind, f"{top}/dev/{name}", kind, linux.MS_NOSUID | linux.MS_NOEXEC, options)


def _show(top: str, path: str) -> None:
    """Make a file, folder or link of the host's seen at its own path; nothing, if it does not exist."""
    if os.path.lexists(top + path):
        return
    if os.path.islink(path):
        os.makedirs(os.path.dirname(top + path), exist_ok=True)
        os.symlink(os.readlink(path), top + path)
    elif os.path.isdir(path):
        os.makedirs(top + path)
        linux.bind(path, top + path)
    elif os.path.exists(path):
        os.makedirs(os.path.dirname(top + path), exist_ok=True)
        os.close(os.open(top + path, os.O_CREAT | os.O_WRONLY))
        linux.bind(path, top + path)


def _name_host() -> None:
    _socket.sethostname(HOST_NAME)


def _raise_loopback() -> None:
    """Let processes of the action talk with each other over 127.0.0.1, which is theirs alone."""
    channel = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(channel.fileno(), _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))
    channel.close()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
