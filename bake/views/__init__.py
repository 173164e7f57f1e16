"""Values as people and programs read them: lines of text, and JSON documents. Pure; the command line prints them."""

from bake.views.cache import cache_document, cache_lines
from bake.views.images import (
    build_document,
    build_notes,
    pull_document,
    pull_notes,
    verify_document,
    verify_lines,
)
from bake.views.locks import list_document, list_lines, show_document, show_lines
from bake.views.matrix import github_matrix, gitlab_pipeline, matrix_document, matrix_lines
from bake.views.plans import plan_document, plan_lines

__all__ = [
    "build_document",
    "build_notes",
    "cache_document",
    "cache_lines",
    "github_matrix",
    "gitlab_pipeline",
    "list_document",
    "list_lines",
    "matrix_document",
    "matrix_lines",
    "plan_document",
    "plan_lines",
    "pull_document",
    "pull_notes",
    "show_document",
    "show_lines",
    "verify_document",
    "verify_lines",
]
