from __future__ import annotations

import pytest

from bake.lock.comments import collect
from bake.lock.dump import dumps
from bake.lock.parse import parse

BY_HAND = """\
# top 1

# top 2
version = 1  # beside the version
# above the base

[base."vllm.24"]  # beside the base
# in the base
image = "a/b"  # beside a key

# above the first
[[model]]
name = "one"
version = "v1"
# in the first
source = "dir://one#two"
include = [
  # in an array
  "a # no comment",  # beside an item
  'b # no comment',
]

# above the second
[[model]]
name = "two"
version = "v1"
source = \"""
dir://\\
# no comment\"""
# the end
  # really
"""

BY_BAKE = """\
# top 1
# top 2
# beside the version
version = 1

# above the base
# beside the base
# in the base
# beside a key
[base."vllm.24"]
image = "a/b"

# above the first
# in the first
# in an array
# beside an item
[[model]]
name = "one"
version = "v1"
base = "scratch"
include = ["a # no comment", "b # no comment"]
source = "dir://one#two"

# above the second
[[model]]
name = "two"
version = "v1"
base = "scratch"
source = "dir://# no comment"

# the end
# really
"""


def test_each_comment_moves_above_its_record_and_none_is_lost() -> None:
    assert dumps(parse(BY_HAND)) == BY_BAKE


def test_comments_that_were_moved_stay_where_they_are() -> None:
    assert dumps(parse(BY_BAKE)) == BY_BAKE


def test_comments_follow_models_that_are_sorted() -> None:
    text = """\
version = 1
# b
[[model]]
name = "b"
version = "v1"
source = "dir://b"
# a
[[model]]
name = "a"
version = "v1"
source = "dir://a"
"""
    assert [(model.id.name, model.comment) for model in parse(text).models] == [("a", ("# a",)), ("b", ("# b",))]


def test_comments_inside_a_model_s_own_records_belong_to_the_model() -> None:
    text = """\
[[model]]
  # above a file
  [[model.file]]
  # in a file
  path = "a"
  [[model.file]] # beside a file
"""
    assert collect(text) == {"model[0]": ("# above a file", "# in a file", "# beside a file")}


@pytest.mark.parametrize(
    "header",
    ["[base.vllm]", "[ base . vllm ]", '[base."vllm"]', "['base'.'vllm']", "[[base.vllm.wheels]]", "  [base.vllm] "],
)
def test_a_base_is_known_however_its_header_is_written(header: str) -> None:
    assert collect(f"version = 1\n# mine\n{header}\n") == {"base.vllm": ("# mine",)}


@pytest.mark.parametrize("header", ["[[model]]", "[[ model ]]", '[["model"]]', "  [[model]] "])
def test_a_model_is_known_however_its_header_is_written(header: str) -> None:
    assert collect(f"version = 1\n# mine\n{header}\n") == {"model[0]": ("# mine",)}


@pytest.mark.parametrize(
    "value",
    [
        '"# a"',
        "'# a'",
        r'"\"# a"',
        '"""\n# a\n"""',
        "'''\n# a\n'''",
        '"""# a"""""',
        "'''# a'''''",
        r'"""\"""# a"""',
        '"""[[model]]\n[[model]]"""',
        "[\"# a\", '# b']",
    ],
)
def test_signs_inside_strings_are_no_comments(value: str) -> None:
    assert collect(f'version = {value} # it\'s "mine"\n# next\n[[model]]\n') == {
        "": ('# it\'s "mine"',),
        "model[0]": ("# next",),
    }


def test_comments_of_a_base_written_in_another_way_are_kept_at_the_top_or_the_end() -> None:
    text = 'version = 1\n# a\nbase.vllm = { image = "a" }  # b\n# c\n'

    lock = parse(text)

    assert (lock.comment, lock.ending) == (("# a", "# b"), ("# c",))


def test_comments_end_at_the_line_and_lose_blanks_at_its_end() -> None:
    assert collect("# a \t\n#\n\t#b\n") == {"end": ("# a", "#", "#b")}


def test_a_text_without_comments_has_none() -> None:
    assert collect('version = 1\n[[model]]\nname = "a"\n') == {}
