from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake.select import Excluded, Selection, check_path, select
from bake.snapshot import SourceFile

ONE = "model.safetensors"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
PICKLE = "a second copy of the weights (PyTorch pickle beside complete safetensors)"
CONSOLIDATED = "a second copy of the weights (a consolidated file beside complete safetensors)"
ORIGINAL = "a second copy of the weights (the original format beside complete safetensors)"

PARTS = st.sampled_from(
    [
        *("model", "original", "onnx", ".git", "config.json", "README.md", "LICENSE", "tokenizer.json"),
        *("model.safetensors", "consolidated.safetensors", *SHARDS, "x.bin", "x.pth"),
        *("optimizer.pt", "x.gguf", "tf_model.h5"),
    ]
)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
FILES = st.lists(PATHS, unique=True).map(lambda paths: tuple(SourceFile(path=path, size=len(path)) for path in paths))


def listing(*paths: str) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(path=path, size=7) for path in paths)


def reasons(selection: Selection) -> dict[str, str]:
    return {file.path: file.reason for file in selection.excluded}


def kept(selection: Selection) -> list[str]:
    return [file.path for file in selection.kept]


def test_llama_keeps_what_transformers_loads_and_says_why_the_rest_is_dropped() -> None:
    model = (
        *("LICENSE", "config.json", "generation_config.json"),
        *(f"model-0000{number}-of-00004.safetensors" for number in range(1, 5)),
        *("model.safetensors.index.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"),
    )
    original = ("original/consolidated.00.pth", "original/params.json", "original/tokenizer.model")
    files = listing(*original, "README.md", "USE_POLICY.md", ".gitattributes", *reversed(model))

    assert select(files) == Selection(
        kept=listing(*model),
        excluded=(
            Excluded(path=".gitattributes", size=7, reason="a hidden file"),
            Excluded(path="README.md", size=7, reason="documentation"),
            Excluded(path="USE_POLICY.md", size=7, reason="documentation"),
            *(Excluded(path=path, size=7, reason=ORIGINAL) for path in original),
        ),
    )


def test_qwen_keeps_all_but_the_readme_and_the_hidden_file() -> None:
    model = ("LICENSE", "config.json", "generation_config.json", "merges.txt", ONE, "tokenizer.json", "vocab.json")

    selection = select(listing(".gitattributes", "README.md", *model))

    assert kept(selection) == list(model)
    assert reasons(selection) == {".gitattributes": "a hidden file", "README.md": "documentation"}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".DS_Store", "a hidden file"),
        (".cache/huggingface/x.json", "a hidden file"),
        ("sub/.hidden/config.json", "a hidden file"),
        ("__pycache__/modeling.cpython-311.pyc", "a cache file"),
        ("Thumbs.db", "a cache file"),
        ("config.json.lock", "a cache file"),
        ("ab12.incomplete", "a cache file"),
        ("config.json.metadata", "a cache file"),
        ("decoder.onnx_data", "ONNX, which verl cannot load"),
        ("onnx/config.json", "ONNX, which verl cannot load"),
        ("Model-Q4_K_M.GGUF", "GGUF or GGML, which verl cannot load"),
        ("tf_model-00001-of-00002.h5", "TensorFlow, which verl cannot load"),
        ("saved_model.pb", "TensorFlow, which verl cannot load"),
        ("flax_model.msgpack", "Flax, which verl cannot load"),
        ("openvino_model.xml", "OpenVINO, which verl cannot load"),
        ("openvino/model.bin", "OpenVINO, which verl cannot load"),
        ("text.mlpackage/Data/weight.bin", "Core ML, which verl cannot load"),
        ("metal/model.bin", "Metal, which verl cannot load"),
        ("rust_model.ot", "Rust's own format, which verl cannot load"),
        ("optimizer.pt", "left behind by a training run"),
        ("rng_state_0.pth", "left behind by a training run"),
        ("training_args.bin", "left behind by a training run"),
        ("runs/events.out.tfevents.1700000000.host", "left behind by a training run"),
        ("docs/How-To.PDF", "documentation"),
        ("assets/figure.svg", "documentation"),
    ],
)
def test_a_file_that_is_never_a_model_is_dropped_with_its_reason(path: str, reason: str) -> None:
    assert reasons(select(listing(path, "pytorch_model.bin"))) == {path: reason}


@pytest.mark.parametrize("path", ["LICENSE.md", "license.txt", "NOTICE", "COPYING.pdf", "legal/LICENSE-llama.md"])
def test_a_licence_is_kept_whatever_its_format(path: str) -> None:
    assert kept(select(listing(path))) == [path]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("pytorch_model.bin", PICKLE),
        ("pytorch_model-00001-of-00002.bin", PICKLE),
        ("pytorch_model.bin.index.json", PICKLE),
        ("weights.pt", PICKLE),
        ("model.ckpt", PICKLE),
        ("consolidated.safetensors", CONSOLIDATED),
        ("consolidated.00.pth", CONSOLIDATED),
        ("consolidated-00001-of-00002.safetensors", CONSOLIDATED),
        ("consolidated.safetensors.index.json", CONSOLIDATED),
        ("original/model.safetensors", ORIGINAL),
        ("original/tokenizer.model", ORIGINAL),
    ],
)
@pytest.mark.parametrize("weights", [(ONE,), SHARDS])
def test_a_second_copy_is_dropped_beside_complete_safetensors(path: str, reason: str, weights: tuple[str, ...]) -> None:
    assert reasons(select(listing(path, *weights))) == {path: reason}


@pytest.mark.parametrize(
    "beside",
    [
        (),
        SHARDS[:1],
        ("consolidated.safetensors",),
        ("adapter_model.safetensors",),
        ("value_head.safetensors",),
        ("sub/model.safetensors",),
        ("tokenizer.safetensors",),
        ("lora.safetensors",),
        (SHARDS[0], "lora.safetensors"),
        (SHARDS[0], ONE),
    ],
)
def test_the_only_copy_of_the_weights_is_kept(beside: tuple[str, ...]) -> None:
    files = ("pytorch_model.bin", "original/consolidated.00.pth", *beside)

    assert kept(select(listing(*files))) == sorted(files)


def test_an_adapter_is_no_copy_of_the_model_beside_it() -> None:
    assert reasons(select(listing("adapter_model.bin", ONE))) == {}


def test_exclude_beats_include_and_names_its_glob() -> None:
    selection = select(listing("a.json", "b.json", "c.txt"), include=["*.json"], exclude=["c*", "b.*"])

    assert kept(selection) == ["a.json"]
    assert reasons(selection) == {"b.json": "excluded by the glob 'b.*'", "c.txt": "excluded by the glob 'c*'"}


@pytest.mark.parametrize("glob", ["docs", "docs/", "docs/*", "*/deep", "do[c]s"])
def test_a_glob_that_names_a_folder_matches_all_that_is_below_it(glob: str) -> None:
    assert kept(select(listing("docs/deep/a.json", "docs.json", "x/docs.json"), exclude=[glob])) == [
        "docs.json",
        "x/docs.json",
    ]


def test_globs_mind_case_and_cross_folders() -> None:
    assert kept(select(listing("a/b.json", "a/B.JSON", "b.json"), exclude=["*.json"])) == ["a/B.JSON"]


def test_what_the_source_skipped_is_listed_among_the_excluded() -> None:
    skipped = Excluded(path=".git/", size=None, reason="a hidden folder")

    selection = select(listing(".gitattributes", "config.json"), skipped=[skipped])

    assert selection.excluded == (
        skipped,
        Excluded(path=".gitattributes", size=7, reason="a hidden file"),
    )


@given(files=FILES)
def test_every_file_comes_out_once_in_order(files: tuple[SourceFile, ...]) -> None:
    selection = select(files)
    dropped = [file.path for file in selection.excluded]

    assert sorted(kept(selection) + dropped) == sorted(file.path for file in files)
    assert (kept(selection), dropped) == (sorted(kept(selection)), sorted(dropped))


@given(files=FILES)
def test_an_unrelated_file_changes_nothing_else(files: tuple[SourceFile, ...]) -> None:
    before, after = select(files), select((*files, *listing("zz-unrelated.txt")))

    assert (after.kept, after.excluded) == ((*before.kept, *listing("zz-unrelated.txt")), before.excluded)


@given(files=FILES)
def test_include_brings_back_whatever_a_rule_drops(files: tuple[SourceFile, ...]) -> None:
    assert select(files, include=["*"]).excluded == ()


@given(files=FILES)
def test_the_order_of_the_listing_does_not_matter(files: tuple[SourceFile, ...]) -> None:
    assert select(files) == select(files[::-1])


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("", "is empty"),
        ("/etc/passwd", "is not relative: it starts with '/'"),
        ("a//b", "has an empty component (a double '/' or one at its end)"),
        ("a/", "has an empty component (a double '/' or one at its end)"),
        ("..", "has the component '..'"),
        ("a/../b", "has the component '..'"),
        ("./a", "has the component '.'"),
        ("a\\b", "holds a backslash"),
        ("a\nb", "holds the control character U+000A"),
        ("a\x7f", "holds the control character U+007F"),
        ("a\0", "holds the control character U+0000"),
        ("a\udcff", "is not valid UTF-8"),
        ("a/.wh.config.json", "has the component '.wh.config.json': in an image layer '.wh.' deletes a file"),
        ("a/" + "é" * 128, "has a component of 256 bytes (at most 255)"),
        ("/".join(["a" * 200] * 6), "is 1205 bytes long (at most 1024)"),
    ],
)
def test_a_path_that_no_image_can_hold_is_refused(path: str, fault: str) -> None:
    assert check_path(path) == fault


@pytest.mark.parametrize(
    "path", ["config.json", "a/b/c.bin", ".gitattributes", "模型/重み.bin", "a b", "a" * 255, "..a"]
)
def test_a_path_that_an_image_can_hold_passes(path: str) -> None:
    assert check_path(path) is None


@given(path=st.text(st.characters() | st.sampled_from("/.\\\n"), max_size=300))
def test_a_path_that_passes_stays_below_its_folder_and_is_its_own_canonical_form(path: str) -> None:
    parts = path.split("/")
    canonical = "/".join(part for part in parts if part not in {"", ".", ".."})

    assert check_path(path) is not None or (path == canonical and not {"\\", "\n"} & set(path))
