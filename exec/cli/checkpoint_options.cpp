#include "exec/cli/checkpoint_options.h"

#include <fmt/format.h>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {

void add_checkpoint_flags(CommandLine& program, CheckpointFlags& flags) {
  program.add_flags(
      "Checkpoints",
      {{"--checkpoint", &flags.folder, "DIR", "folder to save the training in"},
       {"--checkpoint-every", &flags.every, "N",
        "iterations between saves; default 10; last always"},
       {"--keep", &flags.keep, "K", "keeps the newest K; default 2"},
       {"--async-checkpoint", &flags.beside, "writes a copy during the next iterations"},
       {"--resume", &flags.resume, "DIR", "resumes from the newest complete one in DIR"}});
}

std::string read_resume(const CheckpointFlags& flags) {
  if (flags.resume && flags.resume->empty()) {
    throw input_error("--resume: give the folder of checkpoints");
  }
  return flags.resume.value_or("");
}

std::optional<SavePlan> read_saves(const CheckpointFlags& flags) {
  if (!flags.folder) {
    for (const auto& [given, name] : {std::pair(flags.every.has_value(), "--checkpoint-every"),
                                      {flags.keep.has_value(), "--keep"},
                                      {flags.beside, "--async-checkpoint"}}) {
      if (!given) continue;
      throw input_error(fmt::format("{}: nothing is saved; give --checkpoint DIR too", name));
    }
    return std::nullopt;
  }
  if (flags.folder->empty()) throw input_error("--checkpoint: give a folder");
  SavePlan plan;
  plan.folder = *flags.folder;
  if (flags.every) plan.every = parse_count(*flags.every, "--checkpoint-every");
  if (flags.keep) plan.keep = parse_count(*flags.keep, "--keep");
  plan.beside = flags.beside;
  return plan;
}

}  // namespace pipesim::exec
