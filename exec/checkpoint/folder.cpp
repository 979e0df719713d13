#include "exec/checkpoint/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <ranges>
#include <span>
#include <tuple>
#include <utility>

#include "exec/checkpoint/hash.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr std::string_view whole_prefix = "iteration-";
constexpr std::string_view incoming_prefix = ".incoming-";
constexpr std::string_view removed_prefix = ".removed-";
constexpr std::string_view mark_name = "latest";
constexpr std::string_view incoming_mark = ".latest";

std::string join(const std::string& folder, std::string_view name) {
  return fmt::format("{}/{}", folder, name);
}

// The number after the prefix, if the name is one of those.
std::optional<std::int64_t> iteration_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return {};
  name.remove_prefix(prefix.size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (error != std::errc() || end != name.data() + name.size() || name.size() < 8) return {};
  return value;
}

std::string named(std::string_view prefix, std::int64_t iteration) {
  return fmt::format("{}{:08}", prefix, iteration);
}

void write_synced(Disk& disk, const std::string& path, std::string_view text) {
  const auto file = disk.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->sync();
}

bool is_whole(const FoundCheckpoint& checkpoint) {
  return std::ranges::none_of(checkpoint.manifest.files, [&](const CheckpointFile& file) {
    return find_damage(checkpoint.path, file).has_value();
  });
}

}  // namespace

FoundCheckpoints find_checkpoints(const std::string& folder) {
  struct Candidate {
    std::int64_t iteration;
    bool is_named;
    std::string path;
  };
  std::vector<Candidate> candidates;
  for (const std::string& name : names_in(folder)) {
    for (const std::string_view prefix : {whole_prefix, incoming_prefix}) {
      if (const auto iteration = iteration_in(name, prefix)) {
        candidates.push_back({*iteration, prefix == whole_prefix, join(folder, name)});
      }
    }
  }
  std::ranges::sort(candidates, std::ranges::greater(),
                    [](const Candidate& one) { return std::pair(one.iteration, one.is_named); });
  FoundCheckpoints found;
  for (const Candidate& one : candidates) {
    const std::string path = join(one.path, manifest_name);
    if (!size_of_file(path)) {
      if (one.is_named) found.damaged.push_back(fmt::format("{}: is not there", printable(path)));
      continue;
    }
    try {
      Manifest manifest = parse_manifest(read_file(path), path);
      if (manifest.iteration != one.iteration) {
        throw input_error(
            fmt::format("{}: is from iteration {}", printable(path), manifest.iteration));
      }
      found.by_age.push_back({one.path, std::move(manifest), !one.is_named});
    } catch (const Error& error) {
      // Under the hidden name it is half written.
      if (one.is_named) found.damaged.emplace_back(error.what());
    }
  }
  return found;
}

std::optional<std::string> marked_checkpoint(const std::string& folder) {
  const std::string path = join(folder, mark_name);
  if (!size_of_file(path)) return std::nullopt;
  return std::string(strip(read_file(path)));
}

std::optional<std::string> find_damage(const std::string& checkpoint, const CheckpointFile& file) {
  const std::string path = join(checkpoint, file.name);
  const std::optional<std::int64_t> bytes = size_of_file(path);
  if (!bytes) return fmt::format("{}: is not there", printable(path));
  if (*bytes != file.bytes) {
    return fmt::format("{}: has {} bytes, its manifest says {}", printable(path), *bytes,
                       file.bytes);
  }
  const MappedFile mapped(path);
  if (hash_of(mapped.bytes()) != file.hash) {
    return fmt::format("{}: is altered: its hash is not the one in the manifest", printable(path));
  }
  return std::nullopt;
}

CheckpointFolder::CheckpointFolder(Disk& disk, std::string path, int keep)
    : disk_(disk), path_(std::move(path)), keep_(keep) {}

std::string CheckpointFolder::file_of(int rank) {
  return fmt::format("rank-{:04}.safetensors", rank);
}

std::string CheckpointFolder::incoming(std::int64_t iteration) const {
  return join(path_, named(incoming_prefix, iteration));
}

std::string CheckpointFolder::open(std::int64_t iteration) {
  const std::string path = incoming(iteration);
  disk_.make_folder(path);
  return path;
}

// Under a hidden name first: what is left of it, if this is interrupted, is no damaged checkpoint.
void CheckpointFolder::retire(std::int64_t iteration) {
  const std::string hidden = join(path_, named(removed_prefix, iteration));
  if (std::filesystem::exists(hidden)) remove(hidden);
  disk_.rename(join(path_, named(whole_prefix, iteration)), hidden);
  remove(hidden);
}

// The manifest first, so that the rest is not a checkpoint.
void CheckpointFolder::remove(const std::string& checkpoint) {
  std::vector<std::string> names = names_in(checkpoint);
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name == manifest_name; });
  for (const std::string& name : names) {
    const std::string path = join(checkpoint, name);
    if (std::filesystem::is_directory(std::filesystem::symlink_status(path))) {
      remove(path);  // a stranger's
    } else {
      disk_.remove_file(path);
    }
  }
  disk_.remove_folder(checkpoint);
}

void CheckpointFolder::prepare() {
  try {
    disk_.make_folder(path_);
    const std::string parent = std::filesystem::path(path_ + "/.").parent_path().parent_path();
    disk_.sync_folder(parent.empty() ? "." : parent);
    write_synced(disk_, join(path_, incoming_mark), "");  // checks that it is writable
    for (const FoundCheckpoint& one : find_checkpoints(path_).by_age) {
      if (one.is_incoming && is_whole(one)) finish(one.manifest.iteration);
    }
    for (const std::string& name : names_in(path_)) {
      if (iteration_in(name, incoming_prefix) || iteration_in(name, removed_prefix)) {
        remove(join(path_, name));
      }
      if (name == incoming_mark) disk_.remove_file(join(path_, name));
    }
    disk_.sync_folder(path_);
  } catch (const Error& error) {
    throw input_error(fmt::format("--checkpoint: {}", error.what()));
  }
}

void CheckpointFolder::publish(const Manifest& manifest) {
  const std::string path = incoming(manifest.iteration);
  write_synced(disk_, join(path, manifest_name), to_text(manifest));
  disk_.sync_folder(path);
  disk_.sync_folder(path_);
  finish(manifest.iteration);
}

// From here on the checkpoint under the hidden name is complete.
void CheckpointFolder::finish(std::int64_t iteration) {
  std::vector<std::int64_t> others;
  for (const std::string& name : names_in(path_)) {
    if (const auto own = iteration_in(name, whole_prefix)) others.push_back(*own);
  }
  std::ranges::sort(others);
  const auto earlier =
      std::ranges::count_if(others, [&](std::int64_t own) { return own < iteration; });
  for (std::size_t i = 0; i < others.size(); ++i) {
    const bool is_kept = others[i] < iteration && earlier - static_cast<int>(i) < keep_;
    if (!is_kept) retire(others[i]);
  }
  disk_.sync_folder(path_);
  const std::string name = named(whole_prefix, iteration);
  disk_.rename(incoming(iteration), join(path_, name));
  disk_.sync_folder(path_);
  write_synced(disk_, join(path_, incoming_mark), name + "\n");
  disk_.rename(join(path_, incoming_mark), join(path_, mark_name));
  disk_.sync_folder(path_);
}

}  // namespace pipesim::exec
