#!/usr/bin/env bash
# Makes a release of the checked-out commit, for processors with AVX2, in dist/saccade-VERSION, with SHA-256
# sums: the source, the program with the library as an archive and as packages for Debian, and the Python
# wheel; if nvcc is found, also archive and packages with CUDA, in the folder cuda. The working tree must be
# clean and CHANGELOG.md must contain the version.
# Usage: scripts/release.sh [--cuda auto|off|on] [--architectures LIST] [--no-wheel] [--try] [--draft]
#   --architectures  of GPUs, for example "80-real;90": as SACCADE_CUDA_ARCHITECTURES
#   --try            afterwards, in an empty Debian (scripts/checks/check_package.sh; as root)
#   --draft          of any commit, whatever CHANGELOG.md says
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "error: release.sh: $*" >&2; exit 1; }
cuda=auto architectures="" wheel=1 try=0 draft=0
while [ $# -gt 0 ]; do
  case $1 in
    --cuda) cuda=${2:?} ; shift 2 ;;
    --architectures) architectures=${2:?} ; shift 2 ;;
    --no-wheel) wheel=0 ; shift ;;
    --try) try=1 ; shift ;;
    --draft) draft=1 ; shift ;;
    *) fail "unknown argument $1, expected --cuda, --architectures, --no-wheel, --try or --draft" ;;
  esac
done
case $cuda in
  on | off) ;;
  auto)
    cuda=off
    if command -v nvcc > /dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then cuda=on; fi ;;
  *) fail "--cuda $cuda: expected auto, off or on" ;;
esac

# cpack determines the packages that the binaries need.
tools=(cmake ninja git xz file dpkg-shlibdeps)
[ $try = 0 ] || tools+=(debootstrap)
for tool in "${tools[@]}"; do
  command -v "$tool" > /dev/null ||
    fail "$tool is missing; this needs the packages of scripts/setup.sh, git, xz-utils, file, dpkg-dev, and debootstrap with --try"
done
version=$(sed -nE 's/^project\(saccade VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
if [ $draft = 0 ]; then
  [ -z "$(git status --porcelain)" ] || fail "there are uncommitted changes"
  grep -q "^## $version (" CHANGELOG.md || fail "CHANGELOG.md has no section \"## $version (DATE)\""
fi
name=saccade-$version
out=dist/$name
commit=$(git rev-parse --short=10 HEAD)
rm -rf "$out"
mkdir -p "$out"
# Archives of the same commit have the same bytes.
git archive --prefix="$name/" --add-virtual-file="$name/.commit:$commit" HEAD | xz -9 > "$out/$name.tar.xz"

binaries() { # build folder, where to, what the archive is called, further options of cmake...
  local build=$1 folder=$2 tree=$3
  shift 3
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSACCADE_MARCH=x86-64-v3 -DSACCADE_TESTS=OFF "$@"
  cmake --build "$build"
  mkdir -p "$folder"
  (cd "$build" && rm -f ./*.deb && cpack)
  cp "$build"/*.deb "$folder/"
  rm -rf "${build:?}/$tree"
  cmake --install "$build" --prefix "$build/$tree" --strip > /dev/null
  tar -C "$build" --sort=name --owner=0 --group=0 --mtime="@$(git log -1 --format=%ct)" -c "$tree" |
    xz -9 > "$folder/$tree.tar.xz"
  rm -rf "${build:?}/$tree"
  if command -v lintian > /dev/null; then
    lintian --fail-on error,warning "$folder"/*.deb
  fi
}
binaries build-release "$out" "$name-linux-x86_64" -DSACCADE_CUDA=off
if [ "$cuda" = on ]; then
  binaries build-release-cuda "$out/cuda" "$name-linux-x86_64-cuda" -DSACCADE_CUDA=on \
    "-DSACCADE_CUDA_ARCHITECTURES=$architectures"
fi
[ $wheel = 0 ] || scripts/wheel.sh --output "$out"
mapfile -t files < <(cd "$out" && find . -type f | sort)
(cd "$out" && sha256sum "${files[@]}" > SHA256SUMS && sha256sum -c --quiet SHA256SUMS)
ls -lR "$out"
if [ $try = 1 ]; then
  scripts/checks/check_package.sh "$out"
fi
