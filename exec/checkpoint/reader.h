// The arrays of a checkpoint, assembled for any layout from the files of its ranks.
//
// It maps files known to be intact, so a rank reads only what it needs. Immutable;
// any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/disk.h"
#include "exec/checkpoint/manifest.h"
#include "exec/checkpoint/numbers.h"

namespace pipesim::exec {

class CheckpointReader {
 public:
  // Throws an input error if a file is not safetensors, or its contents are not a snapshot's.
  CheckpointReader(const std::string& path, const Manifest& manifest);

  const std::string& path() const { return path_; }
  bool has(std::string_view key) const { return arrays_.contains(key); }
  // Keys with that prefix, in order.
  std::vector<std::string> keys(std::string_view prefix = {}) const;
  // How many numbers of an array the files have.
  std::int64_t size(std::string_view key) const;

  // Whether the files have each of an array's numbers exactly once.
  bool is_whole(std::string_view key, std::int64_t size) const;

  // Copies those numbers of an array to `to`, or adds them there. Throws an input error if the
  // array lacks some.
  void read(std::string_view key, const Numbers& numbers, float* to) const;
  void add(std::string_view key, const Numbers& numbers, float* to) const;

 private:
  struct Part {
    Numbers numbers;
    const float* at;
    Range hull;  // from its first to its last number, in the whole
  };
  // Parts in the order of the files, in which sums are added.
  struct Array {
    std::vector<Part> parts;
    std::vector<std::size_t> by_begin;   // of their hulls
    std::vector<std::int64_t> most_end;  // of hulls so far, in that order
  };
  using Combine = std::int64_t (*)(const Numbers&, const float*, const Numbers&, float*);
  void put(std::string_view key, const Numbers& numbers, float* to, Combine combine) const;

  std::string path_;
  std::vector<MappedFile> files_;
  std::map<std::string, Array, std::less<>> arrays_;
};

}  // namespace pipesim::exec
