"""Ways in which an action could depend on, or change, what it does not declare; and what each sandbox does about them."""

from __future__ import annotations

from dataclasses import dataclass

# What comes of a cheat. Caught: the action fails. Harmless: it goes on, and has seen or changed nothing but its own.
# Open: it works, and nothing is noticed.
CAUGHT, HARMLESS, OPEN = "caught", "harmless", "open"


@dataclass(frozen=True)
class Cheat:
    """One way to cheat, as an action tries it.

    `script`, in bash or Python, fails or prints CHEATED. In it are names of a Host in braces. `before` is a
    script of an action that ran earlier. `effect` is a name of the Host's too: of a function that says whether the
    cheat has changed something outside.
    """

    name: str
    script: str
    namespaces: str
    landlock: str
    forest: str
    python: bool = False
    before: str = ""
    effect: str = ""


def _shell(name: str, script: str, *outcomes: str, **fields) -> Cheat:
    return Cheat(name, script, *outcomes, **fields)


def _python(name: str, script: str, *outcomes: str, **fields) -> Cheat:
    return Cheat(name, script, *outcomes, python=True, **fields)


_ALL_CAUGHT = (CAUGHT, CAUGHT, CAUGHT)
_ALL_HARMLESS = (HARMLESS, HARMLESS, HARMLESS)

FILES = (
    _shell("reads a file of the workspace by its absolute path", "cat {secret}; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads a file of the workspace by its path in it", "cat w/p/secret.txt; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads through ..", "cat ../../../../../../../../../../../..{secret}; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads through a link that it makes", "ln -s {secret} w/l; cat w/l; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads through a link to a folder", "ln -s {ws} w/l; cat w/l/p/secret.txt; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads through /proc/self/root", "cat /proc/self/root{secret}; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads through /proc/1/root", "cat /proc/1/root{secret}; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads what process 1 has open", "cat /proc/1/fd/0; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads through /proc/PID/cwd of its parent", "cat /proc/$PPID/cwd/sandbox.json; echo CHEATED", *_ALL_CAUGHT),
    _shell("makes a hard link to an undeclared file", "ln {secret} w/l; cat w/l; echo CHEATED", CAUGHT, CAUGHT, OPEN),
    _shell("asks whether an undeclared file exists", "[ -e {secret} ] && echo CHEATED", HARMLESS, OPEN, OPEN),
    _shell("lists the workspace", "ls {ws}; echo CHEATED", *_ALL_CAUGHT),
    _shell("lists the folder above the execution root", "ls .. | grep sandbox.json && echo CHEATED",
           HARMLESS, HARMLESS, CAUGHT),
    _shell("looks for a file everywhere", "find {ws} -name secret.txt 2>&1 | grep -q 'p/secret.txt$' && echo CHEATED",
           HARMLESS, HARMLESS, CAUGHT),
    _shell("executes an undeclared program", "{program}; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads another action's output", "cat {ws}/build-out/p/before; echo CHEATED", *_ALL_CAUGHT,
           before="echo sibling"),
    _shell("reads the store", "ls {cache}; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads the user's home", "ls {home}; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads the system's passwords", "cat /etc/shadow; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads an inherited descriptor", "cat <&{descriptor}; echo CHEATED", *_ALL_CAUGHT),
    _shell("reads standard input", "read line && echo CHEATED", *_ALL_HARMLESS),
    _shell("reads an input's time of modification", "[ $(stat -c %Y w/p/in) = {modified} ] && echo CHEATED",
           OPEN, HARMLESS, HARMLESS),
)  # fmt: skip

LEFTOVERS = (
    _shell("finds what an earlier action left in /tmp", "[ -e /tmp/{unique} ] && echo CHEATED",
           HARMLESS, CAUGHT, CAUGHT, before="touch /tmp/{unique}"),
    _shell("finds what an earlier action left in $TMPDIR", "[ -e $TMPDIR/left ] && echo CHEATED", *_ALL_HARMLESS,
           before="touch $TMPDIR/left"),
    _shell("finds what an earlier action left in $HOME", "[ -e $HOME/left ] && echo CHEATED", *_ALL_HARMLESS,
           before="touch $HOME/left"),
    _shell("finds what an earlier action left in /dev/shm", "[ -e /dev/shm/{unique} ] && echo CHEATED",
           HARMLESS, CAUGHT, OPEN, before="touch /dev/shm/{unique}"),
    _python("finds shared memory that an earlier action left",
            "import ctypes\nif ctypes.CDLL(None).shmget({number}, 1, 0o600) >= 0: print('CHEATED')",
            HARMLESS, HARMLESS, OPEN,
            before="import ctypes\nctypes.CDLL(None).shmget({number}, 1, 0o1600)"),
    _shell("leaves a process in the background", "sleep {seconds} & echo left", *_ALL_HARMLESS, effect="sleeps"),
    _shell("leaves a process in a session of its own", "setsid sleep {seconds} & echo left", *_ALL_HARMLESS,
           effect="sleeps"),
    _shell("makes a file that it does not declare", "touch w/p/extra", *_ALL_HARMLESS, effect="has_extra"),
)  # fmt: skip

WRITES = (
    _shell("writes to an input", "echo x >> w/p/in", *_ALL_CAUGHT, effect="changed"),
    _shell("writes to an input through a hard link", "ln w/p/in w/l; echo x >> w/l", *_ALL_CAUGHT, effect="changed"),
    _shell("replaces an input", "echo x > w/new; mv -f w/new w/p/in", *_ALL_CAUGHT, effect="changed"),
    _shell("removes an input", "rm -f w/p/in", *_ALL_CAUGHT, effect="changed"),
    _shell("moves a folder of inputs", "mv w/p w/q", *_ALL_CAUGHT, effect="changed"),
    _shell("changes an input's mode", "chmod 777 w/p/in", CAUGHT, HARMLESS, HARMLESS, effect="changed"),
    _shell("writes to a source of the workspace", "echo x > {source}", *_ALL_CAUGHT, effect="changed"),
    _shell("makes a file in the workspace", "touch {ws}/p/new", *_ALL_CAUGHT, effect="has_new"),
    _shell("makes a folder in the workspace", "mkdir {ws}/p/new", CAUGHT, CAUGHT, OPEN, effect="has_new"),
    _shell("removes a file of the workspace", "rm {secret}", CAUGHT, CAUGHT, OPEN, effect="has_no_secret"),
    _shell("writes to the toolchain", "touch {site_packages}/{unique}", *_ALL_CAUGHT, effect="has_toolchain_file"),
    _shell("takes the walls down in a namespace of its own",
           "unshare -Urm sh -c 'umount $PWD/w/p/in && echo CHEATED'", *_ALL_CAUGHT),
    _shell("gives a link to an undeclared file for its output", "rm -f w/p/out; ln -s {secret} w/p/out", *_ALL_CAUGHT),
    _shell("gives a pipe for its output", "rm -f w/p/out; mkfifo w/p/out", *_ALL_CAUGHT),
)  # fmt: skip

_SOCKET = "import socket\ns = socket.socket(socket.{family}, socket.{kind})\n{use}\nprint('CHEATED')"


def _socket(family: str, kind: str, use: str) -> str:
    return _SOCKET.replace("{family}", family).replace("{kind}", kind).replace("{use}", use)


COMMUNICATION = (
    _python("connects to a server of this machine by TCP",
            _socket("AF_INET", "SOCK_STREAM", "s.connect(('127.0.0.1', {tcp}))"), CAUGHT, CAUGHT, OPEN),
    _python("connects by TCP over IPv6", _socket("AF_INET6", "SOCK_STREAM", "s.connect(('::1', {tcp6}))"),
            CAUGHT, CAUGHT, OPEN),
    _python("sends a datagram by UDP", _socket("AF_INET", "SOCK_DGRAM", "s.sendto(b'x', ('127.0.0.1', {udp})); sys.exit()"),
            HARMLESS, CAUGHT, OPEN, effect="was_told"),
    _python("connects to a Unix socket by its path", _socket("AF_UNIX", "SOCK_STREAM", "s.connect('{unix}')"),
            CAUGHT, OPEN, OPEN),
    _python("connects to an abstract Unix socket",
            _socket("AF_UNIX", "SOCK_STREAM", "s.connect('\\0{unique}')"), CAUGHT, CAUGHT, OPEN),
    _python("asks for the machine's networks by netlink",
            "import socket\nif any(name not in ('lo', 'tunl0', 'sit0') for _, name in socket.if_nameindex()): print('CHEATED')",
            HARMLESS, CAUGHT, OPEN),
    _shell("sends a signal to the builder", "kill -0 {builder}; echo CHEATED", CAUGHT, CAUGHT, OPEN),
    _python("traces the builder",
            "import ctypes\nif ctypes.CDLL(None).ptrace(0x4206, {builder}, None, None): raise OSError\nprint('CHEATED')",
            CAUGHT, CAUGHT, OPEN),
    _shell("reads the environment of process 1", "grep -qa . /proc/1/environ && echo CHEATED",
           HARMLESS, HARMLESS, CAUGHT),
    _shell("reads the environment of the builder", "grep -a {unique} /proc/{builder}/environ; echo CHEATED", *_ALL_CAUGHT),
)  # fmt: skip

SURROUNDINGS = (
    _shell("reads a variable of the builder's", "[ -n \"${CHEAT:-}\" ] && echo CHEATED", *_ALL_HARMLESS),
    _shell("depends on the home's name", '[ "$HOME" = {home} ] && echo CHEATED', *_ALL_HARMLESS),
    _shell("depends on the locale", '[ "$LC_ALL" = tlh ] && echo CHEATED', *_ALL_HARMLESS),
    _shell("depends on the time zone", '[ "$(date +%Z)" != UTC ] && echo CHEATED', *_ALL_HARMLESS),
    _shell("depends on the umask", "[ $(umask) = 0077 ] && echo CHEATED", *_ALL_HARMLESS),
    _python("depends on the hash seed", "if hash('x') != {hash}: print('CHEATED')", *_ALL_HARMLESS),
    _shell("depends on the name of the machine", "[ $(uname -n) = {host} ] && echo CHEATED", HARMLESS, OPEN, OPEN),
    _shell("depends on the user", "[ $(id -u) = {user} ] && echo CHEATED", HARMLESS, OPEN, OPEN),
    _shell("depends on the folder that it runs in", "case $PWD in {sandboxes}*) echo CHEATED;; esac",
           HARMLESS, OPEN, OPEN),
    _shell("gains privileges by executing", "grep -q 'NoNewPrivs:.0' /proc/self/status && echo CHEATED", *_ALL_HARMLESS),
    _shell("reads the clock", "[ $(date +%s) -gt 1600000000 ] && echo CHEATED", OPEN, OPEN, OPEN),
    _shell("counts the processors", "[ $(grep -c ^processor /proc/cpuinfo) = {processors} ] && echo CHEATED", OPEN, OPEN, OPEN),
    _shell("asks for random numbers", "[ $(head -c 64 /dev/urandom | wc -c) = 64 ] && echo CHEATED", OPEN, OPEN, OPEN),
)  # fmt: skip

IMPORTS = (
    _python("imports a distribution that is not declared", "import rich\nprint('CHEATED')", *_ALL_CAUGHT),
    _python("imports from the interpreter's own site-packages",
            "import sys\nsys.path[:] = [p for p in sys.path if 'site-packages' not in p] + ['{base_site_packages}']\n"
            "import pip\nprint('CHEATED')", *_ALL_CAUGHT),
    _python("imports the installed rules_executorch", "import rules_executorch.builder\nprint('CHEATED')", *_ALL_CAUGHT),
    _python("imports a module of the workspace that is not declared", "import undeclared_module\nprint('CHEATED')",
            *_ALL_CAUGHT),
    _python("imports stale bytecode that lies beside a source", "import stale\nprint(stale.TEXT)", *_ALL_HARMLESS),
)  # fmt: skip

CHEATS = (*FILES, *IMPORTS, *WRITES, *LEFTOVERS, *COMMUNICATION, *SURROUNDINGS)


def table() -> str:
    """The cheats as a table for docs/hermeticity.md."""
    rows = ["| an action | namespaces | landlock | forest |", "|---|---|---|---|"]
    rows += [f"| {cheat.name} | {cheat.namespaces} | {cheat.landlock} | {cheat.forest} |" for cheat in CHEATS]
    return "\n".join(rows) + "\n"
