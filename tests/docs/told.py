"""What a shell runs in place of `python` and `mvcs`: it hands a command to the process at ADDRESS, and waits.

Usage: told.py ADDRESS NAME WORDS...
"""

import json
import os
import socket
import sys

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(f"\0{sys.argv[1]}")
        told = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()  # noqa: PTH109 - pathlib takes long
        socket.send_fds(server, [f"{len(told):8}".encode()], [0, 1, 2])
        server.sendall(told)
        sys.exit(int(server.makefile().read()))
