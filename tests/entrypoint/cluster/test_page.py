"""What docs/clusters.md says is what the words take, and what Kubernetes takes."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from bake.entrypoint.cluster.meeting import Meeting

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")

PAGE = (Path(__file__).parents[3] / "docs" / "clusters.md").read_text("utf-8")
_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS: list[dict[str, Any]] = [document for block in _BLOCK.findall(PAGE) for document in yaml.safe_load_all(block)]
SERVICE, HEAD, WORKERS = DOCUMENTS


@pytest.mark.parametrize("document", DOCUMENTS, ids=["service", "head", "workers"])
def test_kubernetes_takes_the_manifest(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_the_workers_look_for_the_service_that_leads_to_the_head() -> None:
    worker = WORKERS["spec"]["template"]["spec"]["containers"][0]

    assert worker["args"] == ["ray-worker", SERVICE["metadata"]["name"]]
    assert SERVICE["spec"]["selector"] == {"job-name": HEAD["metadata"]["name"]}
    assert SERVICE["spec"]["ports"][0]["port"] == Meeting().roll_call


def test_the_page_names_every_option() -> None:
    rows = "".join(line for line in PAGE.splitlines() if line.startswith("| `--"))

    named = {name.replace("-", "_") for name in re.findall(r"`--([a-z-]+)", rows)}
    assert named == {field.name for field in fields(Meeting)}


def test_the_page_names_the_variables_that_count() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `--")]
    values = {"BAKE_CLUSTER_TIMEOUT": "7", "BAKE_RAY_PORT": "8", "BAKE_ROLL_CALL_PORT": "9", "BAKE_NODE_IP": "10.0.0.1"}

    assert set(re.findall(r"`(BAKE_[A-Z_]+)`", "".join(rows))) == set(values)
    assert Meeting.parse([], values)[0] == Meeting(timeout=7, ray_port=8, roll_call_port=9, node_ip="10.0.0.1")
