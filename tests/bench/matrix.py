"""How quickly bake says what CI must build: a lock of 50 models in a scratch repository, one of them changed.

`bake matrix --since HEAD` stands against `git diff HEAD`, which answers for lines and not for images.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))

from bake.lock import Lock
from bake.lock.dump import dumps
from tests.bench.measure import Table, against, bake, compare, parser, report, run, scratch_folder
from tests.bench.start import large_model

if TYPE_CHECKING:
    from bake.lock import LockedModel

MODELS = 50
FILES = 40
IDENTITY = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    models = [large_model(number, files=FILES) for number in range(MODELS)]
    with scratch_folder(options.folder) as folder:
        lock, git = folder / "models.lock", ("git", "-C", str(folder))
        lock.write_text(dumps(Lock(models=tuple(models))), "utf-8")
        run((*git, "init", "-q"))
        run((*git, "add", "models.lock"))
        run((*git, *IDENTITY, "commit", "-q", "-m", "fifty models"))
        lock.write_text(dumps(Lock(models=(changed(models[0]), *models[1:]))), "utf-8")
        rows = compare(
            "matrix",
            {
                "git diff HEAD": lambda: run((*git, "diff", "--exit-code", "HEAD"), codes=(1,)),
                "bake --version": lambda: run(bake("--version")),
                "bake list": lambda: run(bake("--lock", lock, "list")),
                "bake matrix --since HEAD": lambda: run(bake("--lock", lock, "matrix", "--since", "HEAD")),
            },
            rounds=options.rounds,
        )
    title = f"What changed in a lock of {MODELS} models with {MODELS * FILES:,} files"
    report((Table(title, against(rows[0], rows)),), path=options.json)


def changed(model: LockedModel) -> LockedModel:
    """The model after its last shard was trained on."""
    *others, last = model.files
    files = (*others, replace(last, digest=others[0].digest))
    return model.resolve(files=files, excluded=(), commit=model.commit)


if __name__ == "__main__":
    main()
