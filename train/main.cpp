#include "train/commands/cli.h"

int main(int argc, char** argv) { return saccade::run_command_line(argc, argv); }
