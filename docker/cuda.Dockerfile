# The program on NVIDIA GPUs (sm_80 and newer; the driver of CUDA 13):  docker build -t saccade:cuda -f docker/cuda.Dockerfile .
#                                  docker run --rm --gpus all -v "$PWD:/data" -w /data saccade:cuda --help
FROM nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04 AS build
COPY . /src
WORKDIR /src
RUN scripts/setup.sh && apt-get install -q -y --no-install-recommends git file dpkg-dev \
  && cmake -S . -B /build -G Ninja -DSACCADE_MARCH=x86-64-v3 -DSACCADE_CUDA=on "-DSACCADE_CUDA_ARCHITECTURES=80;86;89;90;100;120" \
    -DSACCADE_TESTS=OFF \
  && cmake --build /build && cd /build && cpack

# Has cuBLAS and cuDNN, which are looked for when the program runs.
FROM nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04
COPY --from=build /build/saccade_*.deb /tmp/
RUN apt-get update -q && apt-get install -q -y --no-install-recommends /tmp/saccade_*.deb \
  && rm -rf /var/lib/apt/lists/* /tmp/saccade_*.deb
ENTRYPOINT ["saccade"]
