#!/usr/bin/env bash
# Tests the packages in an empty Debian 12: they install, the find_package example builds and runs, completion
# works, the manual is there, a service answers, and nothing is left after their removal. Also tries the
# program's archive and the wheel, if they are next to the packages. Needs root, debootstrap and the network;
# takes minutes.
# Usage: scripts/checks/check_package.sh FOLDER [BASE]
#   where the .deb files are; a tree that debootstrap has made, which is copied
set -euo pipefail
packages=$(realpath "${1:?usage: scripts/checks/check_package.sh FOLDER [BASE]}")
base=${2:-}
library=$(basename "$packages"/libsaccade[0-9]*.deb | cut -d_ -f1)
examples=$(realpath "$(dirname "$0")/../../examples")
root=$(mktemp -d)
mounted=0 service=
leave() {
  [ -z "$service" ] || kill "$service" 2> /dev/null || true
  [ $mounted = 0 ] || umount "$root/proc"
  rm -rf --one-file-system "$root"
}
trap leave EXIT
fail() { echo "error: check_package.sh: $*" >&2; exit 1; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
quietly() { "$@" > "$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; fail "$*"; }; }
# Leaves out what others keep for themselves: man caches pages that it has shown, apt what it has fetched.
files_of_ours() { find "$root" -xdev \( -path "$root/proc" -o -path "$root/check" -o -path "$root/var/cache" \) -prune -o -iname '*saccade*' -print; }

if [ -n "$base" ]; then
  cp -a "$base/." "$root/"
else
  quietly debootstrap --variant=minbase bookworm "$root"
fi
mount -t proc proc "$root/proc"
mounted=1
[ -z "$(files_of_ours)" ] || fail "the tree is not empty"
mkdir "$root/check"
cp "$packages"/saccade_*.deb "$packages"/libsaccade*.deb "$root/check/"
cp -r "$examples" "$root/check/examples"
quietly inside apt-get update -q
quietly inside apt-get install -q -y --no-install-recommends g++ cmake make man-db bash-completion curl xz-utils
# shellcheck disable=SC2016  # the shell inside expands it
quietly inside sh -c 'apt-get install -q -y --no-install-recommends /check/*.deb'
inside dpkg-query -W "*saccade*"
inside saccade --version

quietly inside cmake -S /check/examples -B /check/build
quietly inside cmake --build /check/build
cat > "$root/check/tiny.textproto" << 'END'
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 dropout: 0 }
}
data { batch_size: 2 workers: 1 augment { height: 64 width: 64 } val_height: 64 val_width: 64 }
train { max_steps: 2 }
END
quietly inside saccade data shapes --output /check/shapes --images 4 --seed 1 --size 64
quietly inside /check/build/train_steps /check/tiny.textproto /check/run 2 \
  data.train.annotations=/check/shapes/annotations.json data.train.images=/check/shapes/images
found=$(inside sh -c '/check/build/detect /check/run/checkpoints/last.safetensors 0 /check/shapes/images/*.png' | wc -l)
[ "$found" -gt 0 ] || fail "the example finds nothing"
echo "find_package: the examples build, train and find $found boxes"

# shellcheck disable=SC2016
completed=$(inside bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader saccade
  COMP_LINE="saccade train --set model.backbone.type=sw" COMP_POINT=999; _saccade; echo "${COMPREPLY[@]}"')
[ "$completed" = swin ] || fail "completion gives \"$completed\", expected swin"
[[ $(inside man saccade-data-shapes 2> /dev/null) == *synthetic* ]] || fail "the manual page is not shown"
echo "completion and the manual page work"

# The example's training wrote a checkpoint; the program serves it.
chroot "$root" saccade serve /check/run/checkpoints/last.safetensors --port 0 --threshold 0 > "$root/check/serve.log" 2>&1 &
service=$!
for ((i = 0; i < 100; ++i)); do
  address=$(sed -n 's|.* at \(http://[0-9.:]*/\)$|\1|p' "$root/check/serve.log")
  [ -z "$address" ] || break
  sleep 0.2
done
[ -n "$address" ] || { cat "$root/check/serve.log" >&2; fail "the service does not start"; }
image=/check/shapes/images/000001.png
boxes=$(inside curl -sS -F "file=@$image" "${address}predict" | grep -c category_id || true)
kill "$service"
wait "$service" || fail "the service ends with $?"
service=
[ "$boxes" -gt 0 ] || fail "the service finds nothing"
echo "serve: $boxes boxes, $(tail -n 1 "$root/check/serve.log")"

for archive in "$packages"/saccade-*-linux-x86_64.tar.xz; do
  [ -e "$archive" ] || continue
  cp "$archive" "$root/check/archive.tar.xz"
  quietly inside tar -C /check -xf /check/archive.tar.xz
  [ "$(inside sh -c '/check/saccade-*/bin/saccade --version')" = "$(inside saccade --version)" ] ||
    fail "the program of the archive differs from that of the package"
  rm -rf "$root"/check/saccade-*-linux-x86_64
  echo "the archive runs"
done
for wheel in "$packages"/saccade-*.whl; do
  [ -e "$wheel" ] || continue
  cp "$wheel" "$root/check/"
  quietly inside apt-get install -q -y --no-install-recommends python3-venv python3-numpy
  quietly inside python3 -m venv --system-site-packages /check/venv
  quietly inside /check/venv/bin/pip install -q --no-index "/check/$(basename "$wheel")"
  inside /check/venv/bin/python -c 'import sys, saccade
found = saccade.Model(sys.argv[1])(sys.argv[2], threshold=0)
print("the wheel finds", len(found), "boxes")' /check/run/checkpoints/last.safetensors "$image"
  rm -rf "$root/check/venv"
done

quietly inside apt-get purge -q -y saccade "$library" libsaccade-dev
quietly inside apt-get autoremove --purge -q -y
left=$(files_of_ours)
[ -z "$left" ] || fail "left behind: $left"
echo "removed: nothing is left"
