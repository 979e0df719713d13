// pipesim: predicts what a pipeline schedule does with time and memory.
#include "sim/cli/commands.h"

int main(int argc, char** argv) {
  using namespace pipesim;
  CommandLine program(
      "pipesim",
      "pipesim predicts how long a pipeline-parallel training iteration takes,\n"
      "how much of it is bubble, and how much memory activations need; and how long\n"
      "a batch of a recommendation model takes by an overlapped input pipeline.",
      PIPESIM_VERSION);
  cli::set_up_predict(program);
  program.add_command("schedules", "lists the schedules, or compares them", cli::set_up_schedules);
  program.add_command("schedule", "prints, checks or writes one schedule", cli::set_up_schedule);
  program.add_command("compare", "compares a prediction with a measurement", cli::set_up_compare);
  program.add_command("report", "reports what a recorded run did", cli::set_up_report);
  program.add_command("calibrate", "turns recorded traces into a costs.json",
                      cli::set_up_calibrate);
  program.add_command("fit", "fits a cluster to a few measured iterations", cli::set_up_fit);
  program.add_command("whatif", "predicts a recorded run with something changed",
                      cli::set_up_what_if);
  program.add_command("partition", "balances layers over stages", cli::set_up_partition);
  program.add_command("plan", "finds the best layout for a number of devices", cli::set_up_plan);
  program.add_command("import", "turns other programs' arguments into commands", cli::set_up_import);
  program.add_command("goodput", "how often to save, and what failures cost",
                      cli::set_up_goodput);
  cli::add_presets(program);
  program.set_footer(
      "How results travel, --p2p:\n"
      "  async      from the moment they exist, holding no device\n"
      "  blocking   SEND and RECV meet and hold both devices\n"
      "  fifo       the same on one in-order communication stream a rank, as with one\n"
      "             NCCL communicator\n"
      "  edge-fifo  the same on one stream a directed pair of ranks\n"
      "\n"
      "What is computed again in backwards instead of being kept, --recompute: none,\n"
      "full (each block's forward), or some of these with commas between them:\n"
      "  attention  scores, softmax and their product with the values; alone it is also\n"
      "             called selective\n"
      "  norms      what norms make of their inputs\n"
      "  activation what the MLP's activation makes of its input\n"
      "\n"
      "For how long --zero 3 has a stage's weights gathered, --gather:\n"
      "  window     from when it is one of the next three that its rank needs; default\n"
      "  pass       for each forward and backward, two layers at a time; default of a\n"
      "             lone stage\n"
      "  once       from its first action to its last\n"
      "\n"
      "The orders of torchrec's train pipelines, --input-pipeline:\n"
      "  base         the next batch is copied behind the backward\n"
      "  sparse-dist  batches are copied and ids exchanged ahead, beside compute\n"
      "  lite         copies ahead only: little memory\n"
      "  fused        sparse-dist; lookups are beside the optimizer's step\n"
      "  semi-sync    lookups come before the update of the batch before: stale rows\n"
      "  prefetch     sparse-dist; rows are brought into a cache ahead\n"
      "  staged       copies and ids a batch ahead for each stage; --input-stages says\n"
      "               copy,dist or copy,prepare,dist\n"
      "or a file of a program, as --export writes it.\n"
      "\n"
      "Examples:\n"
      "  pipesim --schedule 1f1b --stages 4 --microbatches 8\n"
      "  pipesim --schedule interleaved --stages 8 --microbatches 32 --forward 12ms\n"
      "      --backward 24ms --p2p-latency 300us --trace timeline.json\n"
      "  pipesim --schedule my_order.csv --costs costs.json --memory-cap 80GiB --json\n"
      "  pipesim --model gpt2-small --cluster dgx-a100 --schedule 1f1b --stages 4\n"
      "      --microbatches 32 --micro-batch-size 8 --explain\n"
      "  pipesim --input-pipeline sparse-dist --model dlrm-dcnv2 --cluster dgx-a100\n"
      "      --ranks 8 --batches 16 --batch-size 4096 --sharding auto --compare\n"
      "  pipesim schedules --compare --stages 4 --microbatches 8,16");
  program.set_foreign_flags(trainers_flags());
  program.set_known_names(cli::known_names);
  return program.run(argc, argv);
}
