// Files of safetensors, made and read by hand: not by what pipeexec makes and reads them with.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "traces/base/files.h"

namespace pipesim::testing {

struct TestTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> numbers = {};
  std::string type = "F32";
  std::string bytes = {};  // of another type

  std::string raw() const {
    if (type != "F32") return bytes;
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
  }
};
using TestTensors = std::map<std::string, TestTensor>;

inline std::string tensor_file(const TestTensors& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::string numbers;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = numbers.size();
    numbers += tensor.raw();
    header[name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {begin, numbers.size()}}};
  }
  const std::string text = header.dump();
  const auto size = static_cast<std::uint64_t>(text.size());
  return std::string(reinterpret_cast<const char*>(&size), 8) + text + numbers;
}

// Those of F32.
inline TestTensors read_tensors(const std::string& path) {
  const std::string file = read_file(path);
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), 8);
  TestTensors tensors;
  const auto header = nlohmann::json::parse(file.substr(8, size));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    TestTensor& tensor = tensors[name];
    tensor.shape = entry["shape"].get<std::vector<std::int64_t>>();
    tensor.type = entry["dtype"];
    const auto begin = entry["data_offsets"][0].get<std::size_t>();
    const auto end = entry["data_offsets"][1].get<std::size_t>();
    tensor.numbers.resize((end - begin) / sizeof(float));
    std::memcpy(tensor.numbers.data(), file.data() + 8 + size + begin, end - begin);
  }
  return tensors;
}

}  // namespace pipesim::testing
