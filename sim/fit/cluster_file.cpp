#include "sim/fit/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "sim/cost/hardware/presets.h"
#include "traces/base/files.h"
#include "traces/base/json_reader.h"
#include "traces/base/portable_math.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// The entry before and after the fit, and at both ends of its interval.
struct EntryWay {
  ConstantEntry before, after, least, most;
};

EntryWay way_of(const FittedConstant& one, const Cluster& start, std::size_t entry) {
  const auto moved_by = [&](double by) {
    Cluster cluster = start;
    move(one.constant, by, cluster);
    return entries_of(cluster, one.constant)[entry];
  };
  const Range interval = interval_of(one, start);
  return {moved_by(0), moved_by(one.by), moved_by(interval.least), moved_by(interval.most)};
}

// ---- The start of a fit, as JSON

const JsonValue* member_of(const JsonValue& value, std::string_view key) {
  const auto* object = value.get_if<JsonValue::Object>();
  if (object == nullptr) return nullptr;
  const auto found = std::ranges::find(*object, key, &JsonValue::Member::first);
  return found == object->end() ? nullptr : &found->second;
}

// Converts objects by member, so that they can be changed; everything else verbatim.
Json changeable(const JsonValue& value) {
  const auto* object = value.get_if<JsonValue::Object>();
  if (object == nullptr) return Json::verbatim(json_text(value));
  Json json = Json::object();
  for (const auto& [key, member] : *object) json[key] = changeable(member);
  return json;
}

JsonValue read_document(const std::filesystem::path& file) {
  return parse_json(read_file(file.string()), file.string());
}

// The document of a cluster's file to change, with the section for values of its software.
class StartDocument {
 public:
  StartDocument(const FitStart& start, const Cluster& cluster) : kind_(cluster.device.kind) {
    json_ = {{"format", "pipesim-cluster"}, {"version", 1}};
    if (names_file(start.cluster)) {
      take_cluster(start.cluster);
    } else {
      json_["base"] = start.cluster;
    }
    for (const char* key : {"name", "title"}) json_[key];  // their places
    if (!start.software) return;
    Json& software = json_["device"]["software"];
    if (names_file(*start.software)) {
      software = changeable(read_document(*start.software));
      is_whole_software_ = true;
    } else {
      software = {{"base", *start.software}};
      is_whole_software_ = false;
    }
  }

  Json& json() { return json_; }
  // A software file may have values for single devices, which take precedence.
  Json& software() {
    Json& software = json_["device"]["software"];
    return is_whole_software_ ? software["devices"][kind_] : software;
  }

 private:
  void take_cluster(const std::filesystem::path& file) {
    const JsonValue document = read_document(file);
    const JsonValue* format = member_of(document, "format");
    const bool is_of_device = format != nullptr && format->get_if<std::string>() != nullptr &&
                              *format->get_if<std::string>() == "pipesim-device";
    const JsonValue* device = is_of_device ? &document : member_of(document, "device");
    if (is_of_device) {
      json_["device"] = changeable(document);
      json_["devices_per_node"] = 1;
    } else {
      json_ = changeable(document);
    }
    JsonValue own;
    if (device != nullptr && device->get_if<std::string>() != nullptr) {
      const std::string& name = *device->get_if<std::string>();
      if (names_file(name)) {
        own = read_document(file.parent_path() / name);
        device = &own;
        json_["device"] = changeable(own);
      } else {
        json_["device"] = Json{{"base", name}};
        device = nullptr;
      }
    }
    const JsonValue* software = device == nullptr ? nullptr : member_of(*device, "software");
    is_whole_software_ = software != nullptr && member_of(*software, "format") != nullptr;
  }

  std::string kind_;
  Json json_;
  bool is_whole_software_ = false;
};

}  // namespace

Cluster find_start(const FitStart& start) {
  Cluster cluster = find_cluster(start.cluster);
  if (start.software) {
    DeviceSpec& device = cluster.device;
    device.software = find_software(*start.software, device.kind);
  }
  return cluster;
}

Range interval_of(const FittedConstant& constant, const Cluster& start) {
  constexpr double of_95_percent = 1.96;
  const Range range = range_of(start, constant.constant);
  const double off = of_95_percent * constant.spread;
  return {std::clamp(constant.by - off, range.least, range.most),
          std::clamp(constant.by + off, range.least, range.most)};
}

ConstantTexts texts_of(const FittedConstant& constant, const Cluster& start, std::size_t entry) {
  EntryWay way = way_of(constant, start, entry);
  if (way.before.text.empty()) {
    const Range interval = interval_of(constant, start);
    const auto text = [](double by) { return fmt::format("x {:.3f}", exponential(by)); };
    return {text(0), text(constant.by), text(interval.least), text(interval.most)};
  }
  return {std::move(way.before.text), std::move(way.after.text), std::move(way.least.text),
          std::move(way.most.text)};
}

ConstantValues values_of(const FittedConstant& constant, const Cluster& start, std::size_t entry) {
  EntryWay way = way_of(constant, start, entry);
  return {std::move(way.before.value), std::move(way.after.value), std::move(way.least.value),
          std::move(way.most.value)};
}

std::string cluster_file(const FitStart& start, const ClusterFileNames& names,
                         const FittedCluster& fitted, const Cluster& cluster) {
  StartDocument document(start, cluster);
  Json& file = document.json();
  file["name"] = names.name;
  file["title"] = fmt::format("{}, fitted on {}", cluster.title, names.runs);
  const auto section_of = [&](ConstantEntry::Section section) -> Json& {
    switch (section) {
      case ConstantEntry::Section::node: return file["node"];
      case ConstantEntry::Section::network: return file["network"];
      case ConstantEntry::Section::software: break;
    }
    return document.software();
  };
  const Cluster after = fitted.on(cluster);
  for (const FittedConstant& one : fitted.constants) {
    if (!one.is_told) continue;
    const bool is_of_memory =
        std::ranges::find(memory_constants, one.constant) != memory_constants.end();
    const FittedQuestion& question = is_of_memory ? *fitted.memory : fitted.time;
    std::vector<ConstantEntry> entries = entries_of(after, one.constant);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const ConstantTexts texts = texts_of(one, cluster, i);
      const std::string source = fmt::format(
          "fitted on {}, {}, 95 % interval {} to {}", names.runs,
          plural(static_cast<std::int64_t>(question.weights.size()), is_of_memory ? "peak" : "run"),
          texts.least, texts.most);
      section_of(entries[i].section)[entries[i].key] = {{"value", std::move(entries[i].value)},
                                                        {"source", source}};
    }
  }
  file["error_band"] = {{"fraction", std::ceil(fitted.band * 1e3) / 1e3},
                        {"rows", fitted.time.weights.size()},
                        {"sets", std::vector<std::string>{names.runs}}};
  return file.dump(2) + "\n";
}

}  // namespace pipesim
