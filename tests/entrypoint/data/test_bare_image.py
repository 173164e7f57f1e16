"""What an image lacks is said, and is no exception: a Python that finds nothing but what a test puts before it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from tests.entrypoint.data.samples import rows, write_model, write_parquet

_REPOSITORY = Path(__file__).parents[3]

_PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from bake.entrypoint.data import prepare
from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.situation import Situation
from bake.entrypoint.settings import Settings
from bake.record import RecordedModel, set_digest
file, model = sys.argv[3:]
actor = RecordedModel(name="m", version="v1", roles=("actor",), path=model, source="dir://m", commit=None,
                      set_digest=set_digest(()), files=())
situation = Situation(settings=Settings({"data": {"train_files": file, "val_files": file}}), models=(actor,),
                      machine=Machine(), environ={}, release=(0, 9))
for finding in prepare(situation, columns={}, scratch=Path("scratch")).findings:
    print(f"{finding.severity}: {finding.check}: {finding.what}")
"""


def printed(site: Path, file: str, model: Path) -> str:
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_REPOSITORY), str(site), file, str(model)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def site_without(site: Path, package: str) -> Path:
    """All that this Python has installed, but for one package."""
    site.mkdir()
    for entry in Path(pa.__file__).parents[1].iterdir():
        if not entry.name.lower().startswith(package):
            (site / entry.name).symlink_to(entry)
    return site


def test_without_pyarrow_the_data_are_not_checked(tmp_path: Path) -> None:
    file, model = write_parquet(tmp_path / "x.parquet", rows(1)), write_model(tmp_path / "model")

    assert printed(tmp_path, file, model) == (
        "error: data-files: this image has no pyarrow: the data were not checked\n"
    )


def test_without_jinja_lengths_are_not_checked(tmp_path: Path) -> None:
    file, model = write_parquet(tmp_path / "x.parquet", rows(1)), write_model(tmp_path / "model")

    assert printed(site_without(tmp_path / "site", "jinja2"), file, model) == (
        "warning: data-lengths: the prompts' lengths were not checked: this image has no jinja2\n"
    )
