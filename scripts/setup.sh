#!/usr/bin/env bash
# Installs the packages that the build needs and that are missing (Debian 12, Ubuntu 24.04 or later; as root
# or with sudo). Does nothing, and asks for no rights, if all are installed.
# Usage: scripts/setup.sh [--video] [--checks] [--tidy] [--fuzz]
#   also what predict needs for videos (180 MB), what .ci/run needs, what scripts/checks/clang_tidy.sh needs,
#   what scripts/fuzz.sh needs
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(cmake ninja-build g++ libdnnl-dev libprotobuf-dev protobuf-compiler libcli11-dev libstb-dev libsimdjson-dev
  libfmt-dev libre2-dev libjpeg-dev libpng-dev libwebp-dev libtiff-dev libexpat1-dev libyaml-dev
  zlib1g-dev libxxhash-dev libonnx-dev libcurl4-openssl-dev libboost-dev libgtest-dev fonts-dejavu-core)
video=(libavformat-dev libavcodec-dev libswscale-dev libavutil-dev)
checks=0 fuzz=0
for argument in "$@"; do
  case "$argument" in
    # Other versions format differently, so the version is part of the check.
    --checks) packages+=("${video[@]}" openmpi-bin git clang-format-14 shellcheck python3-venv) checks=1 ;;
    --video) packages+=("${video[@]}") ;;
    --fuzz) fuzz=1 ;;
    --tidy) packages+=(clang-tidy-16 libomp-16-dev) ;;
    *) echo "error: setup.sh: unknown argument $argument, expected --video, --checks, --tidy or --fuzz" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  echo "setup.sh: no apt on this machine; please install ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}\n' "$package" 2> /dev/null | head -n 1) || true
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo > /dev/null; then
      echo "error: setup.sh: packages are missing (${missing[*]}) and neither root nor sudo is available" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "Installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
fi

# Other versions have other findings, so the version is part of the check, as with clang-format.
ruff=0.8.4
if [ $checks = 1 ] && ! .cache/ruff/bin/ruff --version 2> /dev/null | grep -qx "ruff $ruff"; then
  echo "Installing: ruff $ruff"
  python3 -m venv .cache/ruff
  .cache/ruff/bin/pip install -q --disable-pip-version-check "ruff==$ruff"
fi

# For fuzzing (scripts/fuzz.sh). Nothing else needs it, and nothing fails without it.
fuzz_packages=(clang-16 libclang-rt-16-dev)
if [ $fuzz = 1 ] && ! dpkg-query -W "${fuzz_packages[@]}" > /dev/null 2>&1; then
  echo "Installing: ${fuzz_packages[*]}"
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  { "${as_root[@]}" apt-get update -q &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${fuzz_packages[@]}"; } ||
    echo "setup.sh: clang cannot be installed; readers will not be fuzzed" >&2
fi

# For running exported models (scripts/checks/check_onnx.py). Not part of the program, and nothing else needs
# it.
if [ $checks = 1 ] && ! .cache/onnx/bin/python -c 'import onnx, onnxruntime' 2> /dev/null; then
  echo "Installing: onnx and onnxruntime"
  python3 -m venv .cache/onnx
  .cache/onnx/bin/pip install -q --disable-pip-version-check onnx==1.23.2 onnxruntime==1.32.0 ||
    { rm -rf .cache/onnx; echo "setup.sh: onnxruntime cannot be fetched; exported models will not be run" >&2; }
fi

# For reading the machine code that nvcc makes (scripts/checks/check_sass.py), if the toolkit has no
# cuobjdump.
if [ $checks = 1 ] && { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } > /dev/null &&
  ! { command -v cuobjdump || [ -x /usr/local/cuda/bin/cuobjdump ] || [ -d .cache/cuobjdump/bin ]; } > /dev/null; then
  echo "Installing: cuobjdump and nvdisasm"
  python3 -m venv .cache/cuobjdump
  .cache/cuobjdump/bin/pip install -q --disable-pip-version-check nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.* ||
    { rm -rf .cache/cuobjdump; echo "setup.sh: cuobjdump cannot be fetched; machine code will not be checked" >&2; }
fi
