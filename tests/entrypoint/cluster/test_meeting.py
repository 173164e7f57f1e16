"""Ports, addresses and patience, from options and variables."""

from __future__ import annotations

import pytest

from bake.entrypoint.cluster.meeting import Meeting, split_address
from bake.errors import UsageError


def test_the_roll_call_is_one_port_above_ray_s() -> None:
    assert Meeting().roll_call == 6380
    assert Meeting.parse(["--ray-port=7000"], {})[0].roll_call == 7001


def test_options_count_before_variables() -> None:
    environ = {"BAKE_ROLL_CALL_PORT": "7001", "BAKE_CLUSTER_TIMEOUT": "30", "BAKE_NODE_IP": "10.0.0.1"}

    meeting, _ = Meeting.parse(["--timeout", "60"], environ)

    assert meeting == Meeting(roll_call_port=7001, timeout=60, node_ip="10.0.0.1")


def test_words_that_are_no_options_are_left_in_their_order() -> None:
    words = ["trainer.nnodes=2", "--num-gpus=0", "--object-store-memory=80000000", "--config-name", "ppo", "~a"]
    meeting = Meeting(num_gpus=0, object_store_memory=80_000_000)

    assert Meeting.parse(words, {}) == (meeting, ["trainer.nnodes=2", "--config-name", "ppo", "~a"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ray-port=http"], "argument --ray-port: expected a port from 1 to 65535, found 'http'"),
        (["--roll-call-port=65536"], "argument --roll-call-port: expected a port from 1 to 65535, found '65536'"),
        (["--node-ip=head-0"], "argument --node-ip: expected an IPv4 address, found 'head-0'"),
        (["--num-gpus=-1"], "argument --num-gpus: expected a whole number from 0, found '-1'"),
        (["--num-cpus=1.5"], "argument --num-cpus: expected a whole number from 0, found '1.5'"),
        (
            ["--object-store-memory=1g"],
            "argument --object-store-memory: expected bytes, 78643200 at least, found '1g'",
        ),
        (
            ["--object-store-memory=1000"],
            "argument --object-store-memory: expected bytes, 78643200 at least, found '1000'",
        ),
        (["--ray-port=65535"], "no port is one above Ray's 65535, and the roll call needs one"),
        (["--roll-call-port=6379"], "expected two ports, found 6379 for Ray and for the roll call"),
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


@pytest.mark.parametrize("text", ["head:", "head:http", "head:0", f"head:{'9' * 9999}"])
def test_a_port_that_is_none_is_a_usage_error(text: str) -> None:
    assert refusal(text) == (
        f"ray-worker: expected HOST or HOST:PORT, found {text!r}",
        "for example `ray-worker head-0:6379`",
    )


@pytest.mark.parametrize("text", ["", ":6379"])
def test_a_head_without_a_name_is_a_usage_error(text: str) -> None:
    assert refusal(text) == (
        f"ray-worker: expected HOST or HOST:PORT, found {text!r}",
        "the name of the head is empty: is a variable unset? For example `ray-worker head-0:6379`",
    )


@pytest.mark.parametrize("text", ["::1", "[::1]:6379", "fd00::7:6379", "ray://head:6379"])
def test_an_address_of_ipv6_is_a_usage_error(text: str) -> None:
    assert refusal(text) == (
        f"ray-worker: expected HOST or HOST:PORT, found {text!r}",
        "IPv6 is not supported: name the head by its IPv4 address, or by a name that leads to it",
    )


def test_a_head_at_the_last_port_leaves_none_for_the_roll_call() -> None:
    assert refusal("h:65535") == (
        "ray-worker: no port is one above Ray's 65535, and the roll call needs one",
        "`--roll-call-port PORT` or BAKE_ROLL_CALL_PORT, the same on every node, names another for the roll call",
    )


@pytest.mark.parametrize("port", [6380, 9000])
def test_a_roll_call_that_was_named_is_there_whatever_ray_s_port_is(port: int) -> None:
    meeting, _ = Meeting.parse([f"--roll-call-port={port}"], {})

    assert split_address("h:65535", meeting) == ("h", port)


def refusal(text: str) -> tuple[str, str | None]:
    with pytest.raises(UsageError) as caught:
        split_address(text, Meeting())
    return caught.value.message, caught.value.hint
