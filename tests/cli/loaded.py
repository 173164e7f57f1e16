"""What transformers loads of folders, as JSON on stdout: each tensor of the state dict by dtype, shape and sha256.

    python tests/cli/loaded.py SITE FOLDER...     # SITE holds torch and transformers

It runs outside pytest, with the packages of SITE.
"""

from __future__ import annotations

import hashlib
import json
import sys


def state_of(folder: str) -> dict[str, str]:
    import torch
    from transformers import AutoModelForCausalLM

    model, said = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", output_loading_info=True)
    assert not any(said[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), said
    return {
        name: f"{tensor.dtype} {tuple(tensor.shape)} "
        + hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
        for name, tensor in model.state_dict().items()
    }


if __name__ == "__main__":
    site, *folders = sys.argv[1:]
    sys.path.insert(0, site)
    print(json.dumps([state_of(folder) for folder in folders]))  # noqa: T201
