#include "exec/saved/weight_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "exec/checkpoint/safetensors.h"
#include "exec/saved/model_arrays.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

std::int64_t size_of_array(const PublishedTensor& tensor) { return tensor.rows * tensor.width; }

std::string_view text_of(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// IEEE 754's binary16: exact in float32.
float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {  // fraction x 2^-24
    const float size = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -size : size;
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xffU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// A file and its tensors by name.
class WeightFile {
 public:
  WeightFile(std::span<const std::byte> file, const std::string& path, const Model& model)
      : bytes_(file), path_(path), model_(model), tensors_(read_tensor_header(file, path)) {
    for (const TensorEntry& entry : tensors_.entries) unread_.emplace(entry.name, &entry);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw input_error(fmt::format("{}: {}", printable(path_), why));
  }

  std::vector<float> take(const PublishedTensor& tensor) {
    const TensorEntry& entry = find(tensor);
    if (entry.shape != tensor.shape) {
      refuse(fmt::format("{} has the shape [{}], and model {} needs [{}]", quote(entry.name),
                         fmt::join(entry.shape, ", "), quote(model_.name),
                         fmt::join(tensor.shape, ", ")));
    }
    return numbers_of(entry);
  }

  // Checks that only buffers without information are left.
  void finish(const PublishedTensor& table, const std::vector<float>& words) {
    if (const auto head = unread_.find(published_head); head != unread_.end()) {
      PublishedTensor again = table;
      again.name = published_head;
      if (text_of(take(again)) != text_of(words)) {
        refuse(
            fmt::format("{} is not {}, and model {} has one for both; give a model whose "
                        "tied_head is false",
                        quote(published_head), quote(table.name), quote(model_.name)));
      }
    }
    for (const auto& [name, entry] : unread_) {
      if (is_published_buffer(name)) continue;
      refuse(
          fmt::format("has {}, for which model {} has no place", quote(name), quote(model_.name)));
    }
  }

 private:
  const TensorEntry& find(const PublishedTensor& tensor) {
    auto found = unread_.find(tensor.name);
    const std::string_view prefix = published_prefix(model_);
    if (found == unread_.end() && tensor.name.starts_with(prefix)) {
      found = unread_.find(std::string_view(tensor.name).substr(prefix.size()));
    }
    if (found == unread_.end()) {
      refuse(fmt::format("lacks {} of the shape [{}], which model {} needs", quote(tensor.name),
                         fmt::join(tensor.shape, ", "), quote(model_.name)));
    }
    const TensorEntry& entry = *found->second;
    unread_.erase(found);
    return entry;
  }

  std::vector<float> numbers_of(const TensorEntry& entry) const {
    const auto size = static_cast<std::size_t>(entry.numbers());
    const std::byte* at = bytes_.data() + tensors_.header_bytes + entry.begin;
    std::vector<float> numbers(size);
    if (entry.type == "F32") {
      if (size > 0) std::memcpy(numbers.data(), at, size * sizeof(float));
      return numbers;
    }
    if (entry.type != "F16" && entry.type != "BF16") {
      refuse(fmt::format("{} has type {}; give F32, F16 or BF16", quote(entry.name), entry.type));
    }
    const bool is_short = entry.type == "F16";
    for (std::size_t i = 0; i < size; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at + i * sizeof(bits), sizeof(bits));
      numbers[i] = is_short ? from_float16(bits) : from_bfloat16(bits);
    }
    return numbers;
  }

  std::span<const std::byte> bytes_;
  const std::string& path_;
  const Model& model_;
  TensorFile tensors_;
  std::map<std::string_view, const TensorEntry*, std::less<>> unread_;
};

}  // namespace

std::size_t write_weights(const CheckpointReader& checkpoint, const Model& model,
                          OutputFile& file) {
  const std::vector<PublishedTensor> tensors = published_tensors(model);
  std::vector<TensorEntry> entries;
  for (const PublishedTensor& tensor : tensors) {
    TensorEntry& entry = entries.emplace_back();
    entry.name = tensor.name;
    entry.type = "F32";
    entry.shape = tensor.shape;
  }
  file.write(tensor_header(entries, {{"format", "pt"}}));  // required by transformers
  std::string key;
  std::vector<float> array;  // of that key
  std::vector<float> numbers;
  for (const PublishedTensor& tensor : tensors) {
    if (tensor.key != key) {
      key = tensor.key;
      const std::int64_t size = size_of_array(tensor);
      array.resize(static_cast<std::size_t>(size));
      checkpoint.read(key + std::string(weight_state), Numbers::all(size), array.data());
    }
    numbers.resize(static_cast<std::size_t>(tensor.size()));
    take_published(tensor, array.data(), numbers.data());
    file.write(text_of(numbers));
  }
  return tensors.size();
}

WeightArrays read_weights(std::span<const std::byte> file, const std::string& path,
                          const Model& model) {
  WeightFile source(file, path, model);
  const std::vector<PublishedTensor> tensors = published_tensors(model);
  WeightArrays arrays;
  for (const PublishedTensor& tensor : tensors) {
    const std::vector<float> numbers = source.take(tensor);
    std::vector<float>& array = arrays[tensor.key];
    array.resize(static_cast<std::size_t>(size_of_array(tensor)));
    put_published(tensor, numbers.data(), array.data());
  }
  source.finish(tensors.front(), arrays.at(tensors.front().key));
  return arrays;
}

}  // namespace pipesim::exec
