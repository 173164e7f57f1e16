"""Runs with verl 0.9.1 on its path: one JSON question a line on stdin, one JSON answer a line on stdout.

`load`: the length of verl's own RLHFDataset over the files and its first row, or the exception's name.
`count`: the tokens of each prompt by transformers' own apply_chat_template, and the text it renders.
`score`: the reward that verl's own default_compute_score gives.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any


def load(files: list[str], model: str, data: dict[str, Any]) -> Any:
    from omegaconf import OmegaConf  # type: ignore[import-not-found,unused-ignore]
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset  # type: ignore[import-not-found,unused-ignore]

    config = OmegaConf.create({"filter_overlong_prompts_workers": None, **data})
    try:
        dataset = RLHFDataset(files, AutoTokenizer.from_pretrained(model), config)
        first = dataset[0] if len(dataset) else {}
    except Exception as error:  # noqa: BLE001 - whatever verl raises is the answer
        return type(error).__name__
    kept = ("raw_prompt", "data_source", "reward_model")
    return {"rows": len(dataset), "first": {name: first.get(name) for name in kept}}


def count(model: str, prompts: list[Any], variables: dict[str, Any]) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    options = {"add_generation_prompt": True, **variables}
    return [
        [
            tokenizer.apply_chat_template(prompt, tokenize=False, **options),
            len(tokenizer.apply_chat_template(prompt, tokenize=True, return_dict=False, **options)),
        ]
        for prompt in prompts
    ]


def score(source: str, answer: str, truth: Any) -> Any:
    from verl.utils.reward_score import default_compute_score  # type: ignore[import-not-found,unused-ignore]

    try:
        result = default_compute_score(source, answer, truth)
    except Exception as error:  # noqa: BLE001 - whatever verl raises is the answer
        return type(error).__name__
    return result["score"] if isinstance(result, dict) else result


_ANSWERS: dict[str, Any] = {"load": load, "count": count, "score": score}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # verl prints as it works
    for line in sys.stdin:
        question = json.loads(line)
        with contextlib.redirect_stdout(sys.stderr):
            answer = _ANSWERS[question.pop("what")](**question)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
