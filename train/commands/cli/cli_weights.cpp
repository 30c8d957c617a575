// The commands `saccade weights list`, `fetch` and `verify`.
#include "train/commands/cli/cli_options.h"
#include "train/commands/commands.h"

namespace saccade {

void add_weights_commands(CLI::App& app, Action& action) {
  CLI::App* weights =
      app.add_subcommand("weights", "weights that others have published: by name, fetched on request");
  weights->require_subcommand(1);

  auto [list, l] = add_command(*weights, action, "list", "the names, with data set, figure, size and licence",
                               run_weights_list);
  option(list, "--json", l->json, "FILE", "write the list here, with addresses, sums and files");

  auto [fetch, f] = add_command(*weights, action, "fetch",
                                "fetch weights into the cache, or go on where it stopped", run_weights_fetch);
  fetch->add_option("NAME", f->names, "of saccade weights list")->required()->check(not_empty());
  fetch->footer(
      "The cache is $SACCADE_CACHE, else $XDG_CACHE_HOME/saccade, else ~/.cache/saccade. Proxies are those of https_proxy.\n"
      "Example:\n  saccade weights fetch dfine_n_coco");

  auto [verify, v] = add_command(*weights, action, "verify",
                                 "compare what is in the cache with its sums (SHA-256)", run_weights_verify);
  verify->add_option("NAME", v->names, "of saccade weights list (default: all that are in the cache)")
      ->check(not_empty());
  verify->footer("Example:\n  saccade weights verify");
}

}  // namespace saccade
