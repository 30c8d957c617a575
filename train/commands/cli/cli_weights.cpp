// The commands `saccade weights list`, `fetch` and `verify`.
#include "train/commands/cli/cli_options.h"
#include "train/commands/commands.h"

namespace saccade {

void add_weights_commands(CLI::App& app, Action& action) {
  CLI::App* weights = app.add_subcommand("weights", "list, download and verify published weights by name");
  weights->require_subcommand(1);

  auto [list, l] = add_command(*weights, action, "list",
                               "list the names with data set, accuracy, size and licence", run_weights_list);
  option(list, "--json", l->json, "FILE", "write the list to this file, with addresses, checksums and files");

  auto [fetch, f] =
      add_command(*weights, action, "fetch",
                  "download weights to the cache, or continue an interrupted download", run_weights_fetch);
  positional(fetch, "NAME", f->names, "a name from saccade weights list");
  fetch->footer(
      "The cache is $SACCADE_CACHE, else $XDG_CACHE_HOME/saccade, else ~/.cache/saccade. $https_proxy is used.\n"
      "Example:\n  saccade weights fetch dfine_n_coco");

  auto [verify, v] =
      add_command(*weights, action, "verify", "compare the files in the cache with their checksums (SHA-256)",
                  run_weights_verify);
  positional(verify, "NAME", v->names, "a name from saccade weights list (default: everything in the cache)",
             false);
  verify->footer("Example:\n  saccade weights verify");
}

}  // namespace saccade
