from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.data.listing import Listing, Named, list_files, listing_findings, remote_findings
from bake.entrypoint.finding import Finding
from bake.entrypoint.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def listed(files: object, *, split: Any = "train", given: bool = True) -> Listing:
    key = f"data.{split}_files"
    return list_files(split, Settings({"data": {f"{split}_files": files}}, frozenset({key} if given else ())))


def touch(folder: Path, *names: str) -> list[str]:
    return [str(_touched(folder / name)) for name in names]


def _touched(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def test_a_file_is_itself(tmp_path: Path) -> None:
    [file] = touch(tmp_path, "a.parquet")

    assert listed(file) == Listing(split="train", key="data.train_files", named=(Named(given=file, files=(file,)),))


def test_a_list_keeps_its_order_and_names_a_file_once(tmp_path: Path) -> None:
    first, second = touch(tmp_path, "b.parquet", "a.parquet")

    assert listed([first, second, first]).files == (first, second)


def test_a_glob_is_its_files_sorted_and_verl_finds_them_too(tmp_path: Path) -> None:
    files = touch(tmp_path, "a.parquet", "b.parquet")
    touch(tmp_path, "c.txt")

    assert listed(f"{tmp_path}/*.parquet").named == (Named(given=f"{tmp_path}/*.parquet", files=tuple(files)),)


def test_a_home_folder_is_spelled_out_as_verl_does_not_expand_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    [file] = touch(tmp_path, "a.parquet")

    assert listed("~/a.parquet").named == (Named(given="~/a.parquet", files=(file,), direct=False),)


def test_a_folder_is_its_files(tmp_path: Path) -> None:
    files = touch(tmp_path, "a.parquet", "b.parquet")
    touch(tmp_path, "README.md", ".hidden.parquet", "_metadata.parquet")

    assert listed(f"{tmp_path}/").named == (Named(given=f"{tmp_path}/", files=tuple(files), direct=False),)


def test_a_folder_of_both_splits_gives_each_its_own(tmp_path: Path) -> None:
    train, test = touch(tmp_path, "train-00000-of-00001.parquet", "test-00000-of-00001.parquet")

    assert (listed(str(tmp_path)).files, listed(str(tmp_path), split="val").files) == ((train,), (test,))


def test_a_folder_of_folders_gives_the_split_s_own(tmp_path: Path) -> None:
    [file, _, _] = touch(tmp_path, "train/data-0.arrow", "test/data-0.arrow", "train/state.json")

    assert listed(str(tmp_path)).files == (file,)


def test_a_folder_with_the_same_rows_twice_gives_parquet(tmp_path: Path) -> None:
    _, parquet = touch(tmp_path, "train.jsonl", "train.parquet")

    assert listed(str(tmp_path)).files == (parquet,)


def test_a_folder_without_data_of_the_split_says_what_it_holds(tmp_path: Path) -> None:
    touch(tmp_path, "train.parquet")

    assert listed(str(tmp_path), split="val").findings == (
        Finding(
            check="data-files",
            severity="error",
            what=f"data.val_files: the folder {tmp_path} holds train.parquet, and no file that is plainly "
            f"validation data",
            why="verl takes files and no folder; which of these to use is not for guessing",
            todo=f"name the file: data.val_files={tmp_path}/FILE.parquet",
        ),
    )


def test_a_missing_file_gets_the_names_that_are_spelled_alike(tmp_path: Path) -> None:
    touch(tmp_path, "train.parquet", "zebra.txt")

    assert listed(f"{tmp_path}/trian.parquet").findings == (
        Finding(
            check="data-files",
            severity="error",
            what=f"data.train_files: no such file: {tmp_path}/trian.parquet; did you mean {tmp_path}/train.parquet?",
            why="verl would fail once Ray is up and the tokenizer is loaded",
            todo="mount the data into the container (docker run -v /host/data:/data) and give "
            "data.train_files=/data/FILE.parquet",
        ),
    )


def what(files: object, **options: Any) -> list[str]:
    return [finding.what for finding in listed(files, **options).findings]


def test_a_missing_file_with_no_name_alike_gets_what_its_folder_holds(tmp_path: Path) -> None:
    touch(tmp_path, "a", "b", "c", "d", "e", "f")

    assert what(f"{tmp_path}/gsm8k.parquet") == [
        f"data.train_files: no such file: {tmp_path}/gsm8k.parquet; {tmp_path} holds a, b, c, d, e and 1 more"
    ]


def test_a_missing_folder_is_told_with_the_closest_one_there_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()

    assert what(f"{tmp_path}/mnt/x/train.parquet") == [
        (
            f"data.train_files: no such file: {tmp_path}/mnt/x/train.parquet; there is no {tmp_path}/mnt, and "
            f"{tmp_path} "
            "holds data"
        )
    ]


def test_a_default_that_is_not_there_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert what("~/data/train.parquet", given=False) == [
        (
            f"data.train_files: no such file: ~/data/train.parquet (that is, {tmp_path}/data/train.parquet), which is "
            f"the default, as the setting was not given; there is no {tmp_path}/data, and {tmp_path} holds nothing"
        )
    ]


def test_a_glob_without_a_match_is_a_missing_file(tmp_path: Path) -> None:
    assert what(f"{tmp_path}/*.parquet") == [
        f"data.train_files: no such file: {tmp_path}/*.parquet; {tmp_path} holds nothing"
    ]


@pytest.mark.parametrize("files", [None, [], "", [""], 3, {"a": 1}])
def test_no_file_at_all_is_an_error(files: object) -> None:
    assert what(files) == ["data.train_files names no file"]


def test_all_missing_files_are_told_at_once(tmp_path: Path) -> None:
    assert len(what([f"{tmp_path}/a", f"{tmp_path}/b"])) == 2


@pytest.mark.parametrize("name", ["a[1].parquet", "a::b.parquet"])
def test_a_name_that_verl_s_reader_takes_for_a_pattern_is_refused(tmp_path: Path, name: str) -> None:
    [file] = touch(tmp_path, name)

    assert what(file) == [f"data.train_files: {file} is there, and its name holds `[` or `::`"]


def test_a_place_elsewhere_is_left_to_verl_and_said() -> None:
    listing = listed(["hdfs://host/a.parquet", "s3://bucket/b.parquet"])

    assert (listing.files, remote_findings(listing)) == (
        (),
        (
            Finding(
                check="data-files",
                severity="warning",
                what="data.train_files: hdfs://host/a.parquet, s3://bucket/b.parquet are not on this machine",
                why="nothing of it is checked; verl copies hdfs:// itself and hands any other address to `datasets`",
                todo="mount the data, or copy it here, to have it checked before the models are loaded",
            ),
        ),
    )


def test_a_file_address_is_the_file(tmp_path: Path) -> None:
    [file] = touch(tmp_path, "a.parquet")

    assert listed(f"file://{file}").named == (Named(given=f"file://{file}", files=(file,)),)


def test_a_name_that_is_no_text_is_found(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet")
    [file] = touch(tmp_path, name)

    assert listed(file).files == (file,)


@pytest.mark.parametrize("name", ["a\0b", "a\0*", "~nobody-such/x", "x" * 5000, "a/../*"])
def test_an_odd_name_is_a_missing_file_and_no_exception(name: str) -> None:
    assert listed(name).files == ()


def both(train: object, val: object, *given: str) -> list[str]:
    settings = Settings({"data": {"train_files": train, "val_files": val}}, frozenset(given))
    return [finding.what for finding in listing_findings(list_files("train", settings), list_files("val", settings))]


def test_validation_files_that_follow_the_training_s_are_told_of_once_and_are_no_default(tmp_path: Path) -> None:
    missing = f"{tmp_path}/x"

    assert both([missing, "s3://b/c"], [missing, "s3://b/c"], "data.train_files") == [
        f"data.train_files: no such file: {missing}; {tmp_path} holds nothing",
        "data.train_files: s3://b/c is not on this machine",
    ]


def test_a_folder_that_holds_one_split_is_told_of_for_the_other(tmp_path: Path) -> None:
    touch(tmp_path, "train.parquet")

    assert both(str(tmp_path), str(tmp_path), "data.train_files") == [
        f"data.val_files: the folder {tmp_path} holds train.parquet, and no file that is plainly validation data"
    ]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def others() -> Iterator[Path]:
    """A folder of root's that uid 65534 may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    touch(folder / "closed", "train.parquet")
    (folder / "train.parquet").write_bytes(b"x")
    (folder / "train.parquet").chmod(0o600)
    (folder / "closed").chmod(0o700)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def as_nobody(others: Path) -> Iterator[Callable[[str], Any]]:
    os.seteuid(65534)
    yield lambda name: listed(f"{others}/{name}").findings
    os.seteuid(0)


@needs_root
@pytest.mark.parametrize("name", ["closed/train.parquet", "closed/*.parquet"])
def test_a_file_in_a_folder_that_may_not_be_entered_is_not_called_missing(
    as_nobody: Callable[[str], Any], others: Path, name: str
) -> None:
    assert as_nobody(name) == (
        Finding(
            check="data-files",
            severity="error",
            what=f"data.train_files: {others}/{name} cannot be read by uid 65534 ({others}/closed is closed to it)",
            why="verl reads the data as this user, and would fail once Ray is up and the tokenizer is loaded",
            todo="on the host: chmod -R a+rX on what is mounted there; or run the container as the owner: "
            "docker run --user 0:0 (Kubernetes: securityContext.runAsUser)",
        ),
    )


@needs_root
@pytest.mark.parametrize("name", ["closed", "train.parquet"])
def test_a_folder_or_file_that_may_not_be_read_is_not_called_empty(
    as_nobody: Callable[[str], Any], others: Path, name: str
) -> None:
    assert [finding.what for finding in as_nobody(name)] == [
        f"data.train_files: {others}/{name} cannot be read by uid 65534"
    ]
