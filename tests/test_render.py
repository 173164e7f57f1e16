"""A Dockerfile is read by people, so it is golden; and no name or value in a lock becomes an instruction."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import dockerfile  # type: ignore[import-not-found] # BuildKit's own parser, of which there are no stubs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake.digest import Digest
from bake.errors import UsageError
from bake.lock import Base, Lock, LockedModel, ModelId, Wheel
from bake.plan import ImagePlan, plan_image
from bake.render import Rendering, contexts, render, secret_id
from tests.builders import PATHS, TINY, recorded, sized

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bake.record import RecordedFile

GOLDEN = Path(__file__).parent / "golden"
TEMPLATE = (Path(__file__).parents[1] / "templates" / "Dockerfile.j2").read_text(encoding="utf-8")
COMMIT = "0e9e39f249a16976918f6564b8830bc894c89659"
VERL = Base(
    name="vllm",
    image="verlai/verl:vllm",
    digest=Digest("b" * 64),
    verl="0.9.1",
    wheels=(Wheel(name="verl", version="0.9.1", digest=Digest("c" * 64)),),
)
PROGRAM = ("opt/bake/record.json", "opt/bake/__main__.py", "opt/bake/bake/__init__.py", "opt/bake/bake/errors.py")
SHARD = 70 << 20


def model(files: Iterable[RecordedFile], *, source: str, name: ModelId = TINY, **asked: Any) -> LockedModel:
    asked = {"base": "scratch"} | asked
    commit = COMMIT if source.startswith("hf://") else None
    return LockedModel(id=name, source=source, **asked).resolve(files=files, excluded=(), commit=commit)


def planned(*models: LockedModel, base: Base | None = None) -> ImagePlan:
    lock = Lock(models=tuple(sorted(models, key=lambda model: model.id)), bases=(base,) if base else ())
    return plan_image(lock, TINY)


def text_of(
    plan: ImagePlan, *, labels: Mapping[str, str] = MappingProxyType({}), program: tuple[str, ...] = PROGRAM
) -> str:
    rendering = Rendering(
        endpoint="https://hub.example",
        entrypoint=("python3", "/opt/bake"),
        command=("train",),
        program=program,
        labels={"dev.bake.model": str(plan.id), **labels},
    )
    return render(plan, TEMPLATE, rendering)


def without_version(text: str) -> str:
    """The version of bake is no part of what is golden."""
    return re.sub(r"(?m)^(# Rendered by bake) \S+", r"\1 VERSION", text)


def golden(name: str, text: str) -> None:
    assert without_version(text) == (GOLDEN / f"{name}.Dockerfile").read_text(encoding="utf-8")


SMALL = (sized("config.json", 700), sized("sub folder/tokenizer.json", 9000))
SHARDS = (sized("model-00001-of-00002.safetensors", SHARD), sized("model-00002-of-00002.safetensors", SHARD))


def test_a_folder_on_scratch() -> None:
    plan = planned(model(SMALL, source="dir://model"))

    golden("scratch", text_of(plan, program=("opt/bake/record.json",)))


def test_a_gated_hub_model_on_a_base_with_wheels() -> None:
    plan = planned(model((*SMALL, *SHARDS), source="hf://org/name", base="vllm", gated=True), base=VERL)

    golden("base", text_of(plan))


def test_critic_and_reward_model_from_two_sources() -> None:
    critic, judge = ModelId("critic", "v1"), ModelId("judge", "v2")
    plan = planned(
        model(SMALL, source="hf://org/name", critic=critic, reward_model=judge),
        model(SMALL, source="dir://critic", name=critic),
        model(SMALL, source="dir://judge", name=judge),
    )

    golden("roles", text_of(plan, program=("opt/bake/record.json",)))


def test_the_secret_is_named_after_the_host_alone() -> None:
    assert secret_id("https://hub.example:8443/path") == "HTTP_AUTH_TOKEN_hub.example"


def test_contexts_are_the_models_from_folders_by_their_first_role() -> None:
    found = contexts(planned(model(SMALL, source="dir://model")))

    assert list(found) == ["model"]


@pytest.mark.parametrize("value", ["two\nlines", "a\rb", "tab\there", "\u2028", "\x00", "a\u00a0b"])
def test_a_label_that_a_line_cannot_hold_is_refused(value: str) -> None:
    plan = planned(model(SMALL, source="dir://model"))

    with pytest.raises(UsageError, match="a Dockerfile cannot hold") as caught:
        text_of(plan, labels={"org.example": value})

    assert caught.value.hint == "build with --builder direct, which has no such limit"


@pytest.mark.parametrize("path", ["*", "a?.json", "[x].json", "a].json", "!a.json"])
def test_a_name_that_is_a_pattern_can_only_come_from_a_hub(path: str) -> None:
    file = recorded(path, b"1")

    with pytest.raises(UsageError, match="takes the name for a pattern"):
        text_of(planned(model([file], source="dir://model")))
    assert "ADD" in text_of(planned(model([file], source="hf://org/name")))


@pytest.mark.parametrize("path", [" a.json", "a.json ", "folder/a.json "])
@pytest.mark.parametrize("source", ["dir://model", "hf://org/name"])
def test_a_name_with_a_space_at_an_end_is_refused(path: str, source: str) -> None:
    with pytest.raises(UsageError, match="drops the space at the end of a name"):
        text_of(planned(model([recorded(path, b"1")], source=source)))


# --- nothing is injected

PRINTABLE = st.text(st.characters(exclude_categories=("C", "Zl", "Zp", "Zs"), include_characters=" "), max_size=30)
TRAPS = st.sampled_from(
    ["$HOME", "${A:-b}", '"', "'", "\\", "`id`", "$(id)", "{{ plan }}", "{% raw %}", "# x", "<<EOF", "a=b", '["a"]']
)
VALUES = st.lists(PRINTABLE | TRAPS, max_size=4).map("".join)
HUB_PATHS = PATHS.filter(lambda path: path.isprintable() and all(part == part.strip() for part in path.split("/")))
FOLDER_PATHS = HUB_PATHS.filter(lambda path: not re.search(r"[*?\[\]]|^!", path))


def words_of(command: Any) -> list[str]:
    """The words of ADD, COPY and WORKDIR as the builder has them; there are no variables to expand."""
    return [expand(word) for word in command.value]


def expand(word: str) -> str:
    """What BuildKit's shell lexer makes of a word (frontend/dockerfile/shell/lex.go); an expansion is a failure."""
    result, position, quoted = "", 0, False
    while position < len(word):
        letter = word[position]
        if letter == "\\":
            position += 1
            escapes = not quoted or word[position] in '"$`\\'
            result += word[position] if escapes else "\\" + word[position]
        elif letter == '"':
            quoted = not quoted
        else:
            assert letter != "$", f"{word!r} is expanded"
            assert letter != "'" or quoted, f"{word!r} holds an open quote"
            result += letter
        position += 1
    assert not quoted
    return result


@given(paths=st.lists(HUB_PATHS, min_size=1, max_size=3, unique=True))
def test_any_name_of_a_hub_stays_a_name(paths: list[str]) -> None:
    files = [recorded(path, path.encode()) for path in paths]
    plan = planned(model(files, source="hf://org/name"))

    commands = dockerfile.parse_string(text_of(plan, program=("opt/bake/record.json",)))

    added = [command for command in commands if command.cmd == "ADD"]
    assert {words_of(command)[1] for command in added} == {f"./{path}" for path in paths}
    base = f"/org/name/resolve/{COMMIT}/"
    assert {unquote(urlsplit(words_of(command)[0]).path) for command in added} == {base + path for path in paths}
    assert {command.flags for command in added} == {("--chmod=0444", f"--checksum={file.digest}") for file in files}
    kinds = {command.cmd for command in commands}
    assert kinds == {"FROM", "WORKDIR", "ADD", "COPY", "ENV", "LABEL"}
    assert len(added) == len(paths)


@given(paths=st.lists(FOLDER_PATHS, min_size=1, max_size=3, unique=True))
def test_any_name_of_a_folder_stays_a_name(paths: list[str]) -> None:
    plan = planned(model([recorded(path, path.encode()) for path in paths], source="dir://model"))

    commands = dockerfile.parse_string(text_of(plan, program=("opt/bake/record.json",)))

    copied = [command for command in commands if "--from=model" in command.flags]
    assert {tuple(words_of(command)) for command in copied} == {(f"/{path}", f"./{path}") for path in paths}
    folders = {f"/{folder}" for layer in plan.layers for folder in layer.directories if folder.count("/") >= 2}
    made = {word for command in commands if command.cmd == "WORKDIR" for word in words_of(command)}
    assert made <= folders | {"/image/opt/bake"}


@given(value=VALUES.filter(str.isprintable), key=st.from_regex(r"[a-z][a-z0-9.-]{0,12}[a-z0-9]", fullmatch=True))
def test_any_label_stays_a_label(value: str, key: str) -> None:
    plan = planned(model(SMALL, source="dir://model"))

    commands = dockerfile.parse_string(text_of(plan, labels={f"org.example.{key}": value}))

    (labels,) = (command for command in commands if command.cmd == "LABEL")
    pairs = dict(zip(labels.value[::2], map(expand, labels.value[1::2]), strict=True))
    assert pairs == {"dev.bake.model": "tiny@v1", f"org.example.{key}": value}


@given(value=st.text().filter(lambda text: not text.isprintable()))
def test_any_label_that_cannot_be_printed_is_refused(value: str) -> None:
    plan = planned(model(SMALL, source="dir://model"))

    with pytest.raises(UsageError):
        text_of(plan, labels={"org.example": value})


@given(name=st.text(max_size=12))
def test_a_source_in_a_comment_ends_no_line(name: str) -> None:
    plain = text_of(planned(model(SMALL, source="dir://model")))
    odd = text_of(planned(model(SMALL, source=f"dir://{name}")))

    assert len(odd.split("\n")) == len(plain.split("\n"))
    assert instructions(odd) == instructions(plain)


def instructions(text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(command.cmd, command.value) for command in dockerfile.parse_string(text)]
