#include "train/checkpoints/init_from.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/listing.h"
#include "models/weights/model_json.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/infer_config.h"

namespace saccade {
namespace {

std::string summary_line(const char* what, const std::vector<std::string>& names) {
  return fmt::format("{}: {}: {}", what, count_of(std::ssize(names), "tensor", "tensors"), some_of(names, 6));
}

// Maps the file's names to the model's; the relation with the most matches is used for the whole file.
struct Relation {
  std::string strip, add;
  std::string operator()(const std::string& name) const {
    return name.starts_with(strip) ? add + name.substr(strip.size()) : std::string();
  }
};
const Relation kRelations[] = {
    {"", ""},          {"", "backbone.0.body."},    {"backbone.0.body.", ""},   {"", "backbone."},
    {"backbone.", ""}, {"", "backbone.0.encoder."}, {"backbone.0.encoder.", ""}};

bool equal_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

class Filling {
 public:
  Filling(const WeightsFile& file, const OfficialWeights& weights, Module& model)
      : file_(file),
        weights_(weights),
        wanted_(model.named_tensors()),
        class_heads_(model.class_heads()),
        repeated_heads_(model.repeated_heads()),
        query_tables_(model.query_tables()),
        repeats_rows_(model.repeats_class_rows()) {
    for (const NamedTensor& t : wanted_) by_name_[t.name] = &t;
    choose_relation();
  }

  InitReport run(const InitOptions& options) {
    report_.naming = weights_.naming;
    const std::string others = other_classes(options.class_names);
    reinit_heads_ = options.heads == ClassHeads::kReinitialize ||
                    (options.heads == ClassHeads::kTakeIfSame && (!others.empty() || has_other_head()));
    if (!reinit_heads_ && !class_heads_.empty()) report_.other_classes = others;
    repeats_rows_ = repeats_rows_ && options.heads == ClassHeads::kTakeIfSame;
    if (reinit_heads_ && options.heads == ClassHeads::kTakeIfSame) match_classes(options.class_names);
    for (const NamedWeight& w : weights_.tensors) plan(w, options.other_head);
    for (const auto& [state, sources] : sources_) check_shared(sources);
    repeat_first_heads();
    std::set<const VarState*> filled;
    for (const NamedTensor& t : wanted_) {
      auto it = sources_.find(t.var.state().get());
      bool head = reinit_heads_ && is_class_head(t.name);
      (it != sources_.end() ? report_.loaded
       : head               ? is_repeated(t) ? report_.repeated : report_.reinitialized
                            : report_.missing)
          .push_back(t.name);
      if (it == sources_.end() || !filled.insert(it->first).second) continue;
      Var var = t.var;
      var.value().copy_from(values_for(t, *it->second[0]).to(var.dtype()).to(var.device()));
    }
    repeat_rows();
    copy_rows_of_classes(options.class_names);
    add_notes(options);
    return std::move(report_);
  }

 private:
  using Sources = std::vector<const NamedWeight*>;

  const NamedTensor* find(const std::string& name) const {
    auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }
  bool is_class_head(const std::string& name) const {
    return std::ranges::any_of(class_heads_, [&](const std::string& head) { return name.starts_with(head); });
  }
  const std::string& dtype(const NamedWeight& w) const { return file_.find(w.parts[0])->dtype; }

  // The class names in the file, from a checkpoint of ours or config.json; empty if it has none.
  std::vector<std::string> names_in_file() const {
    const auto* ours = dynamic_cast<const SafetensorsReader*>(&file_);
    if (ours != nullptr && ours->metadata().contains("saccade.config"))
      return read_checkpoint_info(*ours).class_names;
    return weights_.naming.starts_with("Hugging Face") ? read_model_json(file_.path()).labels
                                                       : std::vector<std::string>();
  }
  // Finds the rows of the heads, in the model and in the file, of classes with the same name, ignoring case.
  void match_classes(const std::vector<std::string>& class_names) {
    const std::vector<std::string> names = names_in_file();
    std::map<std::string, int64_t> places;
    for (size_t i = 0; i < names.size(); ++i) places.emplace(lower_case(names[i]), static_cast<int64_t>(i));
    for (size_t i = 0; i < class_names.size(); ++i)
      if (const auto it = places.find(lower_case(class_names[i]));
          it != places.end() && class_names[i] != "N/A")
        class_rows_.emplace_back(static_cast<int64_t>(i), it->second);
    classes_in_file_ = std::ssize(names);
  }
  // Whether the rows have as many values.
  bool has_rows_of(const NamedTensor& t, const NamedWeight& w) const {
    const Shape &to = t.var.shape(), &from = w.shape;
    bool fits = to.rank() == from.rank() && to.rank() > 0 && from[0] > 0 && is_float_dtype(dtype(w));
    for (int axis = 1; fits && axis < to.rank(); ++axis) fits = to[axis] == from[axis];
    return fits;
  }
  bool is_repeated(const NamedTensor& t) const {
    return repeats_rows_ && std::ranges::any_of(other_heads_, [&](const auto& head) {
             return head.first->name == t.name && has_rows_of(t, *head.second);
           });
  }
  void repeat_rows() {
    for (const auto& [target, weight] : other_heads_) {
      if (!is_repeated(*target)) continue;
      Var var = target->var;
      const Tensor theirs = read_weight(file_, *weight).to(var.dtype()).to(var.device());
      for (int64_t row = 0, count = theirs.dim(0); row < var.dim(0); ++row)
        var.value().slice(0, row, row + 1).copy_from(theirs.slice(0, row % count, row % count + 1));
    }
  }
  // Heads that are initialised anew copy the file's rows of classes with the same names.
  void copy_rows_of_classes(const std::vector<std::string>& class_names) {
    for (const auto& [target, weight] : other_heads_) {
      Var var = target->var;
      if (!has_rows_of(*target, *weight) || weight->shape[0] < classes_in_file_ ||
          var.dim(0) < std::ssize(class_names))
        continue;
      const Tensor theirs = read_weight(file_, *weight).to(var.dtype()).to(var.device());
      for (const auto& [ours, place] : class_rows_)
        var.value().slice(0, ours, ours + 1).copy_from(theirs.slice(0, place, place + 1));
    }
    if (other_heads_.empty() || class_rows_.empty()) return;
    std::string names;
    for (const auto& [ours, place] : class_rows_)
      names += (names.empty() ? "" : ", ") + printable(class_names[static_cast<size_t>(ours)]);
    report_.notes.push_back(
        fmt::format("their rows for classes with the same name in the file are copied: {} of {} ({})",
                    class_rows_.size(), class_names.size(), shortened(names, 100)));
  }

  // The classes of a checkpoint of ours, if they differ from these; else "".
  std::string other_classes(const std::vector<std::string>& class_names) const {
    const auto* ours = dynamic_cast<const SafetensorsReader*>(&file_);
    if (class_names.empty() || ours == nullptr || !ours->metadata().contains("saccade.config")) return "";
    const std::vector<std::string> names = read_checkpoint_info(*ours).class_names;
    if (names == class_names) return "";
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + printable(name);
    return shortened(text, 100);
  }
  void add_notes(const InitOptions& options) {
    const bool ours = file_.metadata().contains("saccade.config");
    const bool takes_heads =
        std::ranges::any_of(report_.loaded, [&](const std::string& name) { return is_class_head(name); });
    if (!ours && takes_heads && !options.class_names.empty())
      report_.notes.push_back(fmt::format(
          "warning: the file does not name its classes, but has as many as the data set ({}): their heads are kept; --reinit-heads "
          "initialises them anew",
          options.class_names.size()));
  }
  bool has_other_head() const {
    return std::ranges::any_of(weights_.tensors, [&](const NamedWeight& w) {
      const NamedTensor* t = find((*relation_)(w.name));
      return t != nullptr && is_class_head(t->name) && t->var.shape() != w.shape;
    });
  }

  void choose_relation() {
    int64_t best = 0;
    for (const Relation& r : kRelations) {
      int64_t count = 0;
      for (const NamedWeight& w : weights_.tensors) {
        const NamedTensor* t = find(r(w.name));
        count += t && t->var.shape() == w.shape && is_float_dtype(dtype(w));
      }
      if (count > best) {
        best = count;
        relation_ = &r;
      }
    }
    std::string foreign = relation_ ? "" : foreign_model(file_);
    if (!relation_ && foreign.empty())
      if (const auto nearest = nearest_model(file_)) foreign = "the file is " + nearest->text();
    if (!relation_)
      fail_input(
          "{}: no tensor fits the model by name and shape (the file's first is \"{}\", the model's \"{}\"){}",
          file_.path(), weights_.tensors.empty() ? "none" : printable(weights_.tensors[0].name),
          wanted_.empty() ? "none" : wanted_[0].name, foreign.empty() ? "" : "; " + foreign);
  }

  void plan(const NamedWeight& w, const char* other_head) {
    if (is_training_state(w.name)) {
      report_.has_averages = report_.has_averages || w.name.starts_with("ema.");
      return;
    }
    const NamedTensor* t = find((*relation_)(w.name));
    if (!t) {
      report_.skipped.push_back(printable(w.name));
      return;
    }
    bool head = is_class_head(t->name);
    if (reinit_heads_ && head) {
      if (!class_rows_.empty() || repeats_rows_) other_heads_.emplace_back(t, &w);
      return;
    }
    const bool is_table = std::ranges::count(query_tables_.names, t->name) > 0;
    const int64_t groups = is_table ? groups_in_file() : 0;
    const bool same =
        t->var.shape() == w.shape && (!is_table || groups == 0 || groups == query_tables_.groups);
    if (!is_float_dtype(dtype(w)) || (!same && !resize(*t, w) && !(is_table && cut_queries(*t, w, groups))))
      fail_input("{}: tensor \"{}\" is {} {}, the model's \"{}\" has shape {}{}; {}", file_.path(),
                 printable(w.parts[0]), dtype(w), w.shape.to_string(), t->name, t->var.shape().to_string(),
                 is_table ? fmt::format(" ({} groups of queries in the file, {} in the model)", groups,
                                        query_tables_.groups)
                          : "",
                 head ? other_head : "expected weights of the same model");
    sources_[t->var.state().get()].push_back(&w);
  }

  // Whether the tensor holds positions for another image size in the file; if so, stores the resized values.
  bool resize(const NamedTensor& t, const NamedWeight& w) {
    if (!t.resize) return false;
    const Tensor values = t.resize(read_weight(file_, w).to(DType::kF32), t.var.shape());
    if (!values.defined()) return false;
    resized_[t.var.state().get()] = values;
    report_.resized.push_back(
        fmt::format("{} ({} to {})", t.name, w.shape.to_string(), t.var.shape().to_string()));
    return true;
  }
  int64_t groups_in_file() const {
    int64_t groups = 0;
    auto has_group = [&](const NamedWeight& w) {
      return (*relation_)(w.name).starts_with(fmt::format("{}{}.", query_tables_.one_a_group, groups));
    };
    while (std::ranges::any_of(weights_.tensors, has_group)) ++groups;
    return groups;
  }
  // Takes the first queries of the first groups; returns false if the file has too few.
  bool cut_queries(const NamedTensor& t, const NamedWeight& w, int64_t groups) {
    const int64_t wanted = t.var.dim(0) / query_tables_.groups;
    if (!has_rows_of(t, w) || groups < query_tables_.groups || w.shape[0] % groups != 0 ||
        w.shape[0] / groups < wanted)
      return false;
    const Tensor theirs = read_weight(file_, w).to(DType::kF32);
    Tensor values = Tensor::empty(t.var.shape());
    for (int64_t g = 0; g < query_tables_.groups; ++g) {
      const int64_t first = g * (w.shape[0] / groups);
      values.slice(0, g * wanted, (g + 1) * wanted).copy_from(theirs.slice(0, first, first + wanted));
    }
    resized_[t.var.state().get()] = values;
    report_.cut_queries.push_back(
        fmt::format("{} ({} to {})", t.name, w.shape.to_string(), t.var.shape().to_string()));
    return true;
  }
  Tensor values_for(const NamedTensor& t, const NamedWeight& w) const {
    const auto it = resized_.find(t.var.state().get());
    return it == resized_.end() ? read_weight(file_, w) : it->second;
  }

  // transformers writes heads that are equal in all layers only once, even where box refinement would let
  // them differ: the first of a list then stands for all.
  void repeat_first_heads() {
    for (const std::string& list : repeated_heads_) {
      auto is_first = [&](const NamedWeight& w) { return w.name.starts_with(list + "0."); };
      if (std::ranges::any_of(weights_.tensors, [&](const NamedWeight& w) {
            return w.name.find(list) != std::string::npos && !is_first(w);
          }))
        continue;
      for (const NamedTensor& t : wanted_) {
        if (!t.name.starts_with(list) || (reinit_heads_ && is_class_head(t.name))) continue;
        std::string rest = t.name.substr(list.size());  // "3.layers.0.weight"
        const NamedTensor* first = find(list + ("0" + rest.substr(std::min(rest.find('.'), rest.size()))));
        auto source = first ? sources_.find(first->var.state().get()) : sources_.end();
        if (source != sources_.end()) sources_.emplace(t.var.state().get(), source->second);
      }
    }
  }

  // Checks that names which share one tensor in the model are equal in the file: a file of a model with box
  // refinement would otherwise lose all but its first head.
  void check_shared(const Sources& sources) const {
    if (sources.size() < 2) return;
    Tensor first = read_weight(file_, *sources[0]);
    for (size_t i = 1; i < sources.size(); ++i)
      if (!equal_bytes(first, read_weight(file_, *sources[i])))
        fail_input(
            "{}: tensors \"{}\" and \"{}\" differ, but the model shares them (see "
            "model.deformable_detr.box_refine)",
            file_.path(), printable(sources[0]->name), printable(sources[i]->name));
  }

  const WeightsFile& file_;
  const OfficialWeights& weights_;
  std::vector<NamedTensor> wanted_;
  std::vector<std::string> class_heads_, repeated_heads_;
  std::map<std::string, const NamedTensor*> by_name_;
  const Relation* relation_ = nullptr;
  QueryTables query_tables_;
  bool repeats_rows_, reinit_heads_ = false;
  std::vector<std::pair<int64_t, int64_t>> class_rows_;  // in the model, in the file
  int64_t classes_in_file_ = 0;
  std::vector<std::pair<const NamedTensor*, const NamedWeight*>> other_heads_;
  std::map<const VarState*, Sources> sources_;
  std::map<const VarState*, Tensor> resized_;
  InitReport report_;
};

}  // namespace

std::vector<std::string> InitReport::lines() const {
  std::vector<std::string> out{fmt::format("{} names", naming)};
  auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) out.push_back(summary_line(what, names));
  };
  if (has_averages)
    out.emplace_back(
        "these are the weights of the optimizer, not their averages, which best.safetensors holds and eval uses");
  add("loaded", loaded);
  add("only in the file, skipped", skipped);
  add("positions of another image size, resized", resized);
  add("queries beyond those of the model, left out", cut_queries);
  add("class heads of other classes, rows repeated or cut", repeated);
  add("class heads, re-initialised", reinitialized);
  add("not in the file, initialised", missing);
  if (!other_classes.empty())
    out.push_back(fmt::format(
        "warning: the class heads are those of other classes ({}); --reinit-heads initialises them anew",
        other_classes));
  out.insert(out.end(), notes.begin(), notes.end());
  return out;
}

InitReport fill_model(const WeightsFile& file, const OfficialWeights& weights, Module& model,
                      const InitOptions& options) {
  return Filling(file, weights, model).run(options);
}

InitReport init_from(const std::string& path, Module& model, const InitOptions& options) {
  std::unique_ptr<WeightsFile> file = open_weights(path, options.key);
  if (const std::string other = other_version(*file); !other.empty()) fail_input("{}: {}", path, other);
  const OfficialWeights weights = official_weights(*file);
  InitReport report = fill_model(*file, weights, model, options);
  if (!weights.chosen.empty()) report.notes.push_back(weights.chosen);
  const bool ours = file->metadata().contains("saccade.config");
  if (const std::string foreign = ours ? "" : foreign_model(*file); !foreign.empty())
    report.naming += " (" + foreign + ")";
  if (!file->section().empty())
    report.notes.push_back(fmt::format("taken from its entry \"{}\"", file->section()));
  file->verify();
  check_weights(model, path);
  return report;
}

}  // namespace saccade
