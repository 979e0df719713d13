#include "exec/run/newest_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
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

// Called by all ranks: returns rank 0's checkpoint, or nothing.
std::optional<FoundCheckpoint> share(Transport& transport, const FoundCheckpoint* own) {
  const std::string path = broadcast_text(transport, own != nullptr ? own->path : "");
  if (path.empty()) return std::nullopt;
  const std::string manifest =
      broadcast_text(transport, own != nullptr ? to_text(own->manifest) : "");
  return FoundCheckpoint{path, parse_manifest(manifest, path)};
}

// Called by all ranks, each checks some of the files; rank 0 gets the faults of all.
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

bool are_same(const CheckpointFolders& folders) {
  std::error_code failed;
  return folders.resumed == folders.saved ||
         std::filesystem::equivalent(folders.resumed, folders.saved, failed);
}

}  // namespace

std::optional<NewestCheckpoint> find_newest_checkpoint(
    const CheckpointFolders& folders, Transport& transport,
    const std::function<void(const FoundCheckpoint&)>& check,
    const std::function<void(const std::string&)>& warn) {
  const bool first = transport.rank() == 0;
  FoundCheckpoints all;
  agree(transport, [&] {
    if (!first) return;
    all = find_checkpoints(folders.resumed);
    const bool is_empty = all.by_age.empty() && all.damaged.empty();
    if (is_empty && !are_same(folders)) {
      throw input_error(
          fmt::format("--resume {}: there is no checkpoint; omit the flag to start afresh",
                      printable(folders.resumed)));
    }
    for (const std::string& damage : all.damaged) warn(damage);
  });
  std::string last = all.damaged.empty() ? "" : all.damaged.front();
  for (std::size_t i = 0;; ++i) {
    const auto own = share(transport, i < all.by_age.size() ? &all.by_age[i] : nullptr);
    if (!own) break;
    agree(transport, [&] { check(*own); });
    const std::vector<std::string> damages = find_damages(transport, *own);
    for (const std::string& damage : damages) warn(last = damage);
    if (broadcast_value(transport, std::ssize(damages)) > 0) continue;
    NewestCheckpoint newest{*own, nullptr};
    agree(transport,
          [&] { newest.reader = std::make_shared<CheckpointReader>(own->path, own->manifest); });
    return newest;
  }
  agree(transport, [&] {
    if (last.empty() || !first) return;
    throw input_error(fmt::format("--resume {}: no checkpoint is complete; the newest: {}",
                                  printable(folders.resumed), last));
  });
  return std::nullopt;
}

void check_saved_folder(const CheckpointFolders& folders, Transport& transport,
                        std::optional<std::int64_t> start) {
  agree(transport, [&] {
    if (transport.rank() != 0 || folders.saved.empty() || (start && are_same(folders))) return;
    const FoundCheckpoints found = find_checkpoints(folders.saved);
    std::int64_t newest = -1;
    for (const FoundCheckpoint& one : found.by_age) {
      newest = std::max(newest, one.manifest.iteration);
    }
    if (newest <= start.value_or(-1) && (start || found.damaged.empty())) return;
    throw input_error(
        fmt::format("--checkpoint {0}: has {1}; give --resume {0} to go on from it, or another "
                    "folder",
                    printable(folders.saved),
                    newest < 0 ? "what is left of a checkpoint"
                               : fmt::format("a checkpoint of iteration {}", newest)));
  });
}

}  // namespace pipesim::exec
