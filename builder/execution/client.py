"""What ninja runs for each edge: asks the build that started ninja to run one action, and waits for the answer.

Imports next to nothing, since it is started once per action.
"""

import os
import sys

import _socket

# Holds the number of an inherited descriptor: a datagram socket to the build.
SOCKET_VARIABLE = "RULES_EXECUTORCH_SOCKET"


def main():
    number = os.environ.get(SOCKET_VARIABLE)
    if number is None:
        print("this ninja file belongs to `build`, which has to start ninja itself", file=sys.stderr)
        return 1
    # The answer comes through a pipe of this edge's own, whose writing end goes along with the question.
    # If the build dies, all copies of that end close, and the edge fails.
    reader, writer = os.pipe()
    try:
        requests = _socket.socket(fileno=int(number))
        ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, writer.to_bytes(4, sys.byteorder))]
        requests.sendmsg([sys.argv[1].encode()], ancillary)
        os.close(writer)
        return 0 if os.read(reader, 1) == b"0" else 1
    except OSError:
        return 1


if __name__ == "__main__":
    # Nothing is left to clean up, and an orderly exit would take longer than all the rest.
    os._exit(main())
