"""Trained: one model that verl trains, as its engine holds it: the parts on a GPU, and those in the node's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.amounts import billions
from bake.entrypoint.preflight.part import PHASES, Part, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.asked import Role
    from bake.entrypoint.preflight.config import Shape

_UPDATES: dict[Role, Phase] = {"actor": "update actor", "critic": "update critic"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Weights, gradients or an optimizer: `count` parameters of `element` bytes, of which a GPU holds `held`.

    `split` says how they were cut, as `/ 8 GPUs`.
    """

    count: int
    element: int
    held: int
    split: str

    @property
    def size(self) -> int:
        """Bytes on one GPU."""
        return self.held * self.element

    @property
    def whole(self) -> int:
        """Bytes of all GPUs that share one copy."""
        return self.count * self.element

    @property
    def how(self) -> str:
        return f"{billions(self.count)} x {self.element} bytes {self.split}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """`optimizer_certain` is False for one whose bytes are not known. `away`: FSDP2's offload policy keeps all of it in
    the node's memory. `readers` are the processes of a node that each read the model whole, 0 where that is not known.
    `adapters` are LoRA's parameters.
    """

    role: Role
    shape: Shape
    weights: Piece
    gradients: Piece
    optimizer: Piece
    optimizer_certain: bool = True
    param_offload: bool = False
    optimizer_offload: bool = False
    away: bool = False
    readers: int = 0
    adapters: int = 0
    gpus_per_node: int

    def gpu_parts(self) -> Iterator[Part]:
        if self.away:
            return
        update = (_UPDATES[self.role],)
        weights, optimizer = (update if off else PHASES for off in (self.param_offload, self.optimizer_offload))
        yield _part(self.role, "weights", self.weights, weights)
        yield _part(self.role, "gradients", self.gradients, update)
        yield _part(self.role, "optimizer", self.optimizer, optimizer, certain=self.optimizer_certain)

    def host_parts(self) -> Iterator[Part]:
        if self.readers:
            how = f"{billions(self.weights.count)} x {self.weights.element} bytes, in {self.readers} of "
            yield Part(
                name=f"{self.role} while it is read",
                size=self.weights.whole * self.readers,
                how=how + f"{self.gpus_per_node} processes",
                lasts=False,
            )
        for name, piece, here in (
            ("weights", self.weights, self.param_offload or self.away),
            ("gradients", self.gradients, self.away),
            ("optimizer", self.optimizer, self.optimizer_offload or self.away),
        ):
            if here:
                yield offloaded(f"{self.role} {name}, offloaded", piece, self.gpus_per_node)


def offloaded(name: str, piece: Piece, gpus: int) -> Part:
    """What all GPUs of a node have put into its memory."""
    return Part(name=name, size=piece.size * gpus, how=f"{piece.how}, x {gpus} of this node")


def _part(role: Role, name: str, piece: Piece, phases: tuple[Phase, ...], *, certain: bool = True) -> Part:
    return Part(name=f"{role} {name}", size=piece.size, how=piece.how, phases=phases, certain=certain)
