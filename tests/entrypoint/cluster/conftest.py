"""Two machines with real Ray. Skipped without BAKE_VERL or root, failed with BAKE_REQUIRE_VERL=1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.entrypoint.cluster.machines import Machine, two_machines
from tests.needs import verl_folder, without

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def machines() -> Iterator[tuple[Machine, Machine]]:
    site = verl_folder() / "site"
    try:
        pair = two_machines(site)
        found = pair.__enter__()
    except (PermissionError, FileNotFoundError) as error:
        without(f"two machines cannot be made here: {error}", required="VERL")
    try:
        yield found
    finally:
        pair.__exit__(None, None, None)
