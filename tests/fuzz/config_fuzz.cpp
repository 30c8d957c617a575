// Fuzzing: any bytes as a configuration, the last line as a --set edit of it (scripts/fuzz.sh).
#include "tests/fuzz/target.h"
#include "train/config/config.h"

SACCADE_FUZZ(config) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  saccade::fuzz::attempt([&] {
    saccade::Config config = saccade::parse_config(text, "fuzz");
    saccade::fuzz::attempt([&] { saccade::validate_for_training(config); });
    saccade::config_text(saccade::resolve_config(config));
    saccade::build_args(config);
  });
  saccade::fuzz::attempt([&] {
    saccade::Config config;
    saccade::apply_set(config, text.substr(text.rfind('\n') + 1));
    saccade::validate_config(config);
  });
}
