# tiny@v1
#   /opt/models/tiny: hf://org/name at 0e9e39f249a16976918f6564b8830bc894c89659, 9.7 kB
#   /opt/models/critic: dir://critic, 9.7 kB
#   /opt/models/judge: dir://judge, 9.7 kB
#
# Rendered by bake VERSION from models.lock; change that, not this file. Build it with Docker Engine 28.2 or newer
# (BuildKit 0.23), in the folder that `bake render -o` wrote:
#
#   docker build \
#     --build-context critic=FOLDER \
#     --build-context reward_model=FOLDER \
#     -t tiny:v1 \
#     .
#
# Each stage is one layer of the image, copied with --link, so that a new base or a new entrypoint moves no weights.
# A file that is fetched is checked by its sha256; one that is copied from a folder is not.

# The folder that is passed in as the build context named critic takes this stage's place.
FROM scratch AS critic

# The folder that is passed in as the build context named reward_model takes this stage's place.
FROM scratch AS reward_model

# config.json, sub folder/tokenizer.json (14.3 kB)
FROM scratch AS layer-1
WORKDIR "/opt/models/tiny/sub folder"
WORKDIR /opt/models/tiny
ADD --chmod=0444 --checksum=sha256:da44aa0b04497c91fb5b0e21b85761ea0c44fc2e3a2cb72c01e1eeafc8e4c6df \
    https://hub.example/org/name/resolve/0e9e39f249a16976918f6564b8830bc894c89659/config.json ./config.json
ADD --chmod=0444 --checksum=sha256:00b227d99cfa75b7ad2453935832e3f845d3f0f7d8320d1ef6e87a84bc8ef89b \
    ["https://hub.example/org/name/resolve/0e9e39f249a16976918f6564b8830bc894c89659/sub%20folder/tokenizer.json", "./sub folder/tokenizer.json"]

# config.json, sub folder/tokenizer.json (14.3 kB)
FROM scratch AS layer-2
WORKDIR "/opt/models/critic/sub folder"
WORKDIR /opt/models/critic
COPY --chmod=0444 --from=critic /config.json ./config.json
COPY --chmod=0444 --from=critic ["/sub folder/tokenizer.json", "./sub folder/tokenizer.json"]

# config.json, sub folder/tokenizer.json (14.3 kB)
FROM scratch AS layer-3
WORKDIR "/opt/models/judge/sub folder"
WORKDIR /opt/models/judge
COPY --chmod=0444 --from=reward_model /config.json ./config.json
COPY --chmod=0444 --from=reward_model ["/sub folder/tokenizer.json", "./sub folder/tokenizer.json"]

# The record of every file; and `models`, which leads to the model from wherever the image is mounted.
FROM scratch AS program
COPY link/ /image/
WORKDIR /image/opt/bake
COPY --chmod=0444 opt/bake/record.json ./

FROM scratch
COPY --link --from=layer-1 /opt /opt
COPY --link --from=layer-2 /opt /opt
COPY --link --from=layer-3 /opt /opt
COPY --link --from=program /image /
ENV VERL_MODEL_PATH=/opt/models/tiny \
    VERL_CRITIC_MODEL_PATH=/opt/models/critic \
    VERL_REWARD_MODEL_PATH=/opt/models/judge
LABEL dev.bake.model=tiny@v1
