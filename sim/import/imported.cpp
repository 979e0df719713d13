#include "sim/import/imported.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/import/deepspeed.h"
#include "sim/import/megatron.h"
#include "sim/import/toml.h"
#include "sim/import/torchtitan.h"
#include "traces/base/error.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// A line of TOML that opens a table, at its beginning.
bool has_table(std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view trimmed = strip(line);
    if (trimmed.size() < 3 || trimmed[0] != '[' || trimmed.find(']') == std::string_view::npos) {
      continue;
    }
    const char first = trimmed[1];
    if (first == '_' || (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z')) {
      return true;
    }
  }
  return false;
}

std::string without_comments(std::string_view text) {
  std::string rest;
  for (const std::string_view line : split(text, '\n')) {
    if (!strip(line).starts_with('#')) rest += std::string(line) + "\n";
  }
  return rest;
}

// "context-parallel-size", of "--context-parallel-size 4".
std::string setting_name(std::string_view what) {
  what = what.substr(0, what.find_first_of(" :"));
  return std::string(what.substr(std::min(what.size(), what.find_first_not_of('-'))));
}

}  // namespace

const Model* known_model_like(const Model& model) {
  const std::vector<BlockKind> kinds = shortest_kinds(model);
  for (const Model& known : known_models()) {
    Model like = model;
    like.name = known.name;
    if (like.blocks == known.blocks && kinds == shortest_kinds(known)) like.kinds = known.kinds;
    if (!known.is_listed() && !known.has_positions()) {
      like.max_sequence_length = known.max_sequence_length;
    }
    if (like == known) return &known;
  }
  return nullptr;
}

std::vector<BlockKind> shortest_kinds(const Model& model) {
  std::vector<BlockKind> kinds;
  for (int block = 1; block <= model.blocks; ++block) kinds.push_back(model.kind_of(block));
  const auto is_rest = [&](std::size_t length) {
    const auto next = kinds.begin() + static_cast<std::ptrdiff_t>(length);
    return std::equal(next, kinds.end(), kinds.begin());
  };
  std::size_t length = std::min<std::size_t>(1, kinds.size());
  while (!is_rest(length)) ++length;
  kinds.resize(length);
  return kinds;
}

bool starts_with_any(std::string_view text, std::string_view beginnings) {
  while (!beginnings.empty()) {
    const std::size_t end = std::min(beginnings.find(' '), beginnings.size());
    if (end > 0 && text.starts_with(beginnings.substr(0, end))) return true;
    beginnings.remove_prefix(std::min(end + 1, beginnings.size()));
  }
  return false;
}

std::string bytes_flag(std::int64_t bytes) {
  constexpr std::int64_t megabyte = 1'000'000;
  return bytes % megabyte == 0 ? fmt::format("{}MB", bytes / megabyte) : fmt::format("{}B", bytes);
}

std::string layout_text(const std::vector<std::int64_t>& layers) {
  return fmt::format("{}", fmt::join(layers, ","));
}

void refuse_unmodelled(const Imported& imported, const std::string& file,
                       const std::vector<std::string>& lists) {
  std::vector<std::string> ignored, known, what, names;
  for (const std::string& list : lists) {
    for (const std::string_view name : split(list, ',')) ignored.push_back(setting_name(name));
  }
  for (const Remark& one : imported.without_counterpart) {
    known.push_back(setting_name(one.what));
    if (std::ranges::find(ignored, known.back()) != ignored.end()) continue;
    what.push_back(fmt::format("{} ({})", one.what, one.why));
    names.push_back(known.back());
  }
  for (const std::string& one : ignored) {
    if (std::ranges::find(known, one) != known.end()) continue;
    throw input_error(fmt::format(
        "--ignore {}: {} has no such setting that is not modelled{}", printable(one),
        printable(file), known.empty() ? "" : fmt::format("; it has {}", fmt::join(known, ", "))));
  }
  if (what.empty()) return;
  names.insert(names.begin(), ignored.begin(), ignored.end());
  throw input_error(fmt::format("{}: not modelled: {}; to predict without: --ignore {}",
                                printable(file), fmt::join(what, "; "), fmt::join(names, ",")));
}

Imported import_training(std::string_view text, const std::string& file,
                         const ImportQuestion& question) {
  const std::string_view content = strip(text);
  if (content.starts_with('{')) {
    const JsonValue document = parse_json(text, file);
    return read_deepspeed(JsonCursor(document, file), question);
  }
  if (has_megatron_arguments(without_comments(text))) return read_megatron(text, file, question);
  if (has_table(text)) {
    const JsonValue document = parse_toml(text, file);
    return read_torchtitan(JsonCursor(document, file), question);
  }
  throw input_error(fmt::format(
      "{}: is none of the formats that are read: Megatron-LM's arguments (--num-layers ...), "
      "torchtitan's TOML ([parallelism] ...), DeepSpeed's JSON ({{\"train_batch_size\": ...}})",
      printable(file)));
}

}  // namespace pipesim
