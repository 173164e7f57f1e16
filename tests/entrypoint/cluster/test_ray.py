"""Two nodes and real Ray: together, with a broken node, without enough GPUs, and with a head that is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.entrypoint.cluster.machines import HEAD
from tests.entrypoint.cluster.meet import RIGHT, WRONG

if TYPE_CHECKING:
    import subprocess

    from tests.entrypoint.cluster.machines import Machine

pytestmark = pytest.mark.verl

TRAINING = """
import ray, socket, sys
ray.init(log_to_driver=False, logging_level="ERROR")
@ray.remote(num_gpus=1, num_cpus=0)
class Trainer:
    def place(self):
        return socket.gethostname()
trainers = [Trainer.remote(), Trainer.remote()]
print("trained on", *sorted(ray.get([trainer.place.remote() for trainer in trainers])), flush=True)
sys.exit(7)
"""
SLOW = ("cluster: no head at", "cluster: still waiting")
"""A worker's vain tries to find a head that is not up yet; a reminder every half minute."""

STARTED = [
    "cluster: expecting 1 worker at port 6380, for 600 s",
    "cluster: node-1 (10.251.7.2) is here: 1 of 1 worker",
    f"cluster: all 2 nodes hold tiny@v1 {RIGHT}; starting Ray at 10.251.7.1:6379",
]


def told(process: subprocess.Popen[str]) -> list[str]:
    """All that a node tells until it ends, but for what a slow machine alone makes it tell."""
    output, _ = process.communicate(timeout=240)
    return [line for line in output.splitlines() if not line.startswith(SLOW)]


def lines_until(process: subprocess.Popen[str], last: str) -> list[str]:
    """What a node tells up to this line, or to its end."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if lines[-1] == last:
            break
    return lines


def test_two_nodes_train_as_one_and_nothing_is_left(machines: tuple[Machine, Machine]) -> None:
    first, second = machines
    with (
        first.start("head", "--num-gpus=1", command=("python3", "-c", TRAINING), pid_namespace=False) as head,
        second.start("worker", HEAD, "--num-gpus=1", pid_namespace=False) as worker,
    ):
        heads, workers = told(head), told(worker)

    assert (head.returncode, heads) == (
        7,
        [*STARTED, "cluster: Ray sees 2 GPUs on 2 nodes", "trained on node-0 node-1"],
    )
    assert (worker.returncode, workers) == (
        7,
        [
            "cluster: reported to the head; 1 of 1 worker there",
            "cluster: joining Ray at 10.251.7.1:6379",
            "cluster: the training ended with code 7, and so does this worker",
        ],
    )
    assert (first.left(), second.left()) == ("", "")


def test_a_node_with_another_model_is_named_and_ray_never_starts(machines: tuple[Machine, Machine]) -> None:
    first, second = machines
    with first.start("head", command=("true",)) as head, second.start("worker", HEAD, model=WRONG) as worker:
        heads, workers = told(head), told(worker)

    assert (head.returncode, heads) == (
        13,
        [
            STARTED[0],
            "cluster: node-1 (10.251.7.2) is here, and at fault: 1 of 1 worker",
            "cluster: node-1 (10.251.7.2) is at fault:",
            f"  tiny@v1 is {WRONG} (expected {RIGHT})",
            "error: at fault, of 2 nodes: node-1 (10.251.7.2)",
            "hint: start every node from the same image, by digest; the lines above say what differs",
        ],
    )
    assert (worker.returncode, workers[-1]) == (
        13,
        f"error: no training with the head 10.251.7.1:6380: tiny@v1 is {WRONG} (expected {RIGHT})",
    )


def test_nodes_with_too_few_gpus_are_named_and_nothing_is_left(machines: tuple[Machine, Machine]) -> None:
    first, second = machines
    with (
        first.start("head", "--gpus-per-node=2", "--num-gpus=1", command=("true",), pid_namespace=False) as head,
        second.start("worker", HEAD, "--num-gpus=2", pid_namespace=False) as worker,
    ):
        heads, workers = told(head), told(worker)

    assert (head.returncode, heads) == (
        13,
        [
            *STARTED,
            "cluster: node-0 (10.251.7.1) has 1 of 2 GPUs",
            "error: fewer than 2 GPUs on 1 of 2 nodes",
            "hint: give every node the same GPUs, or set trainer.n_gpus_per_node to what each one has",
        ],
    )
    assert (worker.returncode, workers[-1]) == (
        13,
        "error: no training with the head 10.251.7.1:6380: fewer than 2 GPUs on 1 of 2 nodes",
    )
    assert (first.left(), second.left()) == ("", "")


def test_a_worker_ends_at_once_when_its_head_is_lost(machines: tuple[Machine, Machine]) -> None:
    """Ray by itself takes a minute, ends with 1 and says otherwise."""
    first, second = machines
    with (
        first.start("head", "--num-gpus=1", command=("sh", "-c", "echo training; sleep 600")) as head,
        second.start("worker", HEAD, "--num-gpus=1", pid_namespace=False) as worker,
    ):
        lines = lines_until(head, "training")
        head.kill()
        workers = told(worker)

    assert lines[-1] == "training"
    assert (worker.returncode, workers[-2:]) == (
        13,
        [
            "error: the head 10.251.7.1:6380 has gone: its connection ended without a word",
            "hint: the head's own log says why",
        ],
    )
    assert second.left() == ""


def test_too_few_cpus_are_told_with_those_of_each_node(machines: tuple[Machine, Machine]) -> None:
    first, second = machines
    with (
        first.start("head", "--cpus=6", "--num-gpus=1", command=("true",), pid_namespace=False) as head,
        second.start("worker", HEAD, "--num-gpus=1", pid_namespace=False) as worker,
    ):
        heads, workers = told(head), told(worker)

    message = "Ray has 4 CPUs on 2 nodes, and verl reserves 6: it would wait for the missing ones for ever"
    assert (head.returncode, heads[3:6]) == (
        13,
        [
            "cluster: node-0 (10.251.7.1) has 2 CPUs",
            "cluster: node-1 (10.251.7.2) has 2 CPUs",
            f"error: {message}",
        ],
    )
    assert (worker.returncode, workers[-1]) == (13, f"error: no training with the head 10.251.7.1:6380: {message}")
    assert (first.left(), second.left()) == ("", "")


def test_a_head_never_trains_on_the_ray_of_another_head(machines: tuple[Machine, Machine]) -> None:
    first, _ = machines
    alone = ("head", "--nodes=1", "--num-gpus=1", "--node-ip=10.251.7.1")
    with first.start(*alone, command=("sh", "-c", "echo training; sleep 600")) as other:
        before = lines_until(other, "training")
        with first.start(*alone, "--roll-call-port=7000", command=("echo", "trained")) as late:
            lines = told(late)

    assert before[-1] == "training"
    assert (late.returncode, lines[1]) == (
        13,
        "error: port 6379 is in use at 10.251.7.1, by another Ray or another program",
    )
