// The commands `saccade weights list`, `fetch` and `verify`.
#include "train/commands/cli/cli_options.h"

namespace saccade {

namespace {

void define_weights_list(CLI::App* c, WeightsListArguments* a) {
  option(c, "--json", a->json, "FILE", "write the list to this file, with addresses, checksums and files");
}

void define_weights_fetch(CLI::App* c, WeightsArguments* a) {
  positional(c, "NAME", a->names, "a name from saccade weights list");
  c->footer(
      "The cache is $SACCADE_CACHE, else $XDG_CACHE_HOME/saccade, else ~/.cache/saccade. $https_proxy is used.\n"
      "Example:\n  saccade weights fetch dfine_n_coco");
}

void define_weights_verify(CLI::App* c, WeightsArguments* a) {
  positional(c, "NAME", a->names, "a name from saccade weights list (default: everything in the cache)",
             false);
  c->footer("Example:\n  saccade weights verify");
}

}  // namespace

void add_weights_commands(CLI::App& app, Action& action) {
  CLI::App* c = app.add_subcommand("weights", "list, download and verify published weights by name");
  c->require_subcommand(1);
  add_command(*c, action, "list", "list the names with data set, accuracy, size and licence",
              run_weights_list, define_weights_list);
  add_command(*c, action, "fetch", "download weights to the cache, or continue an interrupted download",
              run_weights_fetch, define_weights_fetch);
  add_command(*c, action, "verify", "compare the files in the cache with their checksums (SHA-256)",
              run_weights_verify, define_weights_verify);
}

}  // namespace saccade
