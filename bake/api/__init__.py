"""The verbs that a program calls. Each reads what it needs, joins the edges, and returns values; none prints."""

from bake.api.building import Built, build
from bake.api.buildkit import build_with_buildkit
from bake.api.inspecting import Forecast, forecast
from bake.api.locking import add, asked_model, check_lock, init, lock_models
from bake.api.outputs import Output, choose_output, registry_output
from bake.api.pulling import Pulled, pull
from bake.api.pushing import Pushed, push
from bake.api.rebasing import Rebased, rebase
from bake.api.remote import reference_of
from bake.api.rendering import render_model, write_renderings
from bake.api.resharding import smaller_shards
from bake.api.running import Run, image_name, run, run_command
from bake.api.verified import Verified
from bake.api.verifying import verify_target
from bake.api.workspace import Progress, Workspace

__all__ = [
    "Built",
    "Forecast",
    "Output",
    "Progress",
    "Pulled",
    "Pushed",
    "Rebased",
    "Run",
    "Verified",
    "Workspace",
    "add",
    "asked_model",
    "build",
    "build_with_buildkit",
    "check_lock",
    "choose_output",
    "forecast",
    "image_name",
    "init",
    "lock_models",
    "pull",
    "push",
    "rebase",
    "reference_of",
    "registry_output",
    "render_model",
    "run",
    "run_command",
    "smaller_shards",
    "verify_target",
    "write_renderings",
]
