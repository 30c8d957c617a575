# The program on a CPU with AVX2:  docker build -t saccade -f docker/cpu.Dockerfile .
#                                  docker run --rm -v "$PWD:/data" -w /data saccade --help
# Other images to build in and to start from:  --build-arg BUILD_IMAGE=... --build-arg BASE_IMAGE=...
ARG BUILD_IMAGE=debian:12
ARG BASE_IMAGE=debian:12-slim

FROM ${BUILD_IMAGE} AS build
COPY . /src
WORKDIR /src
RUN scripts/setup.sh && apt-get install -q -y --no-install-recommends git file dpkg-dev \
  && cmake -S . -B /build -G Ninja -DSACCADE_MARCH=x86-64-v3 -DSACCADE_CUDA=off -DSACCADE_TESTS=OFF \
  && cmake --build /build && cd /build && cpack

FROM ${BASE_IMAGE}
COPY --from=build /build/saccade_*.deb /tmp/
RUN apt-get update -q && apt-get install -q -y --no-install-recommends /tmp/saccade_*.deb libcurl4 ca-certificates \
  && rm -rf /var/lib/apt/lists/* /tmp/saccade_*.deb
ENTRYPOINT ["saccade"]
