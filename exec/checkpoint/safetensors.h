// Files of named arrays in the form of safetensors (huggingface/safetensors): eight bytes, little
// endian, with the size of a JSON header that says each tensor's type, shape and place; then the
// numbers.
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
  // Bytes from the end of the header on.
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t bytes() const { return end - begin; }
  // Of its shape, 1 of none.
  std::int64_t numbers() const;
};

struct TensorFile {
  std::int64_t header_bytes = 0;  // with the eight before
  std::vector<TensorEntry> entries;
  std::map<std::string, std::string> metadata;
};

// Bytes of a number of that type, 0 of an unknown one.
std::int64_t bytes_of_type(std::string_view type);

// The beginning of a file of those, in their order, of which places are not looked at. It ends on
// a boundary of 64 bytes, so that numbers can be mapped as they stand.
std::string tensor_header(const std::vector<TensorEntry>& entries,
                          const std::map<std::string, std::string>& metadata = {});

// What is wrong with the file is an input error that names `path`.
TensorFile read_tensor_header(std::span<const std::byte> file, const std::string& path);

}  // namespace pipesim::exec
