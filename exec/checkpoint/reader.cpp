#include "exec/checkpoint/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "exec/checkpoint/safetensors.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

Range hull_of(const Numbers& numbers) {
  if (const std::optional<Range> range = numbers.in_whole()) return *range;
  const std::vector<Range> runs = numbers.runs_in_whole();
  return runs.empty() ? Range{} : Range{runs.front().begin, runs.back().end};
}

}  // namespace

CheckpointReader::CheckpointReader(const std::string& path, const Manifest& manifest)
    : path_(path) {
  for (const CheckpointFile& file : manifest.files) {
    const std::string name = fmt::format("{}/{}", path, file.name);
    const MappedFile& mapped = files_.emplace_back(name);
    const TensorFile tensors = read_tensor_header(mapped.bytes(), name);
    for (const TensorEntry& entry : tensors.entries) {
      const std::size_t bracket = entry.name.find('[');
      const std::string key = entry.name.substr(0, bracket);
      std::optional<Numbers> numbers = Numbers::all(entry.numbers());
      if (bracket != std::string::npos) {
        numbers = parse_numbers(std::string_view(entry.name).substr(bracket));
      }
      const std::byte* at = mapped.bytes().data() + tensors.header_bytes + entry.begin;
      const bool is_aligned = reinterpret_cast<std::uintptr_t>(at) % alignof(float) == 0;
      if (!numbers || entry.type != "F32" || numbers->size() != entry.numbers() || !is_aligned) {
        throw input_error(fmt::format("{}: {} is not an array of a checkpoint", printable(name),
                                      quote(entry.name)));
      }
      arrays_[key].parts.push_back(
          {*numbers, reinterpret_cast<const float*>(at), hull_of(*numbers)});
    }
  }
  for (auto& [key, array] : arrays_) {
    array.by_begin.resize(array.parts.size());
    std::iota(array.by_begin.begin(), array.by_begin.end(), std::size_t{0});
    std::ranges::sort(array.by_begin, {},
                      [&parts = array.parts](std::size_t i) { return parts[i].hull.begin; });
    std::int64_t most = 0;
    for (const std::size_t i : array.by_begin) {
      array.most_end.push_back(most = std::max(most, array.parts[i].hull.end));
    }
  }
}

std::vector<std::string> CheckpointReader::keys(std::string_view prefix) const {
  std::vector<std::string> found;
  for (auto at = arrays_.lower_bound(prefix); at != arrays_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    found.push_back(at->first);
  }
  return found;
}

std::int64_t CheckpointReader::size(std::string_view key) const {
  const auto found = arrays_.find(key);
  std::int64_t sum = 0;
  if (found == arrays_.end()) return sum;
  for (const Part& part : found->second.parts) sum += part.numbers.size();
  return sum;
}

bool CheckpointReader::is_whole(std::string_view key, std::int64_t size) const {
  const auto found = arrays_.find(key);
  if (found == arrays_.end()) return false;
  std::vector<Range> runs;
  for (const Part& part : found->second.parts) {
    const std::vector<Range> own = part.numbers.runs_in_whole();
    runs.insert(runs.end(), own.begin(), own.end());
  }
  std::ranges::sort(runs, {}, &Range::begin);
  std::int64_t at = 0;
  for (const Range& run : runs) {
    if (run.begin != at) return false;
    at = run.end;
  }
  return at == size;
}

void CheckpointReader::put(std::string_view key, const Numbers& numbers, float* to,
                           Combine combine) const {
  std::int64_t found = 0;
  if (const auto entry = arrays_.find(key); entry != arrays_.end()) {
    const Array& array = entry->second;
    const Range hull = hull_of(numbers);
    const auto first = std::ranges::upper_bound(array.most_end, hull.begin);
    std::vector<std::size_t> near;
    for (auto i = static_cast<std::size_t>(first - array.most_end.begin());
         i < array.by_begin.size() && array.parts[array.by_begin[i]].hull.begin < hull.end; ++i) {
      near.push_back(array.by_begin[i]);
    }
    std::ranges::sort(near);
    for (const std::size_t i : near) {
      const Part& part = array.parts[i];
      found += combine(part.numbers, part.at, numbers, to);
    }
  }
  if (found == numbers.size()) return;
  throw input_error(fmt::format("{}: has {} of {} numbers of {} that are needed", printable(path_),
                                found, numbers.size(), quote(key)));
}

void CheckpointReader::read(std::string_view key, const Numbers& numbers, float* to) const {
  put(key, numbers, to, copy_common);
}

void CheckpointReader::add(std::string_view key, const Numbers& numbers, float* to) const {
  put(key, numbers, to, add_common);
}

}  // namespace pipesim::exec
