#include "sim/cli/save_flags.h"

#include <fmt/format.h>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

std::vector<FlagHelp> flags_beside_every(SaveFlags& flags) {
  return {
      {"--storage", &flags.storage, "RATE", "total write rate of all ranks, such as 2GB/s"},
      {"--async-checkpoint", &flags.beside, "copies, then writes in the background"},
      {"--checkpoint-bytes", &flags.bytes, "BYTES", "per rank; default 12 per parameter it holds"},
      {"--checkpoint-copy", &flags.copy, "RATE", "copy rate to the host; default unlimited"}};
}

}  // namespace

std::vector<FlagHelp> all_save_flags(SaveFlags& flags) {
  std::vector<FlagHelp> all = flags_beside_every(flags);
  all.insert(all.begin(),
             {"--checkpoint-every", &flags.every, "N", "saves at the end of every N-th iteration"});
  return all;
}

void ask_for_saves(const SaveFlags& flags, PredictionRequest& request) {
  if (flags == SaveFlags()) return;
  if (!flags.every) {
    SaveFlags given = flags;
    throw input_error(first_given(flags_beside_every(given)) +
                      " is only for checkpoints; give --checkpoint-every, too");
  }
  if (flags.copy && !flags.beside) {
    throw input_error(
        "--checkpoint-copy: only --async-checkpoint copies; give that, too, or omit it");
  }
  request.saves = {parse_count(*flags.every, "--checkpoint-every"), flags.beside};
  SaveRequest& save = request.costs.save.emplace();
  if (flags.storage) save.bytes_per_second = parse_bytes_per_second(*flags.storage, "--storage");
  if (flags.bytes) save.bytes = parse_bytes(*flags.bytes, "--checkpoint-bytes");
  if (flags.copy)
    save.copy_bytes_per_second = parse_bytes_per_second(*flags.copy, "--checkpoint-copy");
}

std::string save_line(const SaveEffect& effect) {
  const bool steps = effect.mean_iteration_ns > 0;
  std::string text = fmt::format(
      "saves   {} every {}, written after {}: each stalls training for {}, {} per iteration, {} of "
      "its time",
      format_bytes(effect.bytes), plural(effect.saves.every, "iteration"),
      format_time(effect.saved_ns), format_time(effect.stall_ns),
      format_time(effect.mean_iteration_ns - effect.iteration_ns),
      steps ? format_percent(effect.fraction()) : "none");
  if (!effect.keeps_up) text += "; storage is too slow for that: saves wait for each other";
  return text + "\n";
}

}  // namespace pipesim::cli
