# The program on NVIDIA GPUs (sm_80 and newer):
#   docker build -t saccade:cuda -f docker/cuda.Dockerfile .
#   docker run --rm --gpus all --ipc=host -v "$PWD:/data" -w /data saccade:cuda --help
# CUDA 13 needs a driver of version 580 or newer. For older ones, from 525 on:
#   --build-arg CUDA=12.6.3 --build-arg "ARCHITECTURES=80-real;86-real;89-real;90"
# (12.8 and newer have 100 and 120). The last architecture includes PTX, for GPUs newer than all of these.
ARG CUDA=13.0.1
ARG UBUNTU=24.04
# Whole names, such as those of a mirror: the image to build in, and the one to start from.
ARG BUILD_IMAGE=nvidia/cuda:${CUDA}-devel-ubuntu${UBUNTU}
ARG BASE_IMAGE=nvidia/cuda:${CUDA}-cudnn-runtime-ubuntu${UBUNTU}

FROM ${BUILD_IMAGE} AS build
ARG ARCHITECTURES="80-real;86-real;89-real;90-real;100-real;120"
COPY . /src
WORKDIR /src
RUN scripts/setup.sh && apt-get install -q -y --no-install-recommends git file dpkg-dev \
  && cmake -S . -B /build -G Ninja -DSACCADE_MARCH=x86-64-v3 -DSACCADE_CUDA=on "-DSACCADE_CUDA_ARCHITECTURES=$ARCHITECTURES" \
    -DSACCADE_TESTS=OFF \
  && cmake --build /build && cd /build && cpack

# Includes cuBLAS, cuDNN and NCCL, which are looked for when the program runs.
FROM ${BASE_IMAGE}
COPY --from=build /build/saccade_*.deb /tmp/
RUN apt-get update -q && apt-get install -q -y --no-install-recommends /tmp/saccade_*.deb libcurl4 ca-certificates \
  && rm -rf /var/lib/apt/lists/* /tmp/saccade_*.deb
ENTRYPOINT ["saccade"]
