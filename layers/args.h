// Args: the arguments of a model or layer as a tree of keys and values, read strictly. Reading marks a key;
// finish() fails on keys that were not read and lists those that exist. Wrong types and values out of range
// are InputErrors that name the full key. A key may have a default from the configuration's schema: it is
// read without a fallback and may stay unread as long as it has no other value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace saccade {

class Args {
 public:
  using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

  Args() = default;
  explicit Args(std::string path) : path_(std::move(path)) {}

  // Build the tree.
  void set(const std::string& key, Value value) { values_[key] = std::move(value); }
  void set_default(const std::string& key, Value value) { defaults_[key] = std::move(value); }
  Args& section(const std::string& key);  // creates it if absent

  // Read keys that have a default; throw Error for others.
  int64_t get_int(const std::string& key) const { return get_int(key, default_of<int64_t>(key)); }
  double get_float(const std::string& key) const { return get_float(key, default_of<double>(key)); }
  bool get_bool(const std::string& key) const { return get_bool(key, default_of<bool>(key)); }
  std::string get_string(const std::string& key) const {
    return get_string(key, default_of<std::string>(key));
  }

  // Read keys; return the fallback if the key is absent.
  int64_t get_int(const std::string& key, int64_t fallback, int64_t low = INT64_MIN,
                  int64_t high = INT64_MAX) const;
  double get_float(const std::string& key, double fallback, double low = -1e300, double high = 1e300) const;
  bool get_bool(const std::string& key, bool fallback) const;
  std::string get_string(const std::string& key, const std::string& fallback) const;
  std::string get_choice(const std::string& key, const std::string& fallback,
                         const std::vector<std::string>& choices) const;
  std::vector<int64_t> get_ints(const std::string& key, const std::vector<int64_t>& fallback,
                                int64_t low = INT64_MIN, int64_t high = INT64_MAX) const;
  std::vector<double> get_floats(const std::string& key, const std::vector<double>& fallback) const;
  const Args& get_section(const std::string& key) const;  // an empty one if absent
  bool has(const std::string& key) const {
    return values_.contains(key) || defaults_.contains(key) || sections_.contains(key);
  }

  // Throws InputError naming the first unread key of this section and the keys that were asked for, or the
  // default that the key must keep. reader: the name of the reader ("DETR").
  void finish(const std::string& reader = "this layer") const;

  // The keys that were read so far, in words: the documentation of these arguments.
  struct Reading {
    std::string type, fallback, range;  // range: "" or "1 to 64" or "a, b, c"; sections have no fallback
  };
  const std::map<std::string, Reading>& readings() const { return read_; }
  const std::string& path() const { return path_; }

 private:
  // Marks the key as read and returns its value.
  const Value* find(const std::string& key, Reading reading) const;
  // The same as a T; `expected` describes it in messages.
  template <class T>
  const T* find_as(const std::string& key, Reading reading, const char* expected) const;
  const Value& default_of(const std::string& key) const;
  template <class T>
  const T& default_of(const std::string& key) const {
    return std::get<T>(default_of(key));
  }
  bool has_only_defaults() const;
  std::string full(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  std::string path_;
  std::map<std::string, Value> values_, defaults_;
  std::map<std::string, Args> sections_;
  mutable std::map<std::string, Reading> read_;
};

}  // namespace saccade
