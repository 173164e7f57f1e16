"""A rollout on the CPU: a Ray actor that holds a transformers model, generates with it, and takes new weights.

The calls are those that verl 0.9.1 makes of vLLM's server and adapter (verl/workers/rollout/vllm_rollout/).
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Server:
    """Generates one request at a time. `length` is the most tokens of an answer."""

    def __init__(self, path: str, length: int) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self._model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa").eval()
        self._length = length
        self._step: int | None = None
        self._one_at_a_time = asyncio.Lock()

    async def ready(self) -> None: ...

    async def wake_up(self, tags: Sequence[str] | None = None) -> None: ...

    async def sleep(self) -> None: ...

    async def clear_kv_cache(self) -> None: ...

    async def release_kv_cache(self) -> None: ...

    async def resume_kv_cache(self) -> None: ...

    async def abort_all_requests(self, reject_request: bool = False) -> None: ...

    async def resume_generation(self) -> None: ...

    async def start_profile(self, **_: object) -> None: ...

    async def stop_profile(self) -> None: ...

    async def load(self, weights: Mapping[str, torch.Tensor], step: int | None) -> None:
        """Take the weights of a training step. A tied head is not among them; a name that is unknown is an error."""
        loaded = self._model.load_state_dict({name: value.float() for name, value in weights.items()}, strict=False)
        if loaded.unexpected_keys:
            raise KeyError(loaded.unexpected_keys)
        self._step = step

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], sampling_params: Mapping[str, Any], **_: object
    ) -> TokenOutput:
        async with self._one_at_a_time:
            return self._generate(list(prompt_ids), sampling_params)

    def _generate(self, prompt: list[int], sampling: Mapping[str, Any]) -> TokenOutput:
        asked = sampling.get("max_tokens") or sampling.get("max_new_tokens") or self._length
        temperature = float(sampling.get("temperature", 1.0))
        with torch.no_grad():
            made = self._model.generate(
                torch.tensor([prompt]),
                max_new_tokens=min(asked, self._length),
                do_sample=temperature > 0,
                temperature=temperature or None,
                output_logits=True,
                return_dict_in_generate=True,
            )
        tokens = made.sequences[0, len(prompt) :].tolist()
        scores = [torch.log_softmax(logits[0].float() / (temperature or 1.0), -1) for logits in made.logits]
        return TokenOutput(
            token_ids=tokens,
            log_probs=[score[token].item() for score, token in zip(scores, tokens, strict=True)],
            stop_reason="completed",
            extra_fields={"global_steps": self._step},
        )


class CpuRollout(BaseRollout):  # type: ignore[misc]
    """The training worker's end: it hands each step's weights to the server of its rank."""

    sleep_level = 1

    async def resume(self, tags: Sequence[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(self, weights: Any, global_steps: int | None = None, **_: object) -> None:
        taken = {name: _whole(tensor) async for name, tensor in _each(weights)}
        await ray.get_actor(_name(int(os.environ["RANK"]))).load.remote(taken, global_steps)
        print(f"verl_cpu: {len(taken)} tensors went to the rollout", flush=True)  # noqa: T201 - a test reads it


async def _each(weights: Any) -> Any:
    """verl gives a generator or an asynchronous one."""
    if hasattr(weights, "__aiter__"):
        async for pair in weights:
            yield pair
    else:
        for pair in weights:
            yield pair


def _whole(tensor: Any) -> torch.Tensor:
    """A copy; FSDP2's tensors are gathered from all nodes first."""
    full = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full.detach().cpu().clone()


def _name(rank: int) -> str:
    return f"cpu_server_{rank}"


class CpuReplica(RolloutReplica):  # type: ignore[misc]
    """verl's end: one server a rank, found by its name."""

    async def launch_servers(self) -> None:
        actor = ray.remote(num_cpus=0)(Server).options(name=_name(self.replica_rank), max_concurrency=64)
        server = actor.remote(self.model_config.path, self.config.response_length)
        await server.ready.remote()
        self.servers = [server]
        self._server_handle = server
        self._server_address = _name(self.replica_rank)
