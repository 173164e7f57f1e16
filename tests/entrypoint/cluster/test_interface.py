"""Which interface torch's gloo is told to use."""

from __future__ import annotations

import pytest

from bake.entrypoint.cluster.interface import gloo_environment, interface_of


def test_an_address_leads_to_its_interface() -> None:
    assert interface_of("127.0.0.1") == "lo"


def test_an_address_that_is_not_here_has_no_interface() -> None:
    assert interface_of("192.0.2.1") is None


@pytest.mark.parametrize("address", ["127.0.0.1", "192.0.2.1"])
def test_gloo_is_told_nothing_of_a_loopback_or_of_an_address_elsewhere(address: str) -> None:
    assert gloo_environment(address) == {}
