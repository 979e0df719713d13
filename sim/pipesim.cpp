// pipesim: predicts the time and memory of pipeline schedules.
#include "sim/cli/commands.h"

namespace {

constexpr const char* overview = R"(Predicts, plans and explains pipeline-parallel training.
Usage: pipesim COMMAND [FLAGS]; without a command: predict or feed

Commands, each with --help:
  predict    how long an iteration takes, its bubbles, its memory
  plan       which layout is best for a number of devices
  partition  how to balance layers over stages
  schedules  which schedules there are, and how they compare
  schedule   prints, checks or writes one of them
  feed       how long a batch takes in an overlapped input pipeline
  compare    where a prediction and a measurement differ, and why
  report     what a recorded run did
  whatif     what changes if something in a recorded run is faster
  calibrate  makes a costs.json of recorded traces
  fit        fits a cluster to a few measured iterations
  import     turns a trainer's launch script into commands
  goodput    how often to save, and what failures cost
  models, clusters, software, devices   the names that flags take

To begin with:
  pipesim --schedule 1f1b --stages 4 --microbatches 8
  pipesim plan --model gpt2-xl --cluster dgx-h100 --devices 8 --global-batch 64
  pipesim schedules --compare --stages 4 --microbatches 8
)";

}  // namespace

int main(int argc, char** argv) {
  using namespace pipesim;
  CommandLine program(
      "pipesim",
      "pipesim predicts how long a pipeline-parallel training iteration takes,\n"
      "how much of it is bubble, and how much memory activations need; it plans, compares\n"
      "and explains. Flags without a command are those of predict, or of feed where only\n"
      "that has them.",
      PIPESIM_VERSION);
  program.set_overview(overview);
  program.set_unnamed({"predict", "feed"});
  program.add_command("predict", "predicts an iteration: its time, bubbles and memory",
                      cli::set_up_predict);
  program.add_command("plan", "finds the best layout for a number of devices", cli::set_up_plan);
  program.add_command("partition", "balances layers over stages", cli::set_up_partition);
  program.add_command("schedules", "lists the schedules, or compares them", cli::set_up_schedules);
  program.add_command("schedule", "prints, checks or writes one schedule", cli::set_up_schedule);
  program.add_command("feed", "predicts batches of an overlapped input pipeline", cli::set_up_feed);
  program.add_command("compare", "compares a prediction with a measurement", cli::set_up_compare);
  program.add_command("report", "reports what a recorded run did", cli::set_up_report);
  program.add_command("whatif", "predicts a recorded run with something changed",
                      cli::set_up_what_if);
  program.add_command("calibrate", "turns recorded traces into a costs.json",
                      cli::set_up_calibrate);
  program.add_command("fit", "fits a cluster to a few measured iterations", cli::set_up_fit);
  program.add_command("import", "turns other programs' arguments into commands",
                      cli::set_up_import);
  program.add_command("goodput", "how often to save, and what failures cost", cli::set_up_goodput);
  cli::add_presets(program);
  program.set_foreign_flags(trainers_flags());
  return program.run(argc, argv);
}
