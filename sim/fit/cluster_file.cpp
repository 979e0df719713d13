#include "sim/fit/cluster_file.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "traces/base/portable_math.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

Cluster with_factor(const Cluster& preset, Constant constant, double factor) {
  Cluster cluster = preset;
  scale(constant, factor, cluster);
  return cluster;
}

std::string text_with(const Cluster& preset, Constant constant, double factor, std::size_t entry) {
  const std::string text = entries_of(with_factor(preset, constant, factor), constant)[entry].text;
  return text.empty() ? fmt::format("x {:.3f}", factor) : text;
}

}  // namespace

Interval interval_of(const FittedConstant& constant) {
  constexpr double of_95_percent = 1.96;
  const double middle = logarithm(constant.factor);
  return {exponential(middle - of_95_percent * constant.spread),
          exponential(middle + of_95_percent * constant.spread)};
}

ConstantTexts texts_of(const FittedConstant& constant, const Cluster& preset, std::size_t entry) {
  const Interval interval = interval_of(constant);
  const auto text = [&](double factor) {
    return text_with(preset, constant.constant, factor, entry);
  };
  return {text(1), text(constant.factor), text(interval.least), text(interval.most)};
}

std::string cluster_file(const ClusterFileNames& names, const FittedCluster& fitted,
                         const Cluster& preset) {
  Json software = Json::object();
  Json node = Json::object();
  Json network = Json::object();
  if (!names.software.empty()) software["base"] = names.software;
  const Cluster cluster = fitted.on(preset);
  const auto section_of = [&](ConstantEntry::Section section) -> Json& {
    switch (section) {
      case ConstantEntry::Section::node: return node;
      case ConstantEntry::Section::network: return network;
      case ConstantEntry::Section::software: break;
    }
    return software;
  };
  for (const FittedConstant& one : fitted.constants) {
    if (!one.is_told) continue;
    std::vector<ConstantEntry> entries = entries_of(cluster, one.constant);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const ConstantTexts texts = texts_of(one, preset, i);
      const std::string source = fmt::format(
          "fitted on {}, {}, 95 % interval {} to {}", names.runs,
          plural(static_cast<std::int64_t>(fitted.weights.size()), "run"), texts.least, texts.most);
      section_of(entries[i].section)[entries[i].key] = {{"value", std::move(entries[i].value)},
                                                        {"source", source}};
    }
  }
  Json file{{"format", "pipesim-cluster"},
            {"version", 1},
            {"base", names.base},
            {"name", names.name},
            {"title", fmt::format("{}, fitted on {}", preset.title, names.runs)}};
  if (software.size() > 0) {
    Json device = Json::object();
    device["software"] = std::move(software);
    file["device"] = std::move(device);
  }
  if (node.size() > 0) file["node"] = std::move(node);
  if (network.size() > 0) file["network"] = std::move(network);
  file["error_band"] = {{"fraction", std::ceil(fitted.band * 1e3) / 1e3},
                        {"rows", fitted.weights.size()},
                        {"sets", std::vector<std::string>{names.runs}}};
  return file.dump(2) + "\n";
}

}  // namespace pipesim
