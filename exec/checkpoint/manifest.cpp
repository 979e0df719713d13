#include "exec/checkpoint/manifest.h"

#include <fmt/format.h>

#include "exec/checkpoint/hash.h"
#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr std::string_view hash_begin = ",\n  \"hash\": \"";
constexpr std::string_view hash_end = "\"\n}\n";

}  // namespace

std::string to_text(const Manifest& manifest) {
  Json json;
  json["format"] = "pipesim-checkpoint";
  json["version"] = manifest_version;
  json["iteration"] = manifest.iteration;
  json["training"] = Json::verbatim(manifest.training);
  Json files = Json::array();
  for (const CheckpointFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"hash", file.hash}});
  }
  json["files"] = std::move(files);
  std::string text = json.dump(2);
  text.resize(text.size() - std::string_view("\n}").size());
  const std::string hash = hash_of(text);
  return fmt::format("{}{}{}{}", text, hash_begin, hash, hash_end);
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  const auto refuse = [&](std::string_view why) {
    throw input_error(fmt::format("{}: {}", printable(path), why));
  };
  const std::size_t tail = hash_begin.size() + hash_digits + hash_end.size();
  const std::string_view hashed = text.substr(0, text.size() < tail ? 0 : text.size() - tail);
  if (hashed.empty() || !text.ends_with(hash_end) ||
      text.substr(hashed.size(), hash_begin.size()) != hash_begin ||
      text.substr(hashed.size() + hash_begin.size(), hash_digits) != hash_of(hashed)) {
    refuse("is damaged: its hash does not match its contents");
  }
  const JsonValue document = parse_json(text, path);
  JsonMembers members(JsonCursor(document, path));
  members.format("pipesim-checkpoint", manifest_version);
  Manifest manifest;
  manifest.iteration = members.required("iteration").integer(0, max_iterations);
  const JsonCursor training = members.required("training");
  if (training.value().get_if<JsonValue::Object>() == nullptr) training.fail("must be an object");
  manifest.training = json_text(training.value());
  for (const JsonCursor& item : members.required("files").array()) {
    JsonMembers file(item);
    CheckpointFile& own = manifest.files.emplace_back();
    const JsonCursor name = file.required("name");
    own.name = name.string();
    if (own.name.empty() || own.name.find('/') != std::string::npos || own.name.front() == '.') {
      name.fail("must be a file of this folder");
    }
    own.bytes = file.required("bytes").integer(0, max_bytes);
    own.hash = file.required("hash").string();
    file.finish();
  }
  members.required("hash");
  members.finish();
  return manifest;
}

}  // namespace pipesim::exec
