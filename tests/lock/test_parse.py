from __future__ import annotations

from dataclasses import replace

import pytest

from bake.digest import Digest
from bake.errors import LockError
from bake.lock import Base, Lock, LockedModel, ModelId, Wheel
from bake.lock.parse import parse
from tests.lock.samples import COMMIT, FILES, HEX_A, HEX_B, LOCK, TEXT, TINY

SET = "ebbd2f2813bbfd13cf7f3ff8c2f54cc4263bf6bc2d3ed79ea4a4365e24dd956d"
HEX_CONFIG, HEX_WEIGHTS = (file.digest.hex for file in FILES)
DRAFT = 'version = 1\n\n[[model]]\nname = "tiny"\nversion = "v1"\nsource = "hf://org/tiny"\n'

GRAMMAR = "lower-case letters and digits, with single '.', '_' or '-' between them, at most 63 characters"
SOURCES = "hf://ORG/NAME (Hugging Face Hub) or dir://PATH (a folder, relative to the lock)"
IMAGE = "a reference of a registry (HOST/NAME:TAG), docker:NAME:TAG in the daemon, or oci:PATH relative to the lock"
RUN = r"'a\nRUN b'"
PACK_ANEW = "delete packer and every [[model.layer]] record of the model; the next build writes them anew"
MEND = "take the file back from version control, or mend the line and run: bake lock --check"
KEEP_BOTH = "keep the records of both sides (each is a block of its own), then run: bake lock --check"
UPGRADE = "install a newer bake, as this one was installed"
VERSION = 'expected the format\'s version, as 1 or "1.2", found '
EDITED = "over the files listed: a record of tiny@v1 was edited, lost or merged wrongly"


def refusal(text: str) -> tuple[str, str | None]:
    """What is said of a text that is no lock, and the hint."""
    with pytest.raises(LockError) as caught:
        parse(text)
    return caught.value.message, caught.value.hint


def between(start: str, end: str) -> str:
    """The part of TEXT from one line to another, the first with it and the last without."""
    return TEXT[TEXT.index(start) : TEXT.index(end)]


def edited(old: str, new: str, *, text: str = TEXT) -> str:
    """The text with one place changed; the place must be there, and only once."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def path_refusal(path: str) -> str:
    """What is said of a file's path, behind the place."""
    message, _ = refusal(edited('  path = "config.json"', f'  path = "{path}"'))
    place = "models.lock: model[0].file[0].path: expected a file's path inside the model's folder, found "
    assert message.startswith(place)
    return message.removeprefix(place)


def test_a_lock_of_everything_is_read_whole() -> None:
    assert parse(TEXT) == LOCK


def test_a_lock_of_nothing_is_read() -> None:
    assert parse("version = 1") == Lock()


def test_what_is_asked_alone_is_a_model_that_is_not_resolved() -> None:
    (model,) = parse(DRAFT).models

    assert model == LockedModel(id=ModelId("tiny", "v1"), source="hf://org/tiny")
    assert (model.is_locked, model.is_stale) == (False, False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('source = "hf://org/tiny"', 'source = "hf://org/other"'),
        ('revision = "main"', 'revision = "v2"'),
        ('revision = "main"\n', ""),
        ('include = ["README.md"]', "include = []"),
        ('exclude = ["*.bin", "onnx/"]', 'exclude = ["onnx/", "*.bin"]'),
        ('revision = "main"\nsource = "hf://org/tiny"', 'source = "dir://models/tiny"'),
    ],
)
def test_a_model_whose_asked_part_was_edited_is_stale(old: str, new: str) -> None:
    assert parse(edited(old, new)).models[0].is_stale


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('base = "vllm"', 'base = "scratch"'),
        ('critic = "value@v1"\n', ""),
        ("trust_remote_code = true\n", ""),
        ('"algorithm.adv_estimator=grpo"', '"algorithm.adv_estimator=gae"'),
        ('license = "apache-2.0"\n', ""),
    ],
)
def test_what_does_not_decide_the_files_makes_nothing_stale(old: str, new: str) -> None:
    assert not parse(edited(old, new)).models[0].is_stale


# --- written by hand


def test_the_order_of_tables_and_keys_is_free() -> None:
    text = f"""
[[model]]
source = "dir://b"
version = "v1"
name = "b"

[[model]]
version = "v1"
name = "a"
source = "dir://a"
base = "z"

[base.z]
image = "z"

[base.y]
image = "y"
digest = "sha256:{HEX_A}"
"""
    assert parse("version = 1" + text) == Lock(
        bases=(Base(name="y", image="y", digest=Digest(HEX_A)), Base(name="z", image="z")),
        models=(
            LockedModel(id=ModelId("a", "v1"), source="dir://a", base="z"),
            LockedModel(id=ModelId("b", "v1"), source="dir://b"),
        ),
    )


def test_inline_tables_multi_line_arrays_and_other_spellings_are_read() -> None:
    model = LockedModel(id=ModelId("tiny", "v1"), source="hf://org/tiny", base="vllm", include=("a", "b\\n", "c\nd"))
    base = Base(name="vllm", image="a/b", wheels=(Wheel(name="verl", version="1", digest=Digest(HEX_B)),))
    text = f'''
"version" = 0x1
base = {{ vllm = {{ image = 'a/b', wheels = [{{ name = "verl", version = "1", sha256 = "{HEX_B}" }}] }} }}

[["model"]]
name = 'tiny'
include = [
  "a",  # kept
  'b\\n',
  """c
d""",
]
version = "v1"
source = """hf://org/\\
    tiny"""
base="vllm"
asked_digest = "{model.asked()}"
set_digest = "sha256:{SET}"
commit = "{COMMIT}"
file = [
  {{ path = "sub/model.safetensors", size = 0b101, sha256 = "{HEX_WEIGHTS}" }},
  {{ sha256 = "{HEX_CONFIG}", path = "config.json", size = +2 }},
]
'''

    assert parse(text) == Lock(
        bases=(base,),
        models=(replace(model.resolve(files=FILES, excluded=(), commit=COMMIT), comment=("# kept",)),),
    )


def test_models_may_be_one_inline_array() -> None:
    text = """\
version = 1
model = [{ name = "b", version = "v1", source = "dir://b" },  # second
  # first
  { name = "a", version = "v1", source = "dir://a" }]
"""

    assert parse(text) == Lock(
        models=tuple(LockedModel(id=ModelId(name, "v1"), source=f"dir://{name}") for name in ("a", "b")),
        comment=("# second", "# first"),
    )


def test_a_resolved_model_may_leave_out_the_sum_of_its_sizes() -> None:
    assert parse(edited("size = 7\npacker", "packer")) == LOCK


@pytest.mark.parametrize("text", [TEXT.replace("\n", "\r\n"), "\ufeff" + TEXT, "\ufeff" + TEXT.replace("\n", "\r\n")])
def test_line_endings_and_a_byte_order_mark_of_windows_are_read(text: str) -> None:
    assert parse(text) == LOCK


# --- the version of the format


@pytest.mark.parametrize("version", ["1", '"1"', '"1.0"'])
def test_version_one_has_several_spellings(version: str) -> None:
    assert parse(f"version = {version}") == Lock()


def test_a_newer_minor_version_may_have_keys_that_are_not_known() -> None:
    text = edited("version = 1\n", 'version = "1.7"\nsigned = true\n')
    text = edited('name = "tiny"\n', 'name = "tiny"\nfamily = "llama"\n', text=text)
    text = edited("  size = 2\n", '  size = 2\n  blake3 = "…"\n', text=text)

    assert parse(text) == replace(LOCK, format=(1, 7))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "version: missing", "a lock starts with: version = 1"),
        ("version = 2", "version: this bake reads format 1, found 2", UPGRADE),
        ('version = "2.1"\nweights = []', "version: this bake reads format 1, found '2.1'", UPGRADE),
        ("version = 0", "version: this bake reads format 1, found 0", None),
        ("version = -1", f"version: {VERSION}-1", None),
        ("version = true", f"version: {VERSION}true", None),
        ("version = 1.0", f"version: {VERSION}1.0", None),
        ("version = [1]", f"version: {VERSION}an array", None),
        ("version = 1979-05-27", f"version: {VERSION}1979-05-27", None),
        ('version = "one"', f"version: {VERSION}'one'", None),
        ('version = "1.٢"', f"version: {VERSION}'1.٢'", None),
        ('version = "1.2.3"', f"version: {VERSION}'1.2.3'", None),
        (f"version = 0x{'f' * 100}", f"version: {VERSION}a number of 400 bits", None),
    ],
)
def test_a_version_that_cannot_be_read_is_refused(text: str, message: str, hint: str | None) -> None:
    assert refusal(text) == (f"models.lock: {message}", hint)


# --- not TOML


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = 1\nname tiny\n", "Expected '=' after a key in a key/value pair (at line 2, column 6)"),
        ("version = 1\nversion = 1\n", "Cannot overwrite a value (at line 2, column 12)"),
        ("version = 1\n[base.a]\n[base.a]\n", "Cannot declare ('base', 'a') twice (at line 3, column 8)"),
        ('version = 1\nbase = "a', "Unterminated string (at end of document)"),
        ("version = 1\r[base]", "Expected newline or end of document after a statement (at line 1, column 12)"),
        ("version = 1\x00", "Expected newline or end of document after a statement (at line 1, column 12)"),
    ],
)
def test_a_text_that_is_no_toml_is_refused_with_the_line(text: str, message: str) -> None:
    assert refusal(text) == (f"models.lock: not valid TOML: {message}", MEND)


@pytest.mark.parametrize("text", [f"version = {'9' * 5000}", f"version = {'[' * 5000}", "{" * 5000])
def test_a_text_that_no_toml_reader_bears_is_refused(text: str) -> None:
    message, hint = refusal(text)

    assert (message[:29], hint) == ("models.lock: not valid TOML: ", MEND)


@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", "||||||| 0e9e39f", "|||||||", "=======", ">>>>>>> add-qwen"])
def test_a_merge_conflict_is_named_with_its_line(marker: str) -> None:
    text = edited("  size = 2\n", f"{marker}\n  size = 2\n")
    line = text.splitlines().index(marker) + 1

    assert refusal(text) == (f"models.lock: line {line} is a merge conflict marker: {marker}", KEEP_BOTH)
    assert refusal(text.replace("\n", "\r\n")) == refusal(text)


def test_signs_that_only_look_like_a_conflict_are_text() -> None:
    text = edited("# the end\n", "# =======\n#<<<<<<< HEAD\n")

    assert parse(text) == replace(LOCK, ending=("# =======", "#<<<<<<< HEAD"))


def test_an_error_names_the_file_that_was_read() -> None:
    with pytest.raises(LockError, match=r"^other\.lock: version: missing$"):
        parse("", where="other.lock")


# --- keys and types


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "tiny"\n', "", "model[0].name: missing"),
        ('name = "tiny"\nversion = "v1"\n', 'name = "tiny"\n', "model[0].version: missing"),
        ('source = "hf://org/tiny"\n', "", "model[0].source: missing"),
        ("  size = 2\n", "", "model[0].file[0].size: missing"),
        (f'  sha256 = "{HEX_CONFIG}"\n', "", "model[0].file[0].sha256: missing"),
        ('  reason = "a hidden folder"\n', "", "model[0].excluded[0].reason: missing"),
        ('  files = ["config.json"]\n', "", "model[0].layer[0].files: missing"),
        ('image = "verlai/verl:vllm024"\n', "", "base.vllm.image: missing"),
        ('{ name = "verl", version', "{ version", "base.vllm.wheels[1].name: missing"),
        ('name = "tiny"', "name = 7", "model[0].name: expected a string, found 7"),
        ("  size = 2\n", '  size = "2"\n', "model[0].file[0].size: expected a whole number, found '2'"),
        ("  size = 2\n", "  size = 2.0\n", "model[0].file[0].size: expected a whole number, found 2.0"),
        ("  size = 2\n", "  size = true\n", "model[0].file[0].size: expected a whole number, found true"),
        ("gated = true", "gated = 1", "model[0].gated: expected true or false, found 1"),
        ('include = ["README.md"]', 'include = "*"', "model[0].include: expected an array, found '*'"),
        ('include = ["README.md"]', 'include = ["a", 2]', "model[0].include[1]: expected a string, found 2"),
        ('license = "apache-2.0"', "license = []", "model[0].license: expected a string, found an array"),
        (
            "  size = 2\n",
            "  size = -2\n",
            "model[0].file[0].size: expected a number of bytes from 0 to 2^53 - 1, found -2",
        ),
        (
            "  size = 2\n",
            "  size = 9007199254740992\n",
            "model[0].file[0].size: expected a number of bytes from 0 to 2^53 - 1, found 9007199254740992",
        ),
        ("packer = 1", "packer = 0", "model[0].packer: expected a whole number from 1, found 0"),
    ],
)
def test_a_key_that_is_missing_or_of_another_type_is_named(old: str, new: str, message: str) -> None:
    assert refusal(edited(old, new)) == (f"models.lock: {message}", None)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("model = 3", "model: expected an array, found 3", None),
        ("model = [3]", "model[0]: expected a table, found 3", None),
        (
            '[model]\nname = "tiny"',
            "model: expected an array of tables, found a table",
            "write [[model]], in two brackets, above each record",
        ),
        (
            '[[model]]\nname = "tiny"\n[model.file]\npath = "a"',
            "model[0].file: expected an array of tables, found a table",
            "write [[model.file]], in two brackets, above each record",
        ),
        ('[[base]]\nname = "a"', "base: expected a table, found an array", None),
        ('base.vllm = "a/b"', "base.vllm: expected a table, found 'a/b'", None),
        (f'base.vllm = "{"b" * 99}"', f"base.vllm: expected a table, found '{'b' * 80}…'", None),
    ],
)
def test_a_table_of_another_shape_is_named(text: str, message: str, hint: str | None) -> None:
    assert refusal(f"version = 1\n{text}") == (f"models.lock: {message}", hint)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ('name = "tiny"', 'nmae = "tiny"', "model[0].nmae: unknown key", "did you mean 'name'?"),
        ('revision = "main"', 'revison = "main"', "model[0].revison: unknown key", "did you mean 'revision'?"),
        (
            f'  sha256 = "{HEX_CONFIG}"',
            '  sha265 = ""',
            "model[0].file[0].sha265: unknown key",
            "did you mean 'sha256'?",
        ),
        ("  size = 2048", "  bytes = 2048", "model[0].layer[0].bytes: unknown key", None),
        ('verl = "0.9.1"\n', 'ver = "0.9.1"\n', "base.vllm.ver: unknown key", "did you mean 'verl'?"),
        ("version = 1\n", "version = 1\nmodels = []\n", "models: unknown key", "did you mean 'model'?"),
        ("version = 1\n", 'version = 1\n"a\\n\\u007Fb" = 1\n', '"a\\n\\u007Fb": unknown key', None),
    ],
)
def test_an_unknown_key_is_named_with_the_one_that_was_meant(
    old: str, new: str, message: str, hint: str | None
) -> None:
    assert refusal(edited(old, new)) == (f"models.lock: {message}", hint)


# --- values


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            HEX_CONFIG,
            HEX_CONFIG[:-1],
            f"model[0].file[0].sha256: expected 64 lower-case hex digits, found '{HEX_CONFIG[:-1]}'",
        ),
        (
            HEX_CONFIG,
            HEX_CONFIG.upper(),
            f"model[0].file[0].sha256: expected 64 lower-case hex digits, found '{HEX_CONFIG.upper()}'",
        ),
        (
            f'digest = "sha256:{HEX_A}"\nimage',
            'digest = "sha512:aa"\nimage',
            "base.vllm.digest: expected sha256:<64 lower-case hex digits>, found 'sha512:aa'",
        ),
        (
            COMMIT,
            COMMIT[:12],
            "model[0].commit: expected a commit of 40 or 64 lower-case hex digits, found '0e9e39f249a1'",
        ),
        ('"main"', '""', "model[0].revision: expected a branch, tag or commit, found ''"),
        ('"main"', '"-x"', "model[0].revision: expected a branch, tag or commit, found '-x'"),
        ('"main"', '"a b"', "model[0].revision: expected a branch, tag or commit, found 'a b'"),
        ('"main"', '"a\\nb"', "model[0].revision: expected a branch, tag or commit, found 'a\\nb'"),
        ('"hf://org/tiny"', '"org/tiny"', f"model[0].source: expected {SOURCES}, found 'org/tiny'"),
        ('"hf://org/tiny"', '"hf://a/b/c"', f"model[0].source: expected {SOURCES}, found 'hf://a/b/c'"),
        ('"hf://org/tiny"', '"hf://../b"', f"model[0].source: expected {SOURCES}, found 'hf://../b'"),
        ('"hf://org/tiny"', '"dir://"', f"model[0].source: expected {SOURCES}, found 'dir://'"),
        ('"hf://org/tiny"', '"dir://a\\nb"', f"model[0].source: expected {SOURCES}, found 'dir://a\\nb'"),
        (
            '"verlai/verl:vllm024"',
            '""',
            f"base.vllm.image: expected {IMAGE}, found ''",
        ),
        (
            '"verlai/verl:vllm024"',
            '"a\\nRUN b"',
            f"base.vllm.image: expected {IMAGE}, found {RUN}",
        ),
        (
            'verl = "0.9.1"\n',
            'verl = "0.9 1"\n',
            "base.vllm.verl: expected a version of a Python project, found '0.9 1'",
        ),
        (
            'name = "verl"',
            'name = "../verl"',
            "base.vllm.wheels[1].name: expected the name of a Python project, found '../verl'",
        ),
        ('critic = "value@v1"', 'critic = "value"', "model[0].critic: expected NAME@VERSION, found 'value'"),
        (
            '"+data.seed=1"',
            '"data.seed"',
            "model[0].overrides[1]: expected an override of verl's configuration, KEY=VALUE, found 'data.seed'",
        ),
        (
            'base = "vllm"',
            'base = ""',
            f"model[0].base: expected a base name of {GRAMMAR}, found ''",
        ),
    ],
)
def test_a_value_outside_its_grammar_is_named(old: str, new: str, message: str) -> None:
    assert refusal(edited(old, new)) == (f"models.lock: {message}", None)


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("", "'': is empty"),
        ("/x", "'/x': is not relative: it starts with '/'"),
        ("../x", "'../x': has the component '..'"),
        ("a/../../x", "'a/../../x': has the component '..'"),
        ("./x", "'./x': has the component '.'"),
        ("a//b", "'a//b': has an empty component (a double '/' or one at its end)"),
        ("a/", "'a/': has an empty component (a double '/' or one at its end)"),
        ("a\\\\b", "'a\\\\b': holds a backslash"),
        ("a\\nb", "'a\\nb': holds the control character U+000A"),
        ("a\\u007Fb", "'a\\x7fb': holds the control character U+007F"),
        ("sub/.wh.x", "'sub/.wh.x': has the component '.wh.x': in an image layer '.wh.' deletes a file"),
        ("x" * 256, f"'{'x' * 80}…': has a component of 256 bytes (at most 255)"),
    ],
)
def test_a_file_that_could_leave_its_folder_is_refused(path: str, fault: str) -> None:
    assert path_refusal(path) == fault


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("", "''"),
        ("a b", "'a b'"),
        ('a\\"b', "'a\"b'"),
        ("a'b", '"a\'b"'),
        ("a\\nb", "'a\\nb'"),
        ("modèle", "'modèle'"),
        ("模型", "'模型'"),
        ("-tiny", "'-tiny'"),
        ("tiny-", "'tiny-'"),
        (".", "'.'"),
        ("..", "'..'"),
        ("a..b", "'a..b'"),
        ("a/b", "'a/b'"),
        ("a@b", "'a@b'"),
        ("Tiny", "'Tiny'"),
        ("t" * 300, f"'{'t' * 63}…'"),
    ],
)
def test_names_and_versions_have_one_grammar(written: str, found: str) -> None:
    name = refusal(edited('name = "tiny"', f'name = "{written}"', text=DRAFT))
    version = refusal(edited('version = "v1"', f'version = "{written}"', text=DRAFT))
    base, _ = refusal(f'version = 1\n[base."{written}"]\nimage = "a"\n')

    assert name == (f"models.lock: model[0].name: expected a name of {GRAMMAR}, found {found}", None)
    assert version == (f"models.lock: model[0].version: expected a version of {GRAMMAR}, found {found}", None)
    assert base.endswith(f": expected a base name of {GRAMMAR}, found {found}")


@pytest.mark.parametrize("name", ["a", "0", "qwen2.5-0.5b", "a_b.c-d", "x" * 63])
def test_names_of_that_grammar_are_read(name: str) -> None:
    (model,) = parse(edited('name = "tiny"', f'name = "{name}"', text=DRAFT)).models

    assert model.id == ModelId(name, "v1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tiny", "expected NAME@VERSION, found 'tiny'"),
        ("tiny@", f"expected a version of {GRAMMAR}, found ''"),
        ("@v1", f"expected a name of {GRAMMAR}, found ''"),
        ("tiny@v1@v2", f"expected a version of {GRAMMAR}, found 'v1@v2'"),
        ("tiny@v1\n", f"expected a version of {GRAMMAR}, found 'v1\\n'"),
        ("x" * 300, f"expected NAME@VERSION, found '{'x' * 130}…'"),
    ],
)
def test_a_model_id_of_another_form_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        ModelId.parse(text)

    assert str(caught.value) == message


# --- what must hold between records


def test_two_models_of_one_name_and_version_are_refused() -> None:
    text = edited('name = "value"', 'name = "tiny"', text=edited('critic = "value@v1"\n', ""))

    assert refusal(text) == (
        "models.lock: model[1]: tiny@v1 is already model[0]",
        "a version is immutable: delete one of the two, or give it another version",
    )


def test_two_versions_of_one_name_are_two_models() -> None:
    text = edited('name = "value"\nversion = "v1"', 'name = "tiny"\nversion = "v2"')
    text = edited('critic = "value@v1"\n', "", text=text)

    assert [str(model.id) for model in parse(text).models] == ["tiny@v1", "tiny@v2"]


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (
            'base = "scratch"',
            'base = "vlm"',
            "model[1].base: expected one of scratch, vllm, found 'vlm'",
            'add a [base.vlm] table with an image, or set base = "scratch"',
        ),
        (
            "[base.vllm]",
            "[base.scratch]",
            "base.scratch: 'scratch' is built in: an image of weights alone, on no base",
            None,
        ),
        ('{ name = "verl"', '{ name = "transferqueue"', "base.vllm.wheels: 'transferqueue' is listed twice", None),
        (
            'critic = "value@v1"',
            'critic = "value@v2"',
            "model[0].critic: no model value@v2 in the lock",
            "bake add value@v2 SOURCE",
        ),
        (
            'critic = "value@v1"',
            'reward_model = "judge@v1"',
            "model[0].reward_model: no model judge@v1 in the lock",
            "bake add judge@v1 SOURCE",
        ),
        (
            'source = "dir://models/value"',
            'revision = "main"\nsource = "dir://models/value"',
            "model[1].revision: expected none, since dir://models/value is a folder, found 'main'",
            None,
        ),
    ],
)
def test_what_a_record_names_must_be_there(old: str, new: str, message: str, hint: str | None) -> None:
    assert refusal(edited(old, new)) == (f"models.lock: {message}", hint)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (f'set_digest = "sha256:{SET}"\n', "", "set_digest: tiny@v1 is only half resolved: no set_digest"),
        (
            f'asked_digest = "sha256:{TINY.asked().hex}"\n',
            "",
            "asked_digest: tiny@v1 is only half resolved: no asked_digest",
        ),
        (f'commit = "{COMMIT}"\n', "", "commit: tiny@v1 is only half resolved: no commit"),
        (
            between("  [[model.file]]", '[[model]]\nname = "value"'),
            "",
            "file: tiny@v1 is only half resolved: no file",
        ),
        (
            'source = "dir://models/value"\n',
            'source = "dir://models/value"\nsize = 7\n',
            "set_digest: value@v1 is only half resolved: no set_digest, asked_digest, file",
        ),
        (
            'source = "dir://models/value"\n',
            f'source = "dir://models/value"\ncommit = "{COMMIT}"\n',
            "set_digest: value@v1 is only half resolved: no set_digest, asked_digest, file",
        ),
        ("size = 7\npacker", "size = 8\npacker", f"size: expected 8, found 7 {EDITED}"),
        ("  size = 2\n", "  size = 3\n", f"size: expected 7, found 8 {EDITED}"),
        (
            SET,
            HEX_A,
            f"set_digest: expected sha256:{HEX_A}, found sha256:{SET} {EDITED}",
        ),
    ],
)
def test_a_model_is_resolved_whole_or_not_at_all(old: str, new: str, message: str) -> None:
    found, hint = refusal(edited(old, new))

    assert message in found
    assert hint is not None
    assert hint.startswith("take the record back from version control; to resolve it anew, delete all of it but")


def test_a_folder_has_no_commit() -> None:
    model = LockedModel(id=ModelId("tiny", "v1"), source="dir://tiny")
    text = edited('"hf://org/tiny"', '"dir://tiny"')
    text = edited('revision = "main"\n', "", text=text)
    text = edited('include = ["README.md"]\nexclude = ["*.bin", "onnx/"]\n', "", text=text)
    text = edited(TINY.asked().hex, model.asked().hex, text=text)

    assert refusal(text) == (
        f"models.lock: model[0].commit: expected none, since dir://tiny is a folder, found '{COMMIT}'",
        None,
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('  path = "sub/model.safetensors"', '  path = "config.json"', "file: 'config.json' is listed twice"),
        (
            '  path = "sub/model.safetensors"',
            '  path = "config.json/a"',
            "file: 'config.json' is listed as a file and as a folder, of 'config.json/a'",
        ),
        (
            '  path = "pytorch_model.bin"',
            '  path = "config.json"',
            "excluded: 'config.json' is listed as a file and as excluded",
        ),
    ],
)
def test_a_file_is_listed_once(old: str, new: str, message: str) -> None:
    assert refusal(edited(old, new)) == (f"models.lock: model[0].{message}", None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('  files = ["config.json"]', '  files = ["vocab.json"]', "layer[0].files: 'vocab.json' is no file of tiny@v1"),
        (
            '  files = ["config.json"]',
            '  files = ["config.json", "config.json"]',
            "layer[0].files: 'config.json' is in layer[0] already",
        ),
        (
            '  files = ["config.json"]',
            '  files = ["sub/model.safetensors"]',
            "layer[1].files: 'sub/model.safetensors' is in layer[0] already",
        ),
        ('  files = ["config.json"]', "  files = []", "layer[0].files: expected a file or more, found none"),
        (
            between(f'\n  [[model.layer]]\n  diff_id = "sha256:{HEX_B}"', '\n[[model]]\nname = "value"'),
            "",
            "layer: 'sub/model.safetensors' is in none of them",
        ),
        (
            between("\n  [[model.layer]]", '\n[[model]]\nname = "value"'),
            "",
            "layer: missing: packer and [[model.layer]] records stand together",
        ),
        ("packer = 1\n", "", "packer: missing: packer and [[model.layer]] records stand together"),
    ],
)
def test_layers_hold_each_file_once_or_are_not_known(old: str, new: str, message: str) -> None:
    assert refusal(edited(old, new)) == (f"models.lock: model[0].{message}", PACK_ANEW)
