// pipesim: predicts the time and memory of pipeline schedules.
#include "sim/cli/commands.h"

int main(int argc, char** argv) {
  using namespace pipesim;
  CommandLine program(
      "pipesim",
      "pipesim predicts how long a pipeline-parallel training iteration takes,\n"
      "how much of it is bubble, and how much memory activations need; or how long\n"
      "a recommendation model's batch takes in an overlapped input pipeline.",
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
  program.add_command("import", "turns other programs' arguments into commands",
                      cli::set_up_import);
  program.add_command("goodput", "how often to save, and what failures cost", cli::set_up_goodput);
  cli::add_presets(program);
  program.set_footer(
      "How results travel, --p2p:\n"
      "  async      as soon as they exist, without occupying a device\n"
      "  blocking   SEND and RECV rendezvous and occupy both devices\n"
      "  fifo       the same on one in-order communication stream per rank, as with one\n"
      "             NCCL communicator\n"
      "  edge-fifo  the same on one stream per directed pair of ranks\n"
      "\n"
      "An action is written as its stage, kind and microbatch: 4B0 is the backward of\n"
      "virtual stage 4 for microbatch 0, and 4B that for every microbatch. Kinds are F,\n"
      "B, or I and W for the gradients of inputs and weights. With --virtual-stages V\n"
      "rank r of P holds virtual stages r, r + P, and so on: its chunks.\n"
      "\n"
      "What backwards recompute instead of keeping, --recompute: none,\n"
      "full (each block's forward), full:4 (of each stage's first four blocks), or\n"
      "some of these, separated by commas:\n"
      "  attention  scores, softmax and their product with the values; alone, also\n"
      "             called selective\n"
      "  norms      outputs of norms\n"
      "  activation output of the MLP's activation\n"
      "\n"
      "How long --zero 3 keeps a stage's weights gathered, --gather:\n"
      "  window     while among the next three stages that its rank needs; default\n"
      "  pass       for each forward and backward, two layers at a time; default for a\n"
      "             lone stage\n"
      "  once       from its first action to its last\n"
      "\n"
      "Orders of torchrec's train pipelines, --input-pipeline:\n"
      "  base         copies the next batch after the backward\n"
      "  sparse-dist  copies batches and exchanges ids ahead, during compute\n"
      "  lite         copies batches ahead only: little memory\n"
      "  fused        sparse-dist with lookups during the optimizer's step\n"
      "  semi-sync    looks rows up before the previous batch's update: stale rows\n"
      "  prefetch     sparse-dist with rows prefetched into a cache\n"
      "  staged       one batch further ahead per stage; --input-stages is\n"
      "               copy,dist or copy,prepare,dist\n"
      "or a program's file, as --export writes it.\n"
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
  return program.run(argc, argv);
}
