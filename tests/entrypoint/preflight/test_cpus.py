from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.cpus import Reservation, check_cpus, reservations, reserved_cpus
from tests.entrypoint.preflight.situations import ROLLOUT, situation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
V1 = {
    "trainer.n_gpus_per_node": 1,
    "trainer.nnodes": 1,
    "trainer.use_v1": True,
    "transfer_queue.backend.storage_backend": "SimpleStorage",
    UNITS: 8,
    "ray_kwargs.ray_init.num_cpus": None,
}


def found(settings: Mapping[str, Any], ray_cpus: int | None, **environ: str) -> list[Finding]:
    return list(check_cpus(situation({**V1, **settings}, machine=Machine(ray_cpus=ray_cpus), environ=environ)))


def test_too_few_are_an_error_that_says_what_they_are_for() -> None:
    assert found({}, 2) == [
        Finding(
            check="cpus",
            severity="error",
            what="Ray has 2 CPUs here, and verl reserves 12: 1 for TransferQueue's controller; 8 for its storage "
            f"({UNITS}); 3 for workers (3 a GPU)",
            why="verl waits for the missing ones for ever, without a word, soon after it has printed its configuration",
            todo="ray_kwargs.ray_init.num_cpus=12, which raises what Ray counts (these processes mostly wait); or "
            "docker run --cpus=12, on a machine that has them",
        )
    ]


def test_fewer_storage_units_are_named_where_they_suffice() -> None:
    assert [finding.todo for finding in found({}, 5)] == [
        (
            "ray_kwargs.ray_init.num_cpus=12, which raises what Ray counts (these processes mostly wait); or "
            f"{UNITS}=1; or docker run --cpus=12, on a machine that has them"
        )
    ]


def test_more_cpus_do_not_help_where_ray_is_told_how_many_there_are() -> None:
    assert [finding.todo for finding in found({"ray_kwargs.ray_init.num_cpus": 4}, 64)] == [
        "ray_kwargs.ray_init.num_cpus=12, which raises what Ray counts (these processes mostly wait)"
    ]


def test_exactly_enough_are_right() -> None:
    assert found({}, 12) == []


def test_num_cpus_is_what_ray_believes_in() -> None:
    given = {"ray_kwargs.ray_init.num_cpus": 12}

    assert found(given, 2) == []
    assert [finding.what[:34] for finding in found({"ray_kwargs.ray_init.num_cpus": 4}, 64)] == [
        "Ray has 4 CPUs (num_cpus), and ver"
    ]


@pytest.mark.parametrize(
    ("settings", "environ"),
    [({"trainer.nnodes": 2}, {}), ({}, {"RAY_ADDRESS": "auto"}), ({"ray_kwargs.ray_init.num_cpus": "many"}, {})],
)
def test_nothing_is_said_where_this_node_is_not_all(settings: dict[str, Any], environ: dict[str, str]) -> None:
    assert found(settings, 2, **environ) == []


def test_nothing_is_said_where_ray_s_count_is_not_known() -> None:
    assert found({}, None) == []


@pytest.mark.parametrize(
    ("settings", "release", "expected"),
    [
        ({"trainer.use_v1": False}, (0, 9), [Reservation(cpus=3, thing="workers (3 a GPU)")]),
        (
            {"transfer_queue.backend.storage_backend": "MooncakeStore"},
            (0, 9),
            [
                Reservation(cpus=1, thing="TransferQueue's controller"),
                Reservation(cpus=3, thing="workers (3 a GPU)"),
            ],
        ),
    ],
)
def test_0_9_reserves_for_its_queue(
    settings: dict[str, Any], release: tuple[int, int], expected: list[Reservation]
) -> None:
    assert list(reservations(situation({**V1, **settings}, release=release))) == expected


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ((0, 8), [Reservation(cpus=1, thing="the trainer"), Reservation(cpus=12, thing="workers (3 a GPU)")]),
        (
            (0, 6),
            [
                Reservation(cpus=1, thing="the trainer"),
                Reservation(cpus=4, thing="workers (1 a GPU)"),
                Reservation(cpus=2, thing="rollout servers"),
            ],
        ),
    ],
)
def test_older_releases_reserve_for_the_trainer(release: tuple[int, int], expected: list[Reservation]) -> None:
    settings = {"trainer.n_gpus_per_node": 4, f"{ROLLOUT}.mode": "async", f"{ROLLOUT}.tensor_model_parallel_size": 2}

    assert list(reservations(situation(settings, release=release))) == expected


def test_a_cluster_reserves_for_the_trainer_once_and_for_workers_on_each_node() -> None:
    here = situation({"trainer": {"n_gpus_per_node": 8, "nnodes": 3}}, release=(0, 8))

    assert reserved_cpus(here, nodes=3) == 1 + 3 * 24
