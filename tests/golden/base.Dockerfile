# check=skip=SecretsUsedInArgOrEnv
# (RAY_AUTH_MODE says that Ray uses no token; the check takes its name for a secret's.)
#
# tiny@v1
#   /opt/models/tiny: hf://org/name at 0e9e39f249a16976918f6564b8830bc894c89659, 146.8 MB
#
# Rendered by bake VERSION from models.lock; change that, not this file. Build it with Docker Engine 28.2 or newer
# (BuildKit 0.23), in the folder that `bake render -o` wrote:
#
#   docker build \
#     --secret id=HTTP_AUTH_TOKEN_hub.example,env=HF_TOKEN \
#     -t tiny:v1 \
#     .
#
# Each stage is one layer of the image, copied with --link, so that a new base or a new entrypoint moves no weights.
# A file that is fetched is checked by its sha256; one that is copied from a folder is not.

# config.json, sub folder/tokenizer.json (14.3 kB)
FROM scratch AS layer-1
WORKDIR "/opt/models/tiny/sub folder"
WORKDIR /opt/models/tiny
ADD --chmod=0444 --checksum=sha256:da44aa0b04497c91fb5b0e21b85761ea0c44fc2e3a2cb72c01e1eeafc8e4c6df \
    https://hub.example/org/name/resolve/0e9e39f249a16976918f6564b8830bc894c89659/config.json ./config.json
ADD --chmod=0444 --checksum=sha256:00b227d99cfa75b7ad2453935832e3f845d3f0f7d8320d1ef6e87a84bc8ef89b \
    ["https://hub.example/org/name/resolve/0e9e39f249a16976918f6564b8830bc894c89659/sub%20folder/tokenizer.json", "./sub folder/tokenizer.json"]

# model-00001-of-00002.safetensors (73.4 MB)
FROM scratch AS layer-2
WORKDIR /opt/models/tiny
ADD --chmod=0444 --checksum=sha256:7cc01287cd6d7cfca7573d14c9535bae12fd75712a67934affce9f376b251a13 \
    https://hub.example/org/name/resolve/0e9e39f249a16976918f6564b8830bc894c89659/model-00001-of-00002.safetensors ./model-00001-of-00002.safetensors

# model-00002-of-00002.safetensors (73.4 MB)
FROM scratch AS layer-3
WORKDIR /opt/models/tiny
ADD --chmod=0444 --checksum=sha256:22246ed77b71b32695febba950bed2f15ea4c292a0afb3c0abb5742b726f77a2 \
    https://hub.example/org/name/resolve/0e9e39f249a16976918f6564b8830bc894c89659/model-00002-of-00002.safetensors ./model-00002-of-00002.safetensors

# What the base lacks. `bake build` passes these files in as a build context named wheels, in place of this stage.
FROM verlai/verl:vllm@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb AS wheels
COPY --chmod=0444 requirements.txt /opt/bake/
RUN python3 -m pip install --no-cache-dir --no-compile --no-deps --require-hashes --target /opt/bake/site \
    -r /opt/bake/requirements.txt

# The record of every file, the entrypoint that verifies it, and a folder that any user may write into.
FROM scratch AS outputs
WORKDIR /image/outputs

FROM scratch AS program
WORKDIR /image/opt/bake
COPY --chmod=0444 opt/bake/*.py opt/bake/record.json ./
WORKDIR /image/opt/bake/bake
COPY --chmod=0444 opt/bake/bake/*.py ./
COPY --chmod=1777 --from=outputs /image /image

FROM verlai/verl:vllm@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
COPY --link --from=layer-1 /opt /opt
COPY --link --from=layer-2 /opt /opt
COPY --link --from=layer-3 /opt /opt
COPY --link --from=wheels /opt/bake/site /opt/bake/site
COPY --link --from=program /image /
ARG PYTHONPATH
ENV VERL_MODEL_PATH=/opt/models/tiny \
    HF_HUB_OFFLINE=1 \
    TRANSFORMERS_OFFLINE=1 \
    HF_HUB_DISABLE_TELEMETRY=1 \
    HF_HOME=/tmp/huggingface \
    RAY_AUTH_MODE=disabled \
    PYTHONPATH=/opt/bake/site${PYTHONPATH:+:$PYTHONPATH}
LABEL dev.bake.model=tiny@v1
WORKDIR /outputs
ENTRYPOINT ["python3", "/opt/bake"]
CMD ["train"]
