"""The manifest of docs/kubernetes.md: Kubernetes' schema takes it, and its containers run, with its very words.

There is no kubelet: Docker does what one would with arguments, environment, user, capabilities, root and mounts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bake import errors
from tests.integration.engine import DOCKER, run_container
from tests.integration.training import log, outputs_of, train_words, training

if TYPE_CHECKING:
    from tests.integration.engine import Shop

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS: dict[str, Any] = {
    document["kind"]: document
    for block in BLOCK.findall(PAGE.read_text("utf-8"))
    for document in yaml.safe_load_all(block)
}
POD = DOCUMENTS["Job"]["spec"]["template"]["spec"]
VERIFY, TRAIN = POD["initContainers"][0], POD["containers"][0]
USER = POD["securityContext"]["runAsUser"]


def container_options(container: dict[str, Any]) -> dict[str, Any]:
    """What a kubelet would tell the container runtime, as Docker's options. Volumes are not among them."""
    security = container["securityContext"]
    return {
        "user": f"{USER}:{POD['securityContext']['runAsGroup']}",
        "read_only": security["readOnlyRootFilesystem"],
        "cap_drop": security["capabilities"]["drop"],
        "security_opt": ["no-new-privileges"] if not security["allowPrivilegeEscalation"] else [],
        "environ": {entry["name"]: entry["value"] for entry in container.get("env", ())},
    }


def volumes(root: Path) -> dict[str, Path]:
    """Its writable volumes but shared memory: new folders for any user, by their place in the container."""
    kinds = {volume["name"]: volume for volume in POD["volumes"]}
    mounts = [mount for mount in TRAIN["volumeMounts"] if not mount.get("readOnly")]
    places = {mount["mountPath"]: kinds[mount["name"]].get("emptyDir", {}) for mount in mounts}
    return {
        place: outputs_of(root / str(number))
        for number, (place, empty) in enumerate(places.items())
        if empty.get("medium") != "Memory"
    }


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_kubernetes_takes_the_manifest(kind: str) -> None:
    kubernetes_validate.validate(DOCUMENTS[kind], kubernetes_validate.latest_version(), strict=True)


def test_no_container_replaces_the_entrypoint() -> None:
    assert [sorted(key for key in container if key == "command") for container in (VERIFY, TRAIN)] == [[], []]


def test_a_code_of_the_entrypoints_own_fails_the_job_at_once() -> None:
    rules = DOCUMENTS["Job"]["spec"]["podFailurePolicy"]["rules"]

    assert rules[0] == {
        "action": "FailJob",
        "onExitCodes": {
            "operator": "In",
            "values": [
                errors.UsageError.code,
                errors.ImageError.code,
                errors.ModelFault.code,
                errors.PreflightFault.code,
                errors.LaunchError.code,
                errors.ClusterError.code,
            ],
        },
    }


def test_every_mount_has_its_volume() -> None:
    mounted = {mount["name"] for mount in TRAIN["volumeMounts"]}

    assert mounted == {volume["name"] for volume in POD["volumes"]}


@DOCKER
@pytest.mark.verl
def test_the_init_container_verifies(trainer: Shop) -> None:
    ran = run_container(trainer.engine, trainer.image, *VERIFY["args"], **container_options(VERIFY))

    assert (ran.code, ran.err) == (0, "")


@DOCKER
@pytest.mark.verl
def test_the_init_container_ends_with_the_code_that_the_job_does_not_try_again(trainer: Shop, tmp_path: Path) -> None:
    hidden = {f"/opt/models/{trainer.name}": tmp_path}

    ran = run_container(trainer.engine, trainer.image, *VERIFY["args"], mounts=hidden, **container_options(VERIFY))

    assert ran.code == errors.ModelFault.code


@DOCKER
@pytest.mark.verl
def test_the_jobs_container_trains_with_a_read_only_root_as_a_user_without_a_name(
    trainer: Shop, tmp_path: Path
) -> None:
    """Its very arguments, and after them those that put a CPU in the GPUs' place and end after two steps."""
    writable = volumes(tmp_path)
    options = {**container_options(TRAIN), "writable": writable}

    with training(trainer, *TRAIN["args"], *train_words("trainer.save_freq=2"), **options) as container:
        code = container.wait()
        text = log(container)

    assert code == 0, text[-4000:]
    assert set(writable) == {"/tmp", "/outputs"}  # noqa: S108 - in the container
    checkpoints = writable["/outputs"] / "checkpoints"
    assert (checkpoints / "latest_checkpointed_iteration.txt").read_text() == "2"
    assert {path.stat().st_uid for path in checkpoints.rglob("*")} == {USER}
