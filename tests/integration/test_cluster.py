"""Two nodes, each a container on a host of its own, with real Ray between them and real verl on top.

The GPUs are stand-ins, a CPU on each node that verl takes for one (tests/verl_cpu); Ray is told of them by --num-gpus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.cable import Host, two_hosts
from tests.integration.engine import DOCKER, start_container
from tests.integration.training import (
    SECOND_SHARD,
    has_started_ray,
    log,
    outputs_of,
    places,
    training,
    without_shard,
)
from tests.verl_cpu.settings import CPU, SMALL, TWO_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.engine import Shop

pytestmark = [DOCKER, pytest.mark.verl]

NODE = ("--num-cpus=16", "--num-gpus=1")
NODES = ("trainer.nnodes=2", "trainer.n_gpus_per_node=1")
HEAD = ("ray-head", *NODE, *CPU, *SMALL, *TWO_STEPS, *NODES)


@pytest.fixture
def hosts(trainer: Shop) -> Iterator[tuple[Host, Host]]:
    with two_hosts(trainer.engine, "head-0", "worker-0") as found:
        yield found


def test_two_nodes_train_as_one_and_both_end_with_verls_code(
    trainer: Shop, hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    first, second = hosts
    options = {"writable": {"/outputs": outputs_of(tmp_path)}, **places(trainer)}
    joining = ("ray-worker", first.name, *NODE)

    with (
        training(trainer, *HEAD, network_mode=first.network, **options) as head,
        start_container(trainer.engine, trainer.image, *joining, network_mode=second.network, **options) as worker,
    ):
        codes = head.wait(), worker.wait()
        said = log(head), log(worker)

    assert codes == (0, 0), "\n".join(said)[-8000:]
    assert f"cluster: all 2 nodes hold {trainer.model} sha256:" in said[0]
    assert "cluster: the training ended with code 0, and so does this worker" in said[1]
    run = tmp_path / "outputs" / trainer.model.replace("@", "-") / "verl_examples" / "gsm8k"
    saved = run / "global_step_2" / "actor"
    assert {path.name for path in saved.glob("model_*")} == {
        "model_world_size_2_rank_0.pt",
        "model_world_size_2_rank_1.pt",
    }


def test_a_node_with_a_broken_model_is_named_and_nothing_is_started(trainer: Shop, hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    broken = without_shard(trainer)
    joining = ("ray-worker", first.name, *NODE)

    with (
        start_container(trainer.engine, trainer.image, *HEAD, network_mode=first.network, **places(trainer)) as head,
        start_container(trainer.engine, broken, *joining, network_mode=second.network) as worker,
    ):
        codes = head.wait(), worker.wait()
        rays = has_started_ray(head), has_started_ray(worker)
        said = head.get_logs()[1].decode()

    name = f"{second.name} ({second.address})"
    assert codes == (13, 10)
    assert rays == (False, False)
    assert said.endswith(
        f"cluster: {name} is at fault:\n"
        f"  /opt/models/{trainer.name}/{SECOND_SHARD}: missing: expected 36,768 bytes, found no such file\n"
        f"error: at fault, of 2 nodes: {name}\n"
        "hint: start every node from the same image, by digest; the lines above say what differs\n"
    )
