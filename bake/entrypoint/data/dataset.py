"""Dataset: data.custom_cls, a dataset class of the user's. What its files must hold, it alone knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.data import module
from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.entrypoint.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomDataset:
    """`finding` is what is wrong with its file, if anything."""

    path: str
    finding: Finding | None = None


def custom_dataset(settings: Settings) -> CustomDataset | None:
    """verl/utils/dataset/rl_dataset.py, get_dataset_class (0.5 to 0.6: verl/trainer/main_ppo.py)."""
    path, name = settings.get("data.custom_cls.path"), settings.get("data.custom_cls.name")
    if not isinstance(path, str):
        return None
    if path.startswith("pkg://"):
        return CustomDataset(path=path)
    if not isinstance(name, str):
        return CustomDataset(path=path, finding=_wrong("data.custom_cls.name is not given"))
    try:
        module.require(path.removeprefix("file://"), name)
    except module.ModuleError as fault:
        return CustomDataset(path=path, finding=_wrong(f"data.custom_cls.path={path} {fault}"))
    return CustomDataset(path=path)


def unmapped(columns: Mapping[str, str], custom: CustomDataset) -> tuple[Finding, ...]:
    """--map is for the columns that verl's own dataset reads."""
    if not columns:
        return ()
    given = " ".join(f"--map {field}={column}" for field, column in columns.items())
    return (
        Finding(
            check="data-columns",
            severity="error",
            what=f"{given} is given, and data.custom_cls.path={custom.path} reads the files",
            why="which columns your own class reads, it alone knows: --map would do nothing",
            todo="leave --map out and read these columns in the class, or leave data.custom_cls out",
        ),
    )


def _wrong(what: str) -> Finding:
    return Finding(
        check="data-files",
        severity="error",
        what=what,
        why="verl loads this class to read the data, once Ray is up",
        todo="mount the file, and give data.custom_cls.path and data.custom_cls.name as it is spelled there",
    )
