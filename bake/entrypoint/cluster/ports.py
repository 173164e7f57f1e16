"""Ports: whether Ray's is free on this node. Another Ray that answers there would be taken for the head's own."""

from __future__ import annotations

import errno
import os
import socket

from bake.errors import ClusterError


def refuse_taken(address: str, port: int) -> None:
    """Raises ClusterError where nothing can listen at this node's address and port. The port is free afterwards."""
    try:
        socket.create_server((address, port)).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ClusterError(
                f"port {port} is in use at {address}, by another Ray or another program",
                hint="end that one, or name another port for this head's Ray: `ray-head --ray-port PORT`; then the "
                "workers name it too: `ray-worker HOST:PORT`",
            ) from error
        raise ClusterError(
            f"Ray cannot listen at {address}:{port}: {os.strerror(error.errno or 0)}",
            hint="`--node-ip ADDRESS` is an address of this node, `--ray-port PORT` a port that its user may listen at",
        ) from error
