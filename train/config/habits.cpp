#include "train/config/habits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace saccade {
namespace {

// Normalises a word: lower case, without leading dashes and without '=' and what follows, '_' for '-'.
std::string bare(std::string_view word) {
  word = word.substr(0, word.find('='));
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string out(word);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return out;
}

bool is_among(std::string_view word, std::string_view list) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

struct Family {
  std::string_view beginning, recipes;
};
// The first match counts.
constexpr Family kFamilies[] = {
    {"yolov8n", "dfine_n or rt_detr_r18"},
    {"yolo", "rt_detr_r18, dfine_s or dfine_n"},
    {"rtdetr_l", "rt_detr_r50"},
    {"rtdetr_x", "rt_detr_r101"},
    {"rtdetr", "rt_detr_r18 or rt_detr_r50"},
    {"rt_detr_l", "rt_detr_r50"},
    {"rt_detr_x", "rt_detr_r101"},
    {"rfdetr", "rf_detr_n, rf_detr_s or rf_detr_m"},
    {"rf_detr_nano", "rf_detr_n"},
    {"rf_detr_small", "rf_detr_s"},
    {"rf_detr_base", "rf_detr_m"},
    {"rf_detr_medium", "rf_detr_m"},
    {"rf_detr_large", "rf_detr_l"},
    {"d_fine", "dfine_n or dfine_s"},
    {"deim", "deim_dfine_n or deim_dfine_s"},
    {"fasterrcnn", "faster_rcnn_r50"},
    {"maskrcnn", "mask_rcnn_r50"},
    {"resnet18", "rt_detr_r18 or rt_detr_v2_r18, whose backbone it is"},
    {"resnet_18", "rt_detr_r18 or rt_detr_v2_r18, whose backbone it is"},
    {"resnet34", "rt_detr_r34 or rt_detr_v2_r34, whose backbone it is"},
    {"resnet_34", "rt_detr_r34 or rt_detr_v2_r34, whose backbone it is"},
    {"resnet50", "rt_detr_r50, faster_rcnn_r50 or retinanet_r50, whose backbone it is"},
    {"resnet_50", "rt_detr_r50, faster_rcnn_r50 or retinanet_r50, whose backbone it is"},
    {"resnet101", "rt_detr_r101 or detr_r101, whose backbone it is"},
    {"resnet_101", "rt_detr_r101 or detr_r101, whose backbone it is"},
    {"resnet", "rt_detr_r18 or faster_rcnn_r50, whose backbones are ResNets"},
    {"hgnet", "dfine_n or dfine_s, whose backbones are HGNets"},
    {"dinov2", "rf_detr_n or rf_detr_s, whose backbones are DINOv2's"},
};

}  // namespace

const std::vector<Habit>& habits() {
  static const std::vector<Habit> all = {
      {"image_size imgsz img_size img imagesize input_size resolution image_width",
       "train eval predict export data", "--image-size N"},
      {"batch batch_size bs batchsize train_batch_size samples_per_gpu", "train", "--batch N"},
      {"batch_size bs batchsize", "export", "--batch N"},
      {"bs batchsize", "", "--batch-size N"},
      {"epochs epoch num_epochs max_epochs n_epochs", "train", "--epochs N"},
      {"lr0 learning_rate base_lr learningrate", "train", "--lr X"},
      {"workers num_workers j", "train", "--set data.workers=N"},
      {"workers num_workers j", "", "--threads N"},
      {"weights pretrained load_from checkpoint finetune init", "train", "--init-from FILE"},
      {"weights model ckpt model_path resume", "eval predict", "--checkpoint FILE"},
      {"weights model ckpt", "export bench", "the file itself, without a flag,"},
      {"name project work_dir output_dir save_dir logdir exist_ok run_dir", "train", "--output DIR"},
      {"name project save_dir output_dir out_dir", "predict", "--output DIR"},
      {"source input img_path image images", "predict", "IMAGE..., without a flag,"},
      {"conf conf_thres score_thr confidence", "predict report", "--threshold T"},
      {"iou iou_thres nms", "predict", "--set eval.nms=IOU"},
      {"max_det", "predict", "--max N"},
      {"save_crop", "predict", "--crop"},
      {"save_txt", "predict", "--to yolo"},
      {"save_json save_conf", "predict", "detections.json in --output, always written,"},
      {"nosave", "predict", "--no-pictures"},
      {"line_thickness line_width", "predict", "--line-width N"},
      {"hide_labels hide_conf show_labels show_conf", "predict", "--letter-size 0"},
      {"format include", "export", "OUT.onnx, the only format,"},
      {"dynamic", "export", "--batch dynamic"},
      {"half fp16 amp", "train", "--set precision=bf16"},
      {"half fp16 amp", "", "--precision bf16"},
      {"cfg cfg_options hyp options", "train", "--config FILE and --set path.to.field=value"},
      {"patience", "train", "--set train.patience=N"},
      {"seed", "train", "--set seed=N"},
      {"optimizer", "train", "--set optimizer.type=NAME"},
      {"weight_decay", "train", "--set optimizer.weight_decay=X"},
      {"warmup_epochs", "train", "--set schedule.warmup_epochs=N"},
      {"cos_lr", "train", "--set schedule.type=cosine"},
      {"ema_decay ema", "train", "--set train.ema_decay=X"},
      {"grad_accum_steps accumulate grad_accum nbs", "train", "--set train.accumulate=N"},
      {"mosaic", "train", "--set data.augment.mosaic=P"},
      {"fliplr flip_prob", "train", "--set data.augment.horizontal_flip=P"},
      {"multi_scale", "train", "--set data.augment.multi_scale_heights=[...]"},
      {"cache", "train", "--set data.cache_mb=N"},
      {"gpus nproc_per_node num_gpus devices", "train", "--processes N"},
      {"data dataset dataset_dir data_path data_dir coco_path", "train data eval score", "--data DIR"},
      {"model", "train", "--model NAME"},
      {"device", "", "--device NAME"},
      {"single_cls", "train", "--set data.class_map.NAME=AS"},
      {"freeze_layers", "train", "--freeze REGEX"},
      {"verbose val plots save", "train", ""},
      {"task mode", "", "the command itself (train, eval, predict)"},
  };
  return all;
}

std::string ours_of_flag(std::string_view word, std::string_view command) {
  const std::string name = bare(word);
  for (const Habit& habit : habits())
    if (is_among(name, habit.words) && (habit.commands.empty() || is_among(command, habit.commands)))
      return habit.ours.empty() ? "not needed: it is always on" : fmt::format("use {} instead", habit.ours);
  return "";
}

std::string ours_of_command(std::string_view word) {
  const std::string name = bare(word);
  for (const auto& [words, ours] :
       {std::pair{"val test validate evaluate benchmark_coco", "eval"},
        std::pair{"detect infer inference track segment demo", "predict"},
        std::pair{"fit finetune tune", "train"}, std::pair{"benchmark profile", "bench"},
        std::pair{"checks info models", "describe"}})
    if (is_among(name, words)) return ours;
  return "";
}

std::string ours_of_model(std::string_view name) {
  const std::string model = bare(name.substr(0, name.rfind(".pt")));
  for (const Family& family : kFamilies)
    if (model.starts_with(family.beginning)) return std::string(family.recipes);
  return "";
}

}  // namespace saccade
