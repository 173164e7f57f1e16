"""The verbs that a program calls. Each reads what it needs, joins the edges, and returns values; none prints."""

from bake.api.building import Built, build
from bake.api.inspecting import Forecast, forecast
from bake.api.locking import add, asked_model, check_lock, init, lock_models
from bake.api.verifying import Verified, verify_target
from bake.api.workspace import Progress, Workspace

__all__ = [
    "Built",
    "Forecast",
    "Progress",
    "Verified",
    "Workspace",
    "add",
    "asked_model",
    "build",
    "check_lock",
    "forecast",
    "init",
    "lock_models",
    "verify_target",
]
