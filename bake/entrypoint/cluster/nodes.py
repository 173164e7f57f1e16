"""A program of its own: prints the nodes that Ray has, as one line of JSON whenever they change, until it is ended.

Beside the entrypoint, so that nothing of Ray is imported there: `python -m bake.entrypoint.cluster.nodes HOST:PORT`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def watch(address: str) -> None:
    """Never returns. Raises ConnectionError, and what else Ray raises, where no Ray answers."""
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    before = None
    while True:
        line = json.dumps(alive(ray.nodes()))
        if line != before:
            print(line, flush=True)  # noqa: T201 - this program's result
            before = line
        time.sleep(0.5)


def alive(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The nodes of `ray.nodes()` that live, by name and address: Ray's own order is another from run to run."""
    found = [_document(node) for node in nodes if node["Alive"]]
    return sorted(found, key=lambda node: (node["host"], node["address"]))


def _document(node: dict[str, Any]) -> dict[str, Any]:
    """A node as `ray.nodes()` has it. NPUs count where there are no GPUs, as for verl.

    verl 0.9.1: single_controller/ray/base.py:230.
    """
    resources = node["Resources"]
    return {
        "host": node["NodeManagerHostname"],
        "address": node["NodeManagerAddress"],
        "cpus": resources.get("CPU", 0),
        "gpus": resources.get("GPU", resources.get("NPU", 0)),
    }


if __name__ == "__main__":
    watch(sys.argv[1])
