#include "exec/run/resume.h"

#include <fmt/format.h>

#include <filesystem>
#include <span>
#include <vector>

#include "exec/run/agreement.h"
#include "exec/transport/collectives.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

std::string broadcast_text(Transport& transport, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  const Bytes all = broadcast(transport, {bytes.begin(), bytes.end()});
  return {reinterpret_cast<const char*>(all.data()), all.size()};
}

// All ranks: rank 0's checkpoint, or nothing.
std::optional<FoundCheckpoint> share(Transport& transport, const FoundCheckpoint* own) {
  const std::string path = broadcast_text(transport, own != nullptr ? own->path : "");
  if (path.empty()) return std::nullopt;
  const std::string manifest =
      broadcast_text(transport, own != nullptr ? to_text(own->manifest) : "");
  return FoundCheckpoint{path, parse_manifest(manifest, path)};
}

// All ranks, each with some of the files; rank 0 gets what is wrong with any of them.
std::vector<std::string> find_damages(Transport& transport, const FoundCheckpoint& checkpoint) {
  std::string own;
  const auto step = static_cast<std::size_t>(transport.ranks());
  const std::vector<CheckpointFile>& files = checkpoint.manifest.files;
  for (auto i = static_cast<std::size_t>(transport.rank()); i < files.size(); i += step) {
    try {
      own = find_damage(checkpoint.path, files[i]).value_or("");
    } catch (const Error& error) {
      own = error.what();
    }
    if (!own.empty()) break;
  }
  std::vector<std::string> all;
  for (const Bytes& bytes : gather(transport, std::as_bytes(std::span(own)))) {
    if (bytes.empty()) continue;
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

bool are_same(const std::string& one, const std::string& other) {
  std::error_code failed;
  return one == other || std::filesystem::equivalent(one, other, failed);
}

bool starts_where_it_saves(const TrainingJob& training) {
  return training.saves && are_same(training.saves->folder, training.resume);
}

// A folder to save to has nothing newer than the training goes on from.
void check_folder(const TrainingJob& training, std::optional<std::int64_t> start) {
  if (!training.saves || (start && starts_where_it_saves(training))) return;
  const std::string& folder = training.saves->folder;
  const FoundCheckpoints found = find_checkpoints(folder);
  std::int64_t newest = -1;
  for (const FoundCheckpoint& one : found.by_age) newest = std::max(newest, one.manifest.iteration);
  if (newest > start.value_or(-1) || (!start && !found.damaged.empty())) {
    throw input_error(
        fmt::format("--checkpoint {}: has {}; give --resume {} to go on from it, or "
                    "another folder",
                    printable(folder),
                    newest < 0 ? "what is left of a checkpoint"
                               : fmt::format("a checkpoint of iteration {}", newest),
                    printable(folder)));
  }
}

}  // namespace

std::optional<Resumed> find_start(const TrainingJob& training, Transport& transport,
                                  const std::function<void(const std::string&)>& warn) {
  const bool first = transport.rank() == 0;
  std::optional<Resumed> start;
  if (!training.resume.empty()) {
    FoundCheckpoints found;
    agree(transport, [&] {
      if (!first) return;
      found = find_checkpoints(training.resume);
      const bool is_empty = found.by_age.empty() && found.damaged.empty();
      if (is_empty && !starts_where_it_saves(training)) {
        throw input_error(
            fmt::format("--resume {}: there is no checkpoint; leave the flag away to "
                        "start anew",
                        printable(training.resume)));
      }
      for (const std::string& damage : found.damaged) warn(damage);
    });
    std::string last = found.damaged.empty() ? "" : found.damaged.front();
    for (std::size_t i = 0;; ++i) {
      const auto own = share(transport, i < found.by_age.size() ? &found.by_age[i] : nullptr);
      if (!own) break;
      TrainingState state;
      agree(transport, [&] { state = state_of(*own, training); });
      const std::vector<std::string> damages = find_damages(transport, *own);
      for (const std::string& damage : damages) warn(last = damage);
      if (!broadcast_value(transport, damages.empty())) continue;
      start.emplace();
      start->state = std::move(state);
      agree(transport, [&] {
        start->checkpoint = std::make_shared<CheckpointReader>(own->path, own->manifest);
      });
      break;
    }
    agree(transport, [&] {
      if (start || last.empty() || !first) return;
      throw input_error(fmt::format("--resume {}: no checkpoint is whole; the newest: {}",
                                    printable(training.resume), last));
    });
  }
  agree(transport, [&] {
    if (!first) return;
    check_folder(training,
                 start ? std::optional<std::int64_t>(start->state.iteration) : std::nullopt);
    if (start && start->state.passes > 0 && training.verify) {
      throw input_error(
          "--verify: the checkpoint stands within a step, whose first passes one rank's run lacks; "
          "leave the flag away");
    }
  });
  return start;
}

}  // namespace pipesim::exec
