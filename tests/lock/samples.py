"""A small lock that holds one of everything, as values and as text."""

from __future__ import annotations

from dataclasses import replace

from bake.digest import Digest
from bake.lock import Base, Lock, LockedLayer, LockedModel, ModelId, Wheel
from bake.record import RecordedFile
from bake.select import Excluded

COMMIT = "0e9e39f249a16976918f6564b8830bc894c89659"
HEX_A, HEX_B, HEX_C = "a" * 64, "b" * 64, "c" * 64

VLLM = Base(
    name="vllm",
    image="verlai/verl:vllm024",
    digest=Digest(HEX_A),
    verl="0.9.1",
    wheels=(
        Wheel(name="transferqueue", version="0.1.11", digest=Digest(HEX_B)),
        Wheel(name="verl", version="0.9.1", digest=Digest(HEX_C)),
    ),
    comment=("# the image that CI runs in",),
)

FILES = (
    RecordedFile(path="config.json", size=2, digest=Digest.of(b"{}")),
    RecordedFile(path="sub/model.safetensors", size=5, digest=Digest.of(b"bytes")),
)

TINY = replace(
    LockedModel(
        id=ModelId("tiny", "v1"),
        source="hf://org/tiny",
        revision="main",
        include=("README.md",),
        exclude=("*.bin", "onnx/"),
        base="vllm",
        critic=ModelId("value", "v1"),
        trust_remote_code=True,
        overrides=("algorithm.adv_estimator=grpo", "+data.seed=1"),
        license="apache-2.0",
        gated=True,
        comment=("# the one we train",),
    ).resolve(
        files=FILES,
        excluded=(
            Excluded(path=".git/", size=None, reason="a hidden folder"),
            Excluded(path="pytorch_model.bin", size=7, reason="excluded by the glob '*.bin'"),
        ),
        commit=COMMIT,
    ),
    packer=1,
    layers=(
        LockedLayer(diff_id=Digest(HEX_A), size=2048, files=("config.json",)),
        LockedLayer(diff_id=Digest(HEX_B), size=2560, files=("sub/model.safetensors",)),
    ),
)

VALUE = LockedModel(id=ModelId("value", "v1"), source="dir://models/value", exclude=("optimizer.pt",))

LOCK = Lock(bases=(VLLM,), models=(TINY, VALUE), comment=("# ours",), ending=("# the end",))

TEXT = """\
# ours
version = 1

# the image that CI runs in
[base.vllm]
verl = "0.9.1"
wheels = [
  { name = "transferqueue", version = "0.1.11", sha256 = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" },
  { name = "verl", version = "0.9.1", sha256 = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc" },
]
digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
image = "verlai/verl:vllm024"

# the one we train
[[model]]
name = "tiny"
version = "v1"
set_digest = "sha256:ebbd2f2813bbfd13cf7f3ff8c2f54cc4263bf6bc2d3ed79ea4a4365e24dd956d"
base = "vllm"
critic = "value@v1"
trust_remote_code = true
overrides = ["algorithm.adv_estimator=grpo", "+data.seed=1"]
include = ["README.md"]
exclude = ["*.bin", "onnx/"]
revision = "main"
source = "hf://org/tiny"
asked_digest = "sha256:91faa340ce995977e5a39c2d0e7f5836047b74819192b574cd182cd13eb4ca6c"
commit = "0e9e39f249a16976918f6564b8830bc894c89659"
license = "apache-2.0"
gated = true
size = 7
packer = 1

  [[model.excluded]]
  path = ".git/"
  reason = "a hidden folder"

  [[model.excluded]]
  path = "pytorch_model.bin"
  size = 7
  reason = "excluded by the glob '*.bin'"

  [[model.file]]
  path = "config.json"
  size = 2
  sha256 = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

  [[model.file]]
  path = "sub/model.safetensors"
  size = 5
  sha256 = "277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9"

  [[model.layer]]
  diff_id = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
  size = 2048
  files = ["config.json"]

  [[model.layer]]
  diff_id = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
  size = 2560
  files = ["sub/model.safetensors"]

[[model]]
name = "value"
version = "v1"
base = "scratch"
exclude = ["optimizer.pt"]
source = "dir://models/value"

# the end
"""  # noqa: E501 - a lock is as wide as its digests
