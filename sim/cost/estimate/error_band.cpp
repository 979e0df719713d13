#include "sim/cost/estimate/error_band.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/cost/hardware/hardware_json.h"
#include "sim/cost/hardware/presets.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

struct LayoutKind {
  bool spans_nodes = false;
  bool has_pipeline = false;
  bool is_sharded = false;

  bool operator==(const LayoutKind&) const = default;
};

LayoutKind kind_of(const Cluster& cluster, const Training& training) {
  return {training.devices() > cluster.devices_per_node, training.pipeline_parallel > 1,
          training.zero >= 3};
}

void widen(std::optional<ErrorBand>& band, double fraction, std::int64_t rows,
           const std::string& set) {
  if (!band) band.emplace();
  band->fraction = std::max(band->fraction, fraction);
  band->rows += rows;
  if (std::ranges::find(band->sets, set) == band->sets.end()) band->sets.push_back(set);
}

}  // namespace

std::optional<ErrorBand> error_band(const Model& model, const Cluster& cluster,
                                    const Training& training) {
  if (model.is_listed() || model.architecture == Architecture::mlp) return std::nullopt;
  if (cluster.error_band) return cluster.error_band;
  const std::string file = "validated.json";
  const JsonValue document = parse_json(validated_sets(), file);
  JsonMembers members{JsonCursor(document, file)};
  members.format("pipesim-validated", 1);
  const LayoutKind asked = kind_of(cluster, training);
  std::optional<ErrorBand> alike;
  std::optional<ErrorBand> any;
  for (const JsonCursor& item : members.required("sets").array()) {
    JsonMembers row(item);
    const std::string& device = row.required("device").string();
    const std::string& software = row.required("software").string();
    const LayoutKind kind{row.required("spans_nodes").boolean(),
                          row.required("has_pipeline").boolean(),
                          row.required("is_sharded").boolean()};
    if (device != cluster.device.kind || software != cluster.device.software.name) continue;
    const double fraction = row.required("fraction").number();
    const std::int64_t rows = row.required("rows").integer(1, max_count);
    const std::string& set = row.required("set").string();
    widen(any, fraction, rows, set);
    if (kind == asked) widen(alike, fraction, rows, set);
  }
  constexpr std::int64_t few = 5;  // rows, too few on their own
  if (alike && alike->rows >= few) return alike;
  if (any) any->is_of_other_layouts = !alike;
  return any;
}

std::optional<ErrorBand> error_band(const CostModel& model) {
  return error_band(model.model(), model.cluster(), model.training());
}

std::string band_text(const std::optional<ErrorBand>& band) {
  return band ? fmt::format(" +-{:.0f} %", band->fraction * 100) : "";
}

std::string validation_text(const Cluster& cluster, const std::optional<ErrorBand>& band) {
  const std::string& software = cluster.device.software.name;
  const std::string what =
      software.empty()
          ? printable(cluster.device.name)
          : fmt::format("{} with {}", printable(cluster.device.name), printable(software));
  if (!band) return fmt::format("{}, not validated", what);
  return fmt::format("{}, validated on {}{}", what, plural(band->rows, "row"),
                     band->is_of_other_layouts ? " of other layouts" : "");
}

}  // namespace pipesim
