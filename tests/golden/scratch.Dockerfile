# tiny@v1
#   /opt/models/tiny: dir://model, 9.7 kB
#
# Rendered by bake VERSION from models.lock; change that, not this file. Build it with Docker Engine 28.2 or newer
# (BuildKit 0.23), in the folder that `bake render -o` wrote:
#
#   docker build \
#     --build-context model=FOLDER \
#     -t tiny:v1 \
#     .
#
# Each stage is one layer of the image, copied with --link, so that a new base or a new entrypoint moves no weights.
# A file that is fetched is checked by its sha256; one that is copied from a folder is not.

# The folder that is passed in as the build context named model takes this stage's place.
FROM scratch AS model

# config.json, sub folder/tokenizer.json (14.3 kB)
FROM scratch AS layer-1
WORKDIR "/opt/models/tiny/sub folder"
WORKDIR /opt/models/tiny
COPY --chmod=0444 --from=model /config.json ./config.json
COPY --chmod=0444 --from=model ["/sub folder/tokenizer.json", "./sub folder/tokenizer.json"]

# The record of every file; and `models`, which leads to the model from wherever the image is mounted.
FROM scratch AS program
COPY link/ /image/
WORKDIR /image/opt/bake
COPY --chmod=0444 opt/bake/record.json ./

FROM scratch
COPY --link --from=layer-1 /opt /opt
COPY --link --from=program /image /
ENV VERL_MODEL_PATH=/opt/models/tiny
LABEL dev.bake.model=tiny@v1
