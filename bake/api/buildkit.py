"""`build --builder docker`: the rendered Dockerfile, built by BuildKit, then checked before anything names the image.

BuildKit checks what it fetches, and nothing of what it copies from a folder; so a folder is compared with the lock
first, and every file of the finished image afterwards.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bake import buildx, disk, plan, render
from bake.api.bases import find_in_daemon, locked_digest, source_layout
from bake.api.building import Built, check_name, from_hub
from bake.api.locking import differences
from bake.api.rendering import render_plan, write_rendered
from bake.api.resolving import resolve
from bake.api.scanning import known_tokens, refuse_tokens, refuse_tokens_in
from bake.api.verifying import refuse, verify_image
from bake.api.wheels import open_wheels
from bake.api.workspace import offline_error, shown_path
from bake.daemon import Daemon
from bake.digest import CHUNK
from bake.errors import CheckFailed, SourceError
from bake.layout import Layout
from bake.scan import Scanner
from bake.store import building
from bake.tar import DIRECTORY_MODE, FILE_MODE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from bake.api.outputs import Output
    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.image import Image
    from bake.lock import ModelId
    from bake.plan import ImagePlan

_REPRODUCIBLE = "rewrite-timestamp=true,compression=uncompressed,force-compression=true"


def build_with_buildkit(
    workspace: Workspace, model: ModelId, *, output: Output, builder: str | None = None, quiet: bool = False
) -> Built:
    """Build the image of a model with `docker buildx`, on a builder by name or on the one in use.

    Raises what `bake.api.building.build` does. The lock is not written: BuildKit's layers teach it nothing.
    """
    image_plan = plan.plan_image(workspace.load(), model)
    if workspace.offline and any(planned.model.source.startswith("hf://") for planned in image_plan.models):
        raise offline_error(f"{model}: BuildKit fetches its files from the Hub; what it needs")
    render.check(image_plan)
    _check_folders(workspace, image_plan)
    with tempfile.TemporaryDirectory(prefix="bake-") as folder:
        request = _request(workspace, image_plan, Path(folder), builder=builder, quiet=quiet)
        if output.kind == "docker":
            return _into_daemon(workspace, image_plan, request, output)
        return _into_layout(workspace, image_plan, request, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A build that lacks only its output."""

    folder: Path
    contexts: dict[str, str]
    builder: str | None
    quiet: bool
    secret: str | None
    token: str | None

    def to(self, output: str, *, tag: str) -> buildx.Request:
        return buildx.Request(
            context=self.folder / "context",
            contexts=self.contexts,
            output=output,
            tag=tag,
            builder=self.builder,
            quiet=self.quiet,
            secret=self.secret,
            token=self.token,
        )


def _request(
    workspace: Workspace, image_plan: ImagePlan, folder: Path, *, builder: str | None, quiet: bool
) -> _Request:
    base = image_plan.base
    contexts: dict[str, str] = {}
    base_layers: int | None = None
    if base is None:
        base_layers = 0
    elif (digest := locked_digest(base)) and base.image.startswith("oci:"):
        layout, image = source_layout(workspace, base, digest)
        contexts[render.BASE] = f"oci-layout://{layout.path}@{base.digest}"
        base_layers = len(image.manifest.layers)
    elif base.image.startswith("docker:"):
        with contextlib.closing(Daemon.connect()) as daemon:
            base_layers = len(find_in_daemon(workspace, base, digest, daemon).config.diff_ids)
    rendered = render_plan(workspace, image_plan, base_layers=base_layers)
    write_rendered(rendered, folder / "context")
    if base is not None and base.wheels:
        with open_wheels(workspace, base.wheels) as files:
            for path, read in files.items():
                disk.write(folder / "wheels" / plan.SITE / path, read(), sync=False)
        for made in (folder / "wheels").rglob("*"):  # BuildKit copies modes, and a umask is the user's own
            made.chmod(DIRECTORY_MODE if made.is_dir() else FILE_MODE)
        contexts[render.WHEELS] = str(folder / "wheels")
    hub = any(planned.model.source.startswith("hf://") for planned in image_plan.models)
    token = next(iter(known_tokens()), None) if hub else None
    return _Request(
        folder=folder,
        contexts=contexts | rendered.contexts,
        builder=builder,
        quiet=quiet,
        secret=rendered.secret_id if token else None,
        token=token,
    )


def _check_folders(workspace: Workspace, image_plan: ImagePlan) -> None:
    for planned in image_plan.models:
        if planned.model.source.startswith("dir://"):
            lines = differences(planned.model, resolve(workspace, planned.model))
            if lines:
                raise SourceError(
                    "\n".join(lines), hint="a changed model is a new version: bake add NAME@NEW_VERSION SOURCE"
                )


def _into_daemon(workspace: Workspace, image_plan: ImagePlan, request: _Request, output: Output) -> Built:
    """Build under a name that nobody uses; the real one moves to the image when all of it was checked."""
    unchecked = f"bake-unchecked/{image_plan.id.name}:{secrets.token_hex(8)}"
    with contextlib.closing(Daemon.connect()) as daemon:
        check_name(daemon, output.place, image_plan.id)
        try:
            buildx.build(request.to("type=docker", tag=unchecked))
            size = _check_in_daemon(workspace, image_plan, daemon, unchecked)
            daemon.tag(unchecked, output.place)
        finally:
            if daemon.image(unchecked):
                daemon.remove(unchecked)
        made = daemon.named(output.place)
        reference = f"{output.place}@{made.id}" if daemon.store == "containerd" else output.place
    return _built(image_plan, output, digest=made.id, reference=reference, size=size, layers=len(made.config.diff_ids))


def _into_layout(workspace: Workspace, image_plan: ImagePlan, request: _Request, output: Output) -> Built:
    target = Layout(Path(output.place))
    with workspace.store.holding(building(target.path)), target.preparing(str(image_plan.id)):
        made = Layout(target.partial / "buildkit")
        tag = f"{image_plan.id.name}:{image_plan.id.version}"
        buildx.build(request.to(f"type=oci,dest={made.path},tar=false,{_REPRODUCIBLE}", tag=tag))
        image = made.image()
        refuse(verify_image(image, made, target=f"{image_plan.id}, as built", expected=image_plan.record, level="full"))
        below, public = _told_apart(image_plan, image)
        refuse_tokens(image, made, proven=below, public=public)
        target.adopt(made, image)
        target.publish(image, model=str(image_plan.id), tag=image_plan.id.version)
    digest = image.descriptor.digest
    return _built(
        image_plan,
        output,
        digest=digest,
        reference=f"oci:{shown_path(target.path)}@{digest}",
        size=sum(layer.size for layer in image.manifest.layers),
        layers=len(image.manifest.layers),
    )


def _told_apart(image_plan: ImagePlan, image: Image) -> tuple[set[Digest], set[Digest]]:
    """The base's layers, and those whose bytes are public: weights of the Hub, and wheels.

    The Dockerfile's own come last: weights, wheels, program, and the one that WORKDIR makes.
    """
    own = len(image_plan.layers) + bool(image_plan.search_path) + 1 + (image_plan.base is not None)
    layers = [layer.digest for layer in image.manifest.layers]
    weights = zip(image_plan.layers, layers[-own:], strict=False)
    public = {digest for item, digest in weights if from_hub(image_plan, item.model)}
    wheels = layers[-own:][len(image_plan.layers) :][:1] if image_plan.search_path else []
    return set(layers[:-own]), public | set(wheels)


def _built(image_plan: ImagePlan, output: Output, **made: object) -> Built:
    return Built(
        id=image_plan.id,
        output=output,
        written=len(image_plan.layers),
        written_bytes=sum(layer.size for layer in image_plan.layers),
        sent_bytes=0,
        recorded=False,
        runs=image_plan.base is not None,
        **made,  # type: ignore[arg-type]
    )


def _check_in_daemon(workspace: Workspace, image_plan: ImagePlan, daemon: Daemon, name: str) -> int:
    """Prove every baked file of an image in the daemon, and search what is not proven for tokens; returns its size."""
    image = daemon.named(name)
    refuse_tokens_in([("config", image.config.dumps()), ("history", daemon.history(name).encode())])
    expected = {f"{item.folder}/{file.path}": file for item in image_plan.models for file in item.model.files}
    total = sum(planned.model.size for planned in image_plan.models)
    faults = []
    with workspace.progress.task(f"{image_plan.id}: checking", total) as advance:
        private = {item.folder for item in image_plan.models if not from_hub(image_plan, item.model.id)}
        for path, size, digest, holds_token in _read_files(daemon, name, private, advance):
            file = expected.pop(path, None)
            if file is not None and (size, digest) != (file.size, file.digest.hex):
                faults.append(f"/{path}: expected {file.digest} of {file.size} bytes, found sha256:{digest} of {size}")
            if file is None and path.startswith(plan.MODELS):
                faults.append(f"/{path}: not in the lock")
            if holds_token and not plan.is_weights(path):
                faults.append(f"/{path}: holds a token")
    faults += [f"/{path}: missing" for path in expected]
    if faults:
        raise CheckFailed(
            "\n".join([f"{image_plan.id}: the image that BuildKit made is not as locked", *sorted(faults)])
        )
    return image.size


def _read_files(
    daemon: Daemon, name: str, private: Collection[str], advance: Callable[[int], object]
) -> Iterator[tuple[str, int, str, bool]]:
    """Path, size, sha256 and whether there is a token in it, for every file that bake put into an image.

    In files that are not in a `private` folder, and so public, this user's own tokens are looked for.
    """
    tokens = known_tokens()
    for folder in (plan.MODELS, "opt/bake"):
        for path, size, stream in daemon.files(name, folder):
            hasher, scanner = hashlib.sha256(), Scanner(tokens, shaped=path.startswith(tuple(private)))
            while content := stream.read(CHUNK):
                hasher.update(content)
                scanner.show(content)
                advance(len(content))
            yield path, size, hasher.hexdigest(), scanner.found
