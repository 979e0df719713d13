// A checkpoint's manifest: the progress of the training, and the files that hold it.
//
// Its last member is the hash of the text before it, so a torn or altered manifest is
// invalid. The training's own facts are an opaque JSON object here. Plain
// values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim::exec {

struct CheckpointFile {
  std::string name;  // within the checkpoint's folder
  std::int64_t bytes = 0;
  std::string hash;
  bool operator==(const CheckpointFile&) const = default;
};

struct Manifest {
  std::int64_t iteration = 0;  // iterations done
  std::string training;        // a JSON object
  std::vector<CheckpointFile> files;
};

inline constexpr std::string_view manifest_name = "manifest.json";
inline constexpr std::int64_t manifest_version = 1;
inline constexpr std::int64_t max_iterations = 1'000'000'000'000;

std::string to_text(const Manifest& manifest);
// A manifest that is incomplete, of another version, or that names files outside of its folder, is
// an input error that names `path`.
Manifest parse_manifest(std::string_view text, const std::string& path);

}  // namespace pipesim::exec
