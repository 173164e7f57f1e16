"""A worker as a program of its own: how it finds the head, what it says, and how it ends."""

from __future__ import annotations

import signal
import socket

import pytest

from bake.errors import ClusterError
from tests.entrypoint.cluster.meet import RIGHT, WRONG, ended, free_port, head, next_line, node

GIVE_MORE = (
    "hint: does `ray-head` run there, and does nothing between the nodes block this port? "
    "BAKE_CLUSTER_TIMEOUT gives it more seconds"
)


def words(port: int, *, digest: str = RIGHT) -> tuple[str, ...]:
    return ("worker", "127.0.0.1", f"--roll-call-port={port}", "--host=w1", f"--model=tiny@v1={digest}")


def test_a_worker_may_start_before_its_head() -> None:
    port = free_port()
    with node(*words(port)) as worker:
        waiting = next_line(worker)
        with head(nodes=2, port=port) as it:
            it.roll.gather(60)
            reported = next_line(worker)

    assert (waiting, reported) == (
        f"cluster: no head at 127.0.0.1:{port} yet (Connection refused): trying on for 600 s",
        "cluster: reported to the head; 1 of 1 worker there",
    )


def test_a_worker_with_another_model_says_what_differs_and_ends_with_13() -> None:
    port = free_port()
    with node(*words(port, digest=WRONG)) as worker:
        with head(nodes=2, port=port) as it, pytest.raises(ClusterError):
            it.roll.gather(60)
        code, told = ended(worker)

    assert (code, told[-1]) == (
        13,
        f"error: no training with the head 127.0.0.1:{port}: tiny@v1 is {WRONG} (expected {RIGHT})",
    )


def test_a_worker_with_a_broken_model_tells_the_head_and_ends_with_10() -> None:
    port = free_port()
    with node(*words(port), "--fault=config.json: missing") as worker:
        with head(nodes=2, port=port) as it, pytest.raises(ClusterError):
            it.roll.gather(60)
        code, told = ended(worker)

    assert it.told[-1] == "  config.json: missing"
    assert (code, told[-2:]) == (
        10,
        [
            "error: the models of this node are at fault",
            f"hint: the head 127.0.0.1:{port} was told",
        ],
    )


def test_a_worker_looks_again_for_a_head_that_is_started_again() -> None:
    port = free_port()
    with node(*words(port)) as worker:
        with head(nodes=3, port=port) as first:
            first.listen(until="w1 (127.0.0.1) is here")
        with head(nodes=2, port=port) as second:
            second.roll.gather(60)
            told = [next_line(worker) for _ in range(2)]

    assert told == [
        "cluster: reported to the head; 1 of 2 workers there",
        "cluster: the head 127.0.0.1 has gone before the training began; looking for it again",
    ]
    assert second.told[-1] == "cluster: w1 (127.0.0.1) is here: 1 of 1 worker"


def test_a_worker_that_waits_for_the_start_can_be_stopped() -> None:
    with head(nodes=3) as it, node(*words(it.port)) as worker:
        it.listen(until="w1 (127.0.0.1) is here")
        next_line(worker)
        worker.send_signal(signal.SIGTERM)

        assert ended(worker) == (143, [])


def test_a_worker_without_a_head_gives_up_in_time() -> None:
    port = free_port()
    with node(*words(port), "--timeout=1") as worker:
        assert ended(worker) == (
            13,
            [
                f"cluster: no head at 127.0.0.1:{port} yet (Connection refused): trying on for 1 s",
                f"error: no head answered at 127.0.0.1:{port} within 1 s: Connection refused",
                GIVE_MORE,
            ],
        )


def test_a_broken_worker_without_a_head_still_ends_with_10() -> None:
    with node(*words(free_port()), "--timeout=1", "--fault=config.json: missing") as worker:
        code, told = ended(worker)

    assert (code, told[1:]) == (
        10,
        ["error: the models of this node are at fault", "hint: the head was not there to be told"],
    )


def test_a_service_that_is_no_head_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with node(*words(port)) as worker:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                told = next_line(worker)

    assert told == (
        f"cluster: no head at 127.0.0.1:{port} yet (no JSON: b'SSH-2.0-OpenSSH_9.2\\r'): trying on for 600 s"
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -15), (signal.SIGINT, 130)])
def test_a_worker_that_looks_for_its_head_can_be_stopped(number: signal.Signals, code: int) -> None:
    with node(*words(free_port())) as worker:
        next_line(worker)
        worker.send_signal(number)

        assert ended(worker) == (code, [])
