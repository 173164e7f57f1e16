"""Ports, addresses and patience, from options and variables."""

from __future__ import annotations

import pytest

from bake.entrypoint.cluster.meeting import Meeting, split_address
from bake.errors import UsageError


def test_the_roll_call_is_one_port_above_ray_s() -> None:
    assert Meeting.parse([], {}) == (Meeting(ray_port=6379, roll_call_port=6380, timeout=600), [])
    assert Meeting.parse(["--ray-port=7000"], {}) == (Meeting(ray_port=7000, roll_call_port=7001), [])


def test_options_count_before_variables() -> None:
    environ = {"BAKE_ROLL_CALL_PORT": "7001", "BAKE_CLUSTER_TIMEOUT": "30", "BAKE_NODE_IP": "10.0.0.1"}

    meeting, _ = Meeting.parse(["--timeout", "60"], environ)

    assert meeting == Meeting(roll_call_port=7001, timeout=60, node_ip="10.0.0.1")


def test_words_that_are_no_options_are_left_in_their_order() -> None:
    words = ["trainer.nnodes=2", "--num-gpus=1", "--config-name", "ppo", "~a"]

    assert Meeting.parse(words, {}) == (Meeting(num_gpus=1), ["trainer.nnodes=2", "--config-name", "ppo", "~a"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ray-port=http"], "argument --ray-port: expected a port from 1 to 65535, found 'http'"),
        (["--roll-call-port=65536"], "argument --roll-call-port: expected a port from 1 to 65535, found '65536'"),
        (["--node-ip=head-0"], "argument --node-ip: expected an IPv4 address, found 'head-0'"),
        (["--timeout=-1"], "argument --timeout: expected whole seconds, found '-1'"),
    ],
)
def test_an_option_that_makes_no_sense_is_a_usage_error(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Meeting.parse(words, {})

    assert caught.value.message == f"ray-head, ray-worker: {message}"


@pytest.mark.parametrize(
    ("text", "found"), [("head-0", ("head-0", 6380)), ("head-0:6379", ("head-0", 6380)), ("h:7000", ("h", 7001))]
)
def test_a_worker_names_ray_s_port_and_reports_at_the_roll_call_s(text: str, found: tuple[str, int]) -> None:
    assert split_address(text, Meeting()) == found


@pytest.mark.parametrize("text", ["head:", "head:http", "head:0"])
def test_a_port_that_is_none_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        split_address(text, Meeting())

    assert (caught.value.message, caught.value.hint) == (
        f"ray-worker: expected HOST or HOST:PORT, found {text!r}",
        "for example `ray-worker head-0:6379`",
    )
