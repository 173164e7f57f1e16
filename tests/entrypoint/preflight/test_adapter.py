from __future__ import annotations

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.adapter import check_adapter
from tests.entrypoint.preflight.situations import MODEL, situation

ADAPTER = {f"{MODEL}.lora_adapter_path": "/adapter"}


def test_an_adapter_that_the_engine_passes_over_is_an_error() -> None:
    assert list(check_adapter(situation({**ADAPTER, f"{MODEL}.lora_rank": 0}, release=(0, 8)))) == [
        Finding(
            check="lora",
            severity="error",
            what=f"{MODEL}.lora_adapter_path=/adapter, and lora_rank is 0",
            why="verl loads no adapter then and trains all weights of the model, while its trainer takes the actor "
            "without an adapter for the reference, which is the actor itself",
            todo=f"{MODEL}.lora_rank=R, the `r` in /adapter/adapter_config.json; or leave "
            f"{MODEL}.lora_adapter_path out",
        )
    ]


@pytest.mark.parametrize("release", [(0, 5), (0, 7), None])
def test_before_0_8_the_folder_alone_will_do(release: tuple[int, int] | None) -> None:
    assert list(check_adapter(situation(ADAPTER, release=release))) == []


def test_an_adapter_with_its_rank_is_right() -> None:
    assert list(check_adapter(situation({**ADAPTER, f"{MODEL}.lora_rank": 8}))) == []


def test_without_an_adapter_there_is_nothing_to_say() -> None:
    assert list(check_adapter(situation({f"{MODEL}.lora_adapter_path": None}))) == []
