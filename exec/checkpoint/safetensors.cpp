#include "exec/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr std::int64_t length_bytes = 8;
// safetensors' own limit.
constexpr std::int64_t max_header_bytes = 100'000'000;
constexpr std::int64_t boundary = 64;

static_assert(std::endian::native == std::endian::little, "numbers stand as they are in memory");

constexpr std::array<std::pair<std::string_view, std::int64_t>, 15> types{{{"F64", 8},
                                                                           {"F32", 4},
                                                                           {"F16", 2},
                                                                           {"BF16", 2},
                                                                           {"I64", 8},
                                                                           {"I32", 4},
                                                                           {"I16", 2},
                                                                           {"I8", 1},
                                                                           {"U64", 8},
                                                                           {"U32", 4},
                                                                           {"U16", 2},
                                                                           {"U8", 1},
                                                                           {"BOOL", 1},
                                                                           {"F8_E4M3", 1},
                                                                           {"F8_E5M2", 1}}};

TensorEntry entry_of(const std::string& name, const JsonCursor& value, std::int64_t room) {
  TensorEntry entry;
  entry.name = name;
  JsonMembers members(value);
  const JsonCursor type = members.required("dtype");
  entry.type = type.string();
  const std::int64_t each = bytes_of_type(entry.type);
  if (each == 0) type.fail("is not a known type");
  std::int64_t bytes = each;
  const JsonCursor shape = members.required("shape");
  for (const JsonCursor& side : shape.array()) {
    entry.shape.push_back(side.integer(0, max_bytes));
    if (entry.shape.back() > 0 && bytes > max_bytes / entry.shape.back()) {
      shape.fail("has more numbers than a file can hold");
    }
    bytes *= entry.shape.back();
  }
  const JsonCursor place = members.required("data_offsets");
  const auto offsets = place.array();
  if (offsets.size() != 2) place.fail("must be where the tensor begins and ends");
  entry.begin = offsets[0].integer(0, room);
  entry.end = offsets[1].integer(0, room);
  if (entry.end - entry.begin != bytes) {
    place.fail(fmt::format("must be {} bytes, as type and shape say", bytes));
  }
  members.finish();
  return entry;
}

}  // namespace

std::int64_t TensorEntry::numbers() const {
  std::int64_t count = 1;
  for (const std::int64_t side : shape) count *= side;
  return count;
}

std::int64_t bytes_of_type(std::string_view type) {
  const auto found =
      std::ranges::find(types, type, &std::pair<std::string_view, std::int64_t>::first);
  return found == types.end() ? 0 : found->second;
}

std::string tensor_header(const std::vector<TensorEntry>& entries,
                          const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) {
    Json texts = Json::object();
    for (const auto& [key, text] : metadata) texts.add(key, text);
    json["__metadata__"] = std::move(texts);
  }
  std::int64_t at = 0;
  for (const TensorEntry& entry : entries) {
    const std::int64_t end = at + entry.numbers() * bytes_of_type(entry.type);
    json.add(
        entry.name,
        {{"dtype", entry.type}, {"shape", entry.shape}, {"data_offsets", std::vector{at, end}}});
    at = end;
  }
  std::string text = json.dump();
  const auto length = static_cast<std::int64_t>(text.size()) + length_bytes;
  text.append(static_cast<std::size_t>((boundary - length % boundary) % boundary), ' ');
  const auto size = static_cast<std::uint64_t>(text.size());
  std::string header(reinterpret_cast<const char*>(&size), length_bytes);
  return header + text;
}

TensorFile read_tensor_header(std::span<const std::byte> file, const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw input_error(fmt::format("{}: is not a file of safetensors: {}", printable(path), why));
  };
  const auto size = static_cast<std::int64_t>(file.size());
  if (size < length_bytes) refuse("it has no header");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), length_bytes);
  if (length > static_cast<std::uint64_t>(std::min(size - length_bytes, max_header_bytes))) {
    refuse(fmt::format("its header has {} bytes, and the file {}", length, size));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + length_bytes, length);
  TensorFile found;
  found.header_bytes = length_bytes + static_cast<std::int64_t>(length);
  const std::int64_t room = size - found.header_bytes;
  const JsonValue document = parse_json(text, path);
  const auto* members = document.get_if<JsonValue::Object>();
  if (members == nullptr) {
    refuse("its header is not a JSON object");
    return found;
  }
  for (const auto& [name, value] : *members) {
    const JsonCursor cursor(value, path, name);
    if (name != "__metadata__") {
      found.entries.push_back(entry_of(name, cursor, room));
      continue;
    }
    const auto* texts = value.get_if<JsonValue::Object>();
    if (texts == nullptr) cursor.fail("must be an object of texts");
    for (const auto& [key, item] : *texts) {
      found.metadata[key] = JsonCursor(item, path, name + "." + key).string();
    }
  }
  std::ranges::sort(found.entries, {},
                    [](const TensorEntry& entry) { return std::pair(entry.begin, entry.end); });
  std::int64_t at = 0;
  for (const TensorEntry& entry : found.entries) {
    if (entry.begin != at)
      refuse(fmt::format("{} does not begin where the one before ends", quote(entry.name)));
    at = entry.end;
  }
  if (at != room) refuse(fmt::format("{} bytes are no tensor's", room - at));
  return found;
}

}  // namespace pipesim::exec
