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

}  // namespace

const Model* known_model_like(const Model& model) {
  for (const Model& known : known_models()) {
    Model like = model;
    like.name = known.name;
    if (!known.is_listed() && !known.has_positions()) {
      like.max_sequence_length = known.max_sequence_length;
    }
    if (like == known) return &known;
  }
  return nullptr;
}

std::string bytes_flag(std::int64_t bytes) {
  constexpr std::int64_t megabyte = 1'000'000;
  return bytes % megabyte == 0 ? fmt::format("{}MB", bytes / megabyte) : fmt::format("{}B", bytes);
}

std::string layout_text(const std::vector<std::int64_t>& layers) {
  return fmt::format("{}", fmt::join(layers, ","));
}

Imported import_training(std::string_view text, const std::string& file,
                         const ImportQuestion& question) {
  const std::string_view content = strip(text);
  if (content.starts_with('{')) {
    const JsonValue document = parse_json(text, file);
    return read_deepspeed(JsonCursor(document, file), question);
  }
  if (has_megatron_arguments(text)) return read_megatron(text, file, question);
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
