// pipesim: predicts what a pipeline schedule does with time and memory.
#include <CLI/CLI.hpp>

#include "sim/cli/commands.h"
#include "traces/command/program.h"

int main(int argc, char** argv) {
  CLI::App app(
      "pipesim predicts how long a pipeline-parallel training iteration takes,\n"
      "how much of it is bubble, and how much memory activations need.",
      "pipesim");
  app.set_version_flag("--version", "pipesim " PIPESIM_VERSION);
  app.require_subcommand(0, 1);
  pipesim::Work chosen;
  pipesim::cli::add_predict(app, chosen);
  pipesim::cli::add_schedules(app, chosen);
  pipesim::cli::add_schedule(app, chosen);
  pipesim::cli::add_compare(app, chosen);
  pipesim::cli::add_calibrate(app, chosen);
  pipesim::cli::add_partition(app, chosen);
  pipesim::cli::add_presets(app, chosen);
  app.footer(
      "How results travel, --p2p:\n"
      "  async      from the moment they exist, holding no device\n"
      "  blocking   SEND and RECV meet and hold both devices\n"
      "  fifo       the same on one in-order communication stream a rank, as with one\n"
      "             NCCL communicator\n"
      "  edge-fifo  the same on one stream a directed pair of ranks\n"
      "\n"
      "Examples:\n"
      "  pipesim --schedule 1f1b --stages 4 --microbatches 8\n"
      "  pipesim --schedule interleaved --stages 8 --microbatches 32 --forward 12ms\n"
      "      --backward 24ms --p2p-latency 300us --trace timeline.json\n"
      "  pipesim --schedule my_order.csv --costs costs.json --memory-cap 80GiB --json\n"
      "  pipesim --model gpt2-small --cluster dgx-a100 --schedule 1f1b --stages 4\n"
      "      --microbatches 32 --micro-batch-size 8 --explain\n"
      "  pipesim schedules --compare --stages 4 --microbatches 8,16");
  return pipesim::run_program(app, argc, argv, chosen);
}
