// Files of named arrays in the safetensors format (huggingface/safetensors): eight bytes, little
// endian, with the size of a JSON header, which has each tensor's type, shape and position; then
// the numbers.
//
// Reading trusts nothing: tensors must be within the file, consecutive, and of the size that type
// and shape give. Plain values and pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim::exec {

struct TensorEntry {
  std::string name;
  std::string type;  // "F32", "I64", ...
  std::vector<std::int64_t> shape;
  // Byte offsets from the end of the header.
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t bytes() const { return end - begin; }
  // The product of its shape, 1 for an empty one.
  std::int64_t numbers() const;
};

struct TensorFile {
  std::int64_t header_bytes = 0;  // including the first eight
  std::vector<TensorEntry> entries;
  std::map<std::string, std::string> metadata;
};

// Bytes per number of that type, 0 for an unknown one.
std::int64_t bytes_of_type(std::string_view type);

// The beginning of a file of these entries, in order; their positions are ignored. It ends on a
// boundary of 64 bytes, so that numbers can be mapped in place.
std::string tensor_header(const std::vector<TensorEntry>& entries,
                          const std::map<std::string, std::string>& metadata = {});

// Throws an input error that names `path` if anything is wrong with the file.
TensorFile read_tensor_header(std::span<const std::byte> file, const std::string& path);

}  // namespace pipesim::exec
