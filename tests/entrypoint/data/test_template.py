from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.data.template import Template, TemplateError, load_template
from tests.entrypoint.data.samples import CHATML, write_model

if TYPE_CHECKING:
    from pathlib import Path

USER = [{"role": "user", "content": "x"}]


def loaded(folder: Path, *, own: str | None = None, **variables: Any) -> Template:
    template = load_template(folder, own=own, variables=variables)
    assert template is not None
    return template


def rendered(folder: Path, template: str, messages: Any = None, **variables: Any) -> str:
    return loaded(folder, own=template, **variables).render(messages or USER)


def test_a_prompt_is_rendered_with_the_start_of_the_answer(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")

    assert loaded(folder).render(USER) == "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"


def test_chat_template_jinja_goes_before_tokenizer_config(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "chat_template.jinja").write_text("jinja")

    assert loaded(folder).render(USER) == "jinja"


def test_of_several_templates_the_default_is_taken(tmp_path: Path) -> None:
    several = [{"name": "rag", "template": "no"}, {"name": "default", "template": "yes"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": several}))

    assert loaded(tmp_path).render(USER) == "yes"


def test_a_processor_s_template_is_taken_last(tmp_path: Path) -> None:
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "processor"}))

    assert loaded(tmp_path).render(USER) == "processor"


def test_a_template_of_the_user_s_takes_the_model_s_place(tmp_path: Path) -> None:
    assert loaded(write_model(tmp_path / "m"), own="mine").render(USER) == "mine"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"chat_template": 3}', '{"chat_template": [1, {"name": "x"}]}'])
def test_a_model_without_a_template_has_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content)

    assert load_template(tmp_path, own=None, variables={}) is None


def test_special_tokens_are_named_in_any_of_their_forms(tmp_path: Path) -> None:
    named = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "unk_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"cls_token": "<c>", "bos_token": "<old>"}))

    text = "{{ bos_token }} {{ eos_token }} {{ pad_token }} {{ cls_token }} {{ unk_token }}"

    assert rendered(tmp_path, text) == "<s> </s> </s> <c> "


def test_the_user_s_variables_reach_the_template(tmp_path: Path) -> None:
    assert rendered(tmp_path, "{{ enable_thinking }}", enable_thinking=False) == "False"


def test_blocks_take_the_line_they_stand_on(tmp_path: Path) -> None:
    assert rendered(tmp_path, "a\n    {% if true %}\nb\n    {% endif %}\nc") == "a\nb\nc"


def test_loops_may_be_left_and_answers_marked(tmp_path: Path) -> None:
    text = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% break %}{% endfor %}"

    assert rendered(tmp_path, text, [*USER, *USER]) == "x"


def test_tojson_escapes_no_html_and_takes_an_indent(tmp_path: Path) -> None:
    assert rendered(tmp_path, "{{ {'ä': '<b>'} | tojson(indent=1) }}") == '{\n "ä": "<b>"\n}'


def test_strftime_now_is_there(tmp_path: Path) -> None:
    assert len(rendered(tmp_path, "{{ strftime_now('%Y') }}")) == 4


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].a.b.c }}", "'dict object' has no attribute 'a'"),
        ("{{ messages[0]['content'] + 1 }}", 'TypeError: can only concatenate str (not "int") to str'),
        ("{{ messages.append(1) }}", "access to attribute 'append' of 'list' object is unsafe."),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        (
            "{% for x in range(1000000000) %}{% endfor %}",
            "OverflowError: Range too big. The sandbox blocks ranges larger ",
        ),
    ],
)
def test_a_template_that_refuses_a_prompt_says_why(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(tmp_path, text)

    assert str(caught.value).startswith(what)


def test_a_template_that_is_no_jinja_says_so(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"^the chat template is broken: unexpected '%'"):
        loaded(tmp_path, own="{% for %")


def test_a_system_prompt_is_optional(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "s"}, *USER]

    assert rendered(tmp_path, CHATML, messages).startswith("<|im_start|>system\ns<|im_end|>\n<|im_start|>user\n")
