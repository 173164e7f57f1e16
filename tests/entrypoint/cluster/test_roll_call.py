"""The roll call as the head has it: real connections, good workers, faulty ones, and whatever else comes to a port."""

from __future__ import annotations

import json
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.cluster import rollcall
from bake.entrypoint.cluster.wire import LIMIT, Notice
from bake.errors import ClusterError
from tests.entrypoint.cluster.meet import (
    RIGHT,
    WRONG,
    connect,
    ended,
    free_port,
    head,
    next_line,
    node,
    report,
    reporting,
    rest_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


def leave_when_refused(connection: socket.socket) -> Notice:
    """What a worker does once it is refused; and the refusal."""
    with connection.makefile("rb") as lines:
        refusal = next(notice for notice in map(Notice.parse, lines) if notice.say == "refused")
    connection.shutdown(socket.SHUT_WR)
    return refusal


def send_slowly(connection: socket.socket, pieces: Iterable[bytes]) -> None:
    """One after the other, so that the other side finds them apart."""
    for piece in pieces:
        connection.sendall(piece)
        time.sleep(0.05)


def test_the_roll_is_complete_once_every_worker_has_reported() -> None:
    with head(nodes=3) as it, reporting(it.port, report("w1")), reporting(it.port, report("w2"), source="127.0.0.2"):
        it.roll.gather(60)

        assert it.roll.meeting_address == "127.0.0.1"
    assert it.told == [
        f"cluster: expecting 2 workers at port {it.port}, for 60 s",
        "cluster: w1 (127.0.0.1) is here: 1 of 2 workers",
        "cluster: w2 (127.0.0.2) is here: 2 of 2 workers",
    ]


def test_a_head_without_workers_waits_for_nobody_and_says_so() -> None:
    with head(nodes=1) as it:
        it.roll.gather(60)

    assert it.told == ["cluster: trainer.nnodes=1: this head waits for nobody, and trains alone (it counts all nodes)"]


def test_each_faulty_node_is_named_with_what_differs() -> None:
    broken = report("w2", faults=("/opt/models/tiny/config.json: missing", "  expected: 23 bytes"))
    with (
        head(nodes=4) as it,
        reporting(it.port, report("w1", digest=WRONG)),
        reporting(it.port, broken, source="127.0.0.2"),
        reporting(it.port, report("w3"), source="127.0.0.3"),
        pytest.raises(ClusterError) as caught,
    ):
        it.roll.gather(60)

    assert it.told[4:] == [
        "cluster: w1 (127.0.0.1) is at fault:",
        f"  tiny@v1 is {WRONG} (expected {RIGHT})",
        "cluster: w2 (127.0.0.2) is at fault:",
        "  /opt/models/tiny/config.json: missing",
        "    expected: 23 bytes",
    ]
    assert caught.value.message == "at fault, of 4 nodes: w1 (127.0.0.1), w2 (127.0.0.2)"
    assert caught.value.hint == ("start every node from the same image, by digest; the lines above say what differs")


def test_a_faulty_node_is_told_what_differs_and_the_others_who_is_at_fault() -> None:
    with (
        head(nodes=3) as it,
        reporting(it.port, report("w1", digest=WRONG)) as faulty,
        reporting(it.port, report("w2"), source="127.0.0.2") as well,
    ):
        with ThreadPoolExecutor() as threads:
            heard = threads.submit(leave_when_refused, well)
            with pytest.raises(ClusterError), it.roll.explained():
                it.roll.gather(60)

        assert Notice.parse(rest_of(faulty).splitlines()[-1]) == Notice(
            say="refused", text=(f"tiny@v1 is {WRONG} (expected {RIGHT})",)
        )
        assert heard.result() == Notice(say="refused", text=("at fault, of 3 nodes: w1 (127.0.0.1)",))


def test_a_faulty_node_is_told_although_others_never_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollcall, "_SETTLE", 0.2)

    with head(nodes=3) as it, reporting(it.port, report("w1", digest=WRONG)), pytest.raises(ClusterError) as caught:
        it.roll.gather(60)

    assert caught.value.message == "at fault, of 3 nodes: w1 (127.0.0.1)"


def test_a_faulty_node_that_comes_again_with_the_right_model_is_well() -> None:
    with head(nodes=3) as it:
        with reporting(it.port, report("w1", digest=WRONG)):
            it.listen(until="w1 (127.0.0.1) is here, and at fault: 1 of 2 workers")
        with (
            reporting(it.port, report("w1"), source="127.0.0.9"),
            reporting(it.port, report("w2"), source="127.0.0.2"),
        ):
            it.roll.gather(60)

    assert it.told[-1] == "cluster: w2 (127.0.0.2) is here: 2 of 2 workers"


def test_a_worker_that_is_started_again_takes_its_own_place() -> None:
    with head(nodes=3) as it, reporting(it.port, report("w1")) as first:
        it.listen(until="1 of 2 workers")
        with reporting(it.port, report("w1")), reporting(it.port, report("w2"), source="127.0.0.2"):
            it.roll.gather(60)
        told = rest_of(first).splitlines()[-1]

    assert Notice.parse(told) == Notice(say="refused", text=("a newer worker has come from 127.0.0.1",))
    assert [line for line in it.told if "w1" in line] == ["cluster: w1 (127.0.0.1) is here: 1 of 2 workers"] * 2


def test_a_worker_that_goes_away_is_waited_for_anew() -> None:
    with head(nodes=2) as it:
        with reporting(it.port, report("w1")):
            it.listen(until="1 of 1 worker")
        it.listen(until="w1 (127.0.0.1) has gone again: 0 of 1 worker")
        with reporting(it.port, report("w1")):
            it.roll.gather(60)

    assert it.told[-1] == "cluster: w1 (127.0.0.1) is here: 1 of 1 worker"


def test_two_nodes_of_one_name_are_two_nodes() -> None:
    with (
        head(nodes=3) as it,
        reporting(it.port, report("localhost")),
        reporting(it.port, report("localhost"), source="127.0.0.2"),
    ):
        it.roll.gather(60)

    assert it.told[-1] == "cluster: localhost (127.0.0.2) is here: 2 of 2 workers"


def test_one_worker_too_many_is_turned_away() -> None:
    with head(nodes=2) as it, reporting(it.port, report("w1")):
        it.roll.gather(60)
        with reporting(it.port, report("w2"), source="127.0.0.2") as surplus:
            it.listen(until="turned w2 (127.0.0.2) away")
            told = rest_of(surplus)

    assert Notice.parse(told) == Notice(say="refused", text=("the 2 nodes of this training are there already",))


def test_who_comes_after_the_start_is_turned_away() -> None:
    with head(nodes=2) as it, reporting(it.port, report("w1")):
        it.roll.gather(60)
        it.roll.go("127.0.0.1:6379")
        with reporting(it.port, report("w1"), source="127.0.0.2") as late:
            it.listen(until="turned w1 (127.0.0.2) away")
            told = rest_of(late)

    assert Notice.parse(told) == Notice(
        say="refused", text=("the training has begun without this node; start all nodes again, the head first",)
    )


def test_a_worker_that_is_lost_after_the_start_is_named() -> None:
    with head(nodes=2) as it:
        with reporting(it.port, report("w1")):
            it.roll.gather(60)
            it.roll.go("127.0.0.1:6379")
        it.listen(until="gone")

        assert list(map(str, it.roll.left)) == ["w1 (127.0.0.1)"]
    assert it.told[-1] == "cluster: w1 (127.0.0.1) has gone while it was needed: its own log says why"


def test_an_address_that_is_translated_on_the_way_is_told() -> None:
    with (
        head(nodes=2) as it,
        reporting(it.port, report("w1"), source="127.0.0.2", address="172.17.0.2"),
        pytest.raises(ClusterError),
    ):
        it.roll.gather(60)

    assert it.told[-1] == (
        "  takes 172.17.0.2 for its own address, and comes from 127.0.0.2: Ray's nodes must reach each other without "
        "translation, as with `docker run --network host`"
    )


def test_too_few_workers_in_time_names_those_that_came() -> None:
    with head(nodes=4) as it, reporting(it.port, report("w1")):
        it.listen(until="w1 (127.0.0.1) is here")
        with pytest.raises(ClusterError) as caught:
            it.roll.gather(0.2)

    assert caught.value.message == "expected 3 workers, and 1 came within 0.2 s: w1 (127.0.0.1)"
    assert caught.value.hint == (
        f"do the others run `ray-worker` with this head's address, and do they reach its port {it.port}? "
        "BAKE_CLUSTER_TIMEOUT gives them more seconds"
    )


def test_head_and_workers_are_reminded_of_whom_they_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollcall, "_REMIND", 0)  # at every turn

    with head(nodes=3) as it, reporting(it.port, report("w1")):
        it.listen(until="w1 (127.0.0.1) is here")
        with pytest.raises(ClusterError):
            it.roll.gather(0.1)

    assert it.told[-1] == "cluster: still waiting: 1 of 2 workers came so far: w1 (127.0.0.1)"


NOISE = {
    "a request for a page": b"GET / HTTP/1.1\r\nHost: head\r\n\r\n",
    "no JSON": b"{\n",
    "bytes of another protocol": b"\x16\x03\x01\x02\x00\xff\xfe\n",
    "JSON of another kind": b"[1]\n",
    "JSON nested without end": b"[" * 100_000 + b"\n",
    "a number without end": b"1" * 100_000 + b"\n",
    "another version of the protocol": b'{"protocol": 2}\n',
    "a report that lacks a key": b'{"protocol": 1, "host": "w1"}\n',
    "models that are no pairs": json.dumps(
        {"protocol": 1, "host": "w", "bake": "1", "models": [["a"]], "faults": [], "software": [], "address": ""}
    ).encode()
    + b"\n",
    "a line without end": b"x" * (LIMIT + 1),
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE.keys())
def test_what_is_no_report_is_answered_and_dropped(noise: bytes) -> None:
    with head(nodes=2) as it, connect(it.port) as stranger:
        stranger.sendall(noise)
        notice = Notice.parse(it.answer(stranger))
        with reporting(it.port, report("w1")):
            it.roll.gather(60)

    assert notice.say == "refused"
    assert notice.text[0].startswith("expected the report of a bake worker, found ")
    assert it.told[1:] == ["cluster: w1 (127.0.0.1) is here: 1 of 1 worker"]


def test_two_hundred_silent_connections_keep_no_worker_out() -> None:
    with head(nodes=2) as it, ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(connect(it.port))
        stack.enter_context(reporting(it.port, report("w1")))
        it.roll.gather(60)

    assert it.told[1:] == ["cluster: w1 (127.0.0.1) is here: 1 of 1 worker"]


def test_a_report_that_comes_in_pieces_is_one_report() -> None:
    with head(nodes=2) as it, connect(it.port) as slow:
        line = (
            b'{"protocol": 1, "host": "w1", "bake": "1", "models": [], "faults": [], "software": [], "address": ""}\n'
        )
        with ThreadPoolExecutor() as threads:
            sent = threads.submit(send_slowly, slow, [line[at : at + 20] for at in range(0, len(line), 20)])
            it.listen(until="w1 (127.0.0.1) is here")
        sent.result()

    assert it.told == ["cluster: w1 (127.0.0.1) is here, and at fault: 1 of 1 worker"]


def test_a_host_name_cannot_forge_lines_of_the_log() -> None:
    with head(nodes=2) as it, reporting(it.port, report("w1\ncluster: all is well\x1b[2J")):
        it.roll.gather(60)

    assert it.told[1:] == [r"cluster: 'w1\ncluster: all is well\x1b[2J' (127.0.0.1) is here: 1 of 1 worker"]


def test_a_port_that_is_taken_is_told() -> None:
    port = free_port()
    with socket.create_server(("", port)), pytest.raises(ClusterError) as caught, head(nodes=2, port=port):
        pass

    assert caught.value.message == f"cannot listen at port {port} for the workers: Address already in use"
    assert caught.value.hint == (
        "is another head here? BAKE_ROLL_CALL_PORT, the same on every node, names another port"
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_head_that_waits_ends_at_once_when_it_is_told_to(number: signal.Signals, code: int) -> None:
    port = free_port()
    with node("head", f"--roll-call-port={port}") as process:
        first = next_line(process)
        process.send_signal(number)

        assert (first, *ended(process)) == (f"cluster: expecting 1 worker at port {port}, for 600 s", code, [])


def test_a_head_with_a_fault_of_its_own_lets_nobody_in() -> None:
    with node("head", "--fault=config.json: missing") as process:
        assert ended(process) == (
            10,
            ["error: the models of the head are at fault", "hint: no worker was let in; mend this node first"],
        )
