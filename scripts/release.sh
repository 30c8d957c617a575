#!/usr/bin/env bash
# Makes a release of the commit that is checked out: the source and the program with the library as archives, the packages for
# Debian and the wheel for Python, for processors with AVX2, with their SHA-256 sums, in dist/saccade-VERSION. The working tree must be clean and CHANGELOG.md
# must have the version. CUDA is built in where nvcc is found.
# Usage: scripts/release.sh [--cuda auto|off|on]
set -euo pipefail
cd "$(dirname "$0")/.."
cuda=auto
[ "${1:-}" != --cuda ] || cuda=${2:?}
fail() { echo "error: release.sh: $*" >&2; exit 1; }

# cpack reads from the binaries which packages they need.
for tool in cmake ninja git xz file dpkg-shlibdeps; do
  command -v "$tool" > /dev/null ||
    fail "$tool is missing; the packages that this needs: those of scripts/setup.sh, git, xz-utils, file, dpkg-dev"
done
version=$(sed -nE 's/^project\(saccade VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed"
grep -q "^## $version (" CHANGELOG.md || fail "CHANGELOG.md has no section \"## $version (DATE)\""
name=saccade-$version
out=dist/$name
commit=$(git rev-parse --short=10 HEAD)
rm -rf "$out"
mkdir -p "$out"
# Archives of the same commit have the same bytes.
git archive --prefix="$name/" --add-virtual-file="$name/.commit:$commit" HEAD | xz -9 > "$out/$name.tar.xz"

build="build-release"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSACCADE_MARCH=x86-64-v3 "-DSACCADE_CUDA=$cuda" \
  -DSACCADE_TESTS=OFF
cmake --build "$build"
(cd "$build" && rm -f ./*.deb && cpack)
cp "$build"/*.deb "$out/"
tree=$name-linux-x86_64
cmake --install "$build" --prefix "$build/$tree" --strip > /dev/null
tar -C "$build" --sort=name --owner=0 --group=0 --mtime="@$(git log -1 --format=%ct)" -c "$tree" | xz -9 > "$out/$tree.tar.xz"
rm -rf "${build:?}/$tree"
scripts/wheel.sh --cuda "$cuda" --output "$out"
if command -v lintian > /dev/null; then
  lintian --fail-on error,warning "$out"/*.deb
fi
(cd "$out" && sha256sum ./*.deb ./*.tar.xz ./*.whl > SHA256SUMS && sha256sum -c --quiet SHA256SUMS)
ls -l "$out"
