"""The verbs that a program calls. Each reads what it needs, joins the edges, and returns values; none prints."""

from bake.api.building import Built, build
from bake.api.buildkit import build_with_buildkit
from bake.api.changing import changed_models
from bake.api.choosing import Selection, Wanted, choose_images
from bake.api.foretelling import Foretold, foretell
from bake.api.inspecting import Forecast, forecast
from bake.api.locking import add, asked_model, check_lock, init, lock_models
from bake.api.outputs import Output, choose_output, registry_output
from bake.api.pulling import Pulled, pull
from bake.api.pushing import Pushed, push
from bake.api.rebasing import Rebased, rebase
from bake.api.remote import reference_of
from bake.api.rendering import render_model, write_renderings
from bake.api.running import Run, image_name, run, run_command
from bake.api.several import JOBS, Outcome, Way, build_several, exit_code
from bake.api.smaller import smaller_shards
from bake.api.summary import append_summary
from bake.api.verified import Verified
from bake.api.verifying import verify_target
from bake.api.workspace import Progress, Workspace
from bake.changes import Changes

__all__ = [
    "JOBS",
    "Built",
    "Changes",
    "Forecast",
    "Foretold",
    "Outcome",
    "Output",
    "Progress",
    "Pulled",
    "Pushed",
    "Rebased",
    "Run",
    "Selection",
    "Verified",
    "Wanted",
    "Way",
    "Workspace",
    "add",
    "append_summary",
    "asked_model",
    "build",
    "build_several",
    "build_with_buildkit",
    "changed_models",
    "check_lock",
    "choose_images",
    "choose_output",
    "exit_code",
    "forecast",
    "foretell",
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
