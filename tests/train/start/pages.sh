#!/usr/bin/env bash
# What the commands of the documentation's pages run on in first_day_test.cpp, which appends them as the pages
# have them, after a line `page PATH` each. What they name exists in the page's folder: published weights are
# small ones of the same kind, recipes the smallest of their family, and a training takes one step. Nothing is
# fetched, and no camera or stream is opened. $source is the source folder; the program is on the PATH.
set -eu
top=$PWD
export SACCADE_CACHE=$top/cache
golden=${source:?}/tests/golden
service='' port=''

# Begins a page: its folder, and what only this page names.
page() {
  stop_service
  cd "$top"
  rm -rf here
  cp -r common here
  cd here
  echo "page $1"
  ln "$top/run/checkpoints/best.safetensors" best.safetensors
  ln -s my FOLDER
  cp -r "$top/run" RUN
  mkdir runs
  local name
  case $1 in
    README.md | docs/training.md) ln best.safetensors coco ;;
    docs/coming_from.md)
      ln -s drawn/images/000002.png IMAGE...
      for name in C W CHECKPOINT; do ln best.safetensors $name; done
      ;;
    docs/labels.md) for name in mine bccd; do cp -r "$top/run" runs/$name; done ;;
    docs/official_checkpoints.md) published ;;
    docs/onnx.md | docs/serve.md) cp -r "$top/run" runs/a ;;
    docs/reports.md) for name in mine a b c; do cp -r "$top/run" runs/$name; done ;;
    docs/results.md)
      mkdir runs/quickstart-data
      for name in train val; do cp -r drawn runs/quickstart-data/$name; done
      ;;
    docs/segmentation.md)
      rm -r my
      mkdir -p ADEChallengeData2016/images ADEChallengeData2016/annotations
      for name in training validation; do
        cp -r images ADEChallengeData2016/images/$name
        cp -r drawn/label_maps ADEChallengeData2016/annotations/$name
        rm -f ADEChallengeData2016/annotations/$name/*.txt
      done
      ;;
    docs/video.md) [ ! -e "$top/street.mp4" ] || ln "$top/street.mp4" . ;;
  esac
  for name in a b c; do cp -r my_images $name; done
}

# Weights of small models as their publishers write them, under the names of the published files.
published() {
  cp "$golden/eval/detr.pth" detr-r50-e632da11.pth
  cp "$golden/eval/detr.pth" detr-r50-dc5-f0fb7ef5.pth
  cp "$golden/eval/detr.pth" detr_r50_coco
  cp "$golden/rt_detr/basic.pth" rtdetr_r18vd_dec3_6x_coco_from_paddle.pth
  cp "$golden/rf_detr/official/model.pth" rf-detr-nano.pth
  cp "$golden/retinanet/weights.pth" retinanet_resnet50_fpn_coco-eeacb38b.pth
  cp "$golden/mask_rcnn/weights.pth" maskrcnn_resnet50_fpn_coco-bf2d0c1e.pth
  cp "$golden/classifiers/torchvision_resnet.pth" resnet50-11ad3fa6.pth
  mkdir upernet-swin-tiny
  cp "$golden/segmenters/swin.safetensors" upernet-swin-tiny/model.safetensors
  local name
  for name in coco dfine_s_objects365 r50_deformable_detr-checkpoint.pth; do ln best.safetensors $name; done
  sed 's/"car"/"person"/; s/"truck"/"bicycle"/; s/"lorry"/"car"/' train.json |
    sed 's/"star"/"motorcycle"/; s/"ignore"/"airplane"/' > instances_val2017.json
  cp -r images val2017
  for name in 0 1 2 3 4 5 6; do
    mkdir -p "imagenet/val/class $name"
    cp photo.jpg "imagenet/val/class $name"
  done
}

stop_service() {
  [ -z "$service" ] || { kill "$service" && wait "$service"; }
  service='' port=''
}
trap stop_service EXIT

# `saccade serve`, on a free port and beside what follows.
serve() {
  command saccade serve "$@" --port 0 > served.txt 2>&1 &
  service=$!
  until port=$(sed -n 's|.* at http://127.0.0.1:\([0-9]*\)/.*|\1|p' served.txt) && [ -n "$port" ]; do
    if ! kill -0 "$service" 2>/dev/null; then
      service=''
      cat served.txt
      grep -q "built without" served.txt
      return
    fi
    sleep 0.05
  done
}

curl() {
  if [ -z "$port" ] || ! type -P curl > /dev/null; then
    echo "left out, without a service or the program curl: curl $*"
    return
  fi
  command curl --fail --silent --show-error --noproxy '*' "${@//127.0.0.1:8080/127.0.0.1:$port}"
}

saccade() {
  local command=$1 arguments=() word before=''
  case "$*" in
    # Commands of which a sentence names a flag only, downloads, and a model of which no small one exists.
    "data report" | "data show" | "eval --per-class" | "eval --precision f32" | "score --iou segm") return ;;
    "predict --threshold "*) [[ $* == *--checkpoint* ]] || return 0 ;;
    "weights fetch"* | *swin_b.pth*) return ;;
    # The lists of the same names are of classes now.
    *sign_digits*)
      for word in train val; do
        rm -rf my/$word
        mkdir -p my/$word/car my/$word/bus
        cp images/00000[1-4].png my/$word/car
        cp images/00000[5-8].png my/$word/bus
      done
      ;;
    "data show"*) rm -rf seen ;;
    *--label-errors*) rm -rf relabel ;;
    *street.mp4* | *rtsp:* | *camera:*)
      if [ ! -e street.mp4 ]; then
        echo "left out, without FFmpeg: saccade $*"
        return
      fi
      ;;
  esac
  for word in "$@"; do
    case $before in
      --images) [ "$1 $2" != "data shapes" ] || word=8 ;;
      --height | --width) word=64 ;;
      --size) word=64 ;;
      --overfit) word=4 ;;
    esac
    case $word in
      configs/sign_digits.textproto)
        arguments+=("$word" --set data.train.images=my/train --set data.val.images=my/val --set)
        word=data.batch_size=4
        ;;
      rt_detr_r18 | dfine_? | NAME | RECIPE) word=quickstart ;;
      retinanet_r50) arguments[-1]=--config && word=configs/bccd_retinanet.textproto ;;
      mask_rcnn_r50) arguments[-1]=--config && word=configs/shapes_mask_rcnn.textproto ;;
      upernet_swin_t) arguments[-1]=--config && word=configs/shapes_semantic_fpn.textproto ;;
      F.textproto | configs/rt_detr_r18.textproto) word=configs/quickstart.textproto ;;
      configs/deformable_detr_r50.textproto) [ "$command" = summary ] || word=configs/quickstart.textproto ;;
      configs/bccd.textproto | configs/bccd_retinanet.textproto | configs/coco_cc_mini.textproto)
        [[ $* == *data.train.* ]] || { arguments+=("$word" --data) && word=my_images; }
        ;;
      retinanet.safetensors | mask_rcnn.safetensors) [ "$command" != train ] || word=$(weights_of "$word") ;;
      rf-detr-nano.pth)
        arguments+=(--set "model.backbone.outputs=[1, 3]" --set "model.backbone.arg.windowed_blocks=[0, 2]")
        arguments+=(--set model.backbone.arg.heads=2)
        ;;
      /new/place/of/my_images) word=my_images ;;
      rtsp:* | camera:*) word=street.mp4 ;;
      "[NAME...]") continue ;;
    esac
    arguments+=("$word")
    before=$word
  done
  echo "saccade ${arguments[*]}"
  case $command in
    train)
      [[ $* == *--resume* ]] && word=2 || word=1
      command saccade "${arguments[@]}" --max-steps "$word"
      ;;
    serve) serve "${arguments[@]:1}" ;;
    export)
      command saccade "${arguments[@]}" 2> exported.txt ||
        { cat exported.txt && grep -q "built without" exported.txt; }
      ;;
    *) command saccade "${arguments[@]}" ;;
  esac
}

# Weights that fit the small recipe which stands for the one of the page.
weights_of() {
  local family=${1%.safetensors} recipe=shapes_mask_rcnn set=data.labels=category_id
  [ "$family" = mask_rcnn ] || { recipe=bccd_retinanet && set=model.retinanet.coarse_levels=pyramid; }
  command saccade train --config configs/$recipe.textproto --data my --output "runs/$family" --max-steps 1 \
    --set $set --set "model.${family#mask_}.conventions=torchvision" >&2
  echo "runs/$family/checkpoints/best.safetensors"
}

# Data with the classes that the pages name, in one folder and as two lists, and a run of them.
mkdir common
cd common
ln -s "$source/configs" configs
command saccade data shapes --output drawn --images 12 --seed 1 --size 64
sed -i 's/"circle"/"car"/; s/"square"/"truck"/; s/"triangle"/"lorry"/; s/"ring"/"ignore"/; s/"cross"/"bus"/' \
  drawn/annotations.json
command saccade data convert drawn my --split 0.5,0.5
mkdir my_images
cp drawn/annotations.json my_images
cp drawn/annotations.json planted.json
cp drawn/annotations.json train.json
cp drawn/annotations.json val.json
for folder in my/images my_images/images photos train val images; do cp -r drawn/images $folder; done
cp drawn/images/000001.png photo.jpg
command saccade train --data my --model quickstart --output "$top/run" --max-steps 1
cd "$top"
rm run/checkpoints/previous.safetensors
