"""A head alone, on this machine: its port, what it asks of Ray's nodes, and a Ray that does not answer."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.cluster.ports import refuse_taken
from bake.entrypoint.cluster.ray_node import Census, Node
from bake.entrypoint.cluster.strength import refuse_weak
from bake.entrypoint.process import Watch
from bake.errors import ClusterError
from tests.entrypoint.cluster.fake_ray import fake_node, fake_ray
from tests.entrypoint.cluster.meet import HERE, RIGHT, ROOT, ended, free_port, node
from tests.entrypoint.files import write

if TYPE_CHECKING:
    from pathlib import Path

TAKEN = (
    "hint: end that one, or name another port for this head's Ray: `ray-head --ray-port PORT`; then the workers name "
    "it too: `ray-worker HOST:PORT`"
)
MORE_CPUS = (
    "hint: `--num-cpus 4` on every node, for ray-head and ray-worker, raises what Ray counts (these processes mostly "
    "wait); or give the nodes more CPUs"
)
ALONE = "cluster: trainer.nnodes=1: this head waits for nobody, and trains alone (it counts all nodes)"


def started(port: int) -> list[str]:
    return [ALONE, f"cluster: this node holds tiny@v1 {RIGHT}; starting Ray at 127.0.0.1:{port}"]


def run(site: Path, port: int, *words: str) -> tuple[int, list[str]]:
    """A head without workers, with the Ray of that folder: its exit code, and what it told."""
    options = ("--nodes=1", f"--model=tiny@v1={RIGHT}", f"--ray-port={port}", f"--roll-call-port={free_port()}")
    path = os.pathsep.join((str(ROOT), str(site)))
    with node("head", *options, *words, "--", "sh", "-c", "exit 7", PYTHONPATH=path) as process:
        return ended(process)


def test_a_head_alone_says_that_it_waits_for_nobody_and_counts_its_gpu(tmp_path: Path) -> None:
    port = free_port()

    told = run(fake_ray(tmp_path, fake_node("node-0", HERE, CPU=4, GPU=1)), port)

    assert told == (7, [*started(port), "cluster: Ray sees 1 GPU on 1 node"])


def test_ray_is_told_what_the_options_say(tmp_path: Path) -> None:
    port = free_port()
    site = fake_ray(tmp_path, fake_node("node-0", HERE, CPU=4, GPU=1))

    run(site, port, "--num-cpus=4", "--num-gpus=0", "--object-store-memory=80000000")

    assert (site / "words.txt").read_text() == (
        f"start --block --log-color=false --head --node-ip-address=127.0.0.1 --port={port} --dashboard-host=127.0.0.1 "
        "--num-cpus=4 --num-gpus=0 --object-store-memory=80000000"
    )


def test_another_ray_at_the_port_is_no_ray_of_this_head(tmp_path: Path) -> None:
    site = fake_ray(tmp_path, fake_node("stranger", HERE, CPU=64, GPU=8))
    with socket.create_server((HERE, 0)) as other:
        port = other.getsockname()[1]
        told = run(site, port)

    assert told == (
        13,
        [
            ALONE,
            f"error: port {port} is in use at 127.0.0.1, by another Ray or another program",
            TAKEN,
        ],
    )
    assert not (site / "words.txt").exists()


def test_an_address_of_another_node_is_told() -> None:
    with pytest.raises(ClusterError) as caught:
        refuse_taken("192.0.2.1", 6379)

    assert (caught.value.message, caught.value.hint) == (
        "Ray cannot listen at 192.0.2.1:6379: Cannot assign requested address",
        "`--node-ip ADDRESS` is an address of this node, `--ray-port PORT` a port that its user may listen at",
    )


def test_a_port_that_is_free_stays_free() -> None:
    port = free_port()

    refuse_taken(HERE, port)

    with socket.create_server((HERE, port)):
        pass


@pytest.mark.slow
def test_a_head_whose_ray_never_answers_tells_what_ray_said_and_of_no_firewall(tmp_path: Path) -> None:
    port = free_port()

    code, told = run(fake_ray(tmp_path), port, "--timeout=10")

    assert (code, told[:2], told[-3:]) == (
        13,
        started(port),
        [
            "ray: fake Ray starts",
            "error: Ray on the head does not answer, after 10 s",
            "hint: the lines of Ray's own above say why; BAKE_CLUSTER_TIMEOUT gives it more seconds",
        ],
    )
    assert f"ray: ConnectionError: no Ray at 127.0.0.1:{port}" in told


_FAILS_ONCE = """
import time
from pathlib import Path

def init(address, **_):
    for name in ("first", "second"):
        if not (file := Path(__file__).with_name(name)).exists():
            file.touch()
            break
    if name == "first":
        raise ConnectionError(f"no Ray at {address}")
    time.sleep(600)
"""


def ask_until(census: Census, watch: Watch, file: Path) -> None:
    """Ask as a head does while it waits, until that file is there; for a minute."""
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline, f"no {file}"
        census.ask()
        watch.turn(0.1)


def test_what_ray_said_is_told_although_it_is_being_asked_again(tmp_path: Path) -> None:
    write(tmp_path, {"ray/__init__.py": _FAILS_ONCE.encode()})
    told: list[str] = []

    with Watch() as watch:
        census = Census(watch, ray_address="127.0.0.1:1", environ={**os.environ, "PYTHONPATH": str(tmp_path)})
        ask_until(census, watch, tmp_path / "ray/second")
        census.tell_end(told.append)
        census.stop()

    assert told[-1] == "ray: ConnectionError: no Ray at 127.0.0.1:1"


@pytest.mark.slow
def test_a_node_that_does_not_come_to_ray_is_a_question_of_the_firewall(tmp_path: Path) -> None:
    roll_call, ray_port = f"--roll-call-port={free_port()}", f"--ray-port={free_port()}"
    model = f"--model=tiny@v1={RIGHT}"
    path = os.pathsep.join((str(ROOT), str(fake_ray(tmp_path, fake_node("node-0", HERE, CPU=4, GPU=1)))))
    with (
        node("head", model, roll_call, ray_port, "--timeout=8", "--", "true", PYTHONPATH=path) as head,
        node("worker", HERE, model, roll_call, PYTHONPATH=path),
    ):
        code, told = ended(head)

    assert (code, told[-2:]) == (
        13,
        [
            "error: Ray sees 1 of 2 nodes: node-0 (127.0.0.1), after 8 s",
            "hint: nodes of Ray reach each other at any port: is there a firewall between them?",
        ],
    )


def test_fewer_cpus_than_verl_reserves_end_the_head_before_verl_starts(tmp_path: Path) -> None:
    port = free_port()

    told = run(fake_ray(tmp_path, fake_node("node-0", HERE, CPU=2, GPU=1)), port, "--cpus=4")

    assert told == (
        13,
        [
            *started(port),
            "cluster: node-0 (127.0.0.1) has 2 CPUs",
            "error: Ray has 2 CPUs on 1 node, and verl reserves 4: it would wait for the missing ones for ever",
            MORE_CPUS,
        ],
    )


def nodes(*resources: tuple[int, int]) -> tuple[Node, ...]:
    return tuple(
        Node(host=f"node-{at}", address=f"10.0.0.{at}", cpus=cpus, gpus=gpus)
        for at, (cpus, gpus) in enumerate(resources)
    )


def test_the_cpus_of_all_nodes_count_together() -> None:
    told: list[str] = []

    refuse_weak(nodes((1, 1), (5, 1)), gpus_per_node=1, cpus=6, tell=told.append)

    assert told == []


def test_each_node_is_told_with_its_cpus_and_the_hint_shares_them_out() -> None:
    told: list[str] = []

    with pytest.raises(ClusterError) as caught:
        refuse_weak(nodes((1, 1), (2, 1)), gpus_per_node=1, cpus=7, tell=told.append)

    assert told == ["cluster: node-0 (10.0.0.0) has 1 CPU", "cluster: node-1 (10.0.0.1) has 2 CPUs"]
    assert caught.value.message == (
        "Ray has 3 CPUs on 2 nodes, and verl reserves 7: it would wait for the missing ones for ever"
    )
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("`--num-cpus 4` on every node")


def test_a_node_without_its_one_gpu_is_named() -> None:
    told: list[str] = []

    with pytest.raises(ClusterError) as caught:
        refuse_weak(nodes((4, 0), (4, 1)), gpus_per_node=1, cpus=0, tell=told.append)

    assert told == ["cluster: node-0 (10.0.0.0) has 0 of 1 GPU"]
    assert caught.value.message == "fewer than 1 GPU on 1 of 2 nodes"
