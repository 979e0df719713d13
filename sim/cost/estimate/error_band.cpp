#include "sim/cost/estimate/error_band.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/cost/hardware/hardware_json.h"
#include "sim/cost/hardware/presets.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t few_rows = 5;  // fewer say little on their own

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

// Calls visit(device, software, rest of the row) for each row of a list of validated.json.
template <typename Visit>
void for_each_validated(std::string_view list, Visit visit) {
  const std::string file = "validated.json";
  const JsonValue document = parse_json(validated_sets(), file);
  JsonMembers members{JsonCursor(document, file)};
  members.format("pipesim-validated", 1);
  for (const JsonCursor& item : members.required(list).array()) {
    JsonMembers row(item);
    const std::string& device = row.required("device").string();
    const std::string& software = row.required("software").string();
    visit(device, software, row);
  }
}

void widen(std::optional<ErrorBand>& band, JsonMembers& row) {
  widen(band, row.required("fraction").number(), row.required("rows").integer(1, max_count),
        row.required("set").string());
}

}  // namespace

std::optional<ErrorBand> error_band(const Model& model, const Cluster& cluster,
                                    const Training& training) {
  if (model.is_listed() || model.architecture == Architecture::mlp) return std::nullopt;
  if (cluster.error_band) return cluster.error_band;
  const LayoutKind asked = kind_of(cluster, training);
  std::optional<ErrorBand> alike;
  std::optional<ErrorBand> any;
  for_each_validated(
      "sets", [&](const std::string& device, const std::string& software, JsonMembers& row) {
        const LayoutKind kind{row.required("spans_nodes").boolean(),
                              row.required("has_pipeline").boolean(),
                              row.required("is_sharded").boolean()};
        if (device != cluster.device.kind || software != cluster.device.software.name) return;
        widen(any, row);
        if (kind == asked) widen(alike, row);
      });
  if (alike && alike->rows >= few_rows) return alike;
  if (any) any->is_of_other_layouts = !alike;
  return any;
}

std::optional<ErrorBand> error_band(const CostModel& model) {
  return error_band(model.model(), model.cluster(), model.training());
}

std::optional<ErrorBand> memory_error_band(const Model& model, const Cluster& cluster) {
  if (model.is_listed() || model.architecture == Architecture::mlp) return std::nullopt;
  std::optional<ErrorBand> alike;
  std::optional<ErrorBand> any;
  for_each_validated("memory_sets",
                     [&](const std::string& device, const std::string& software, JsonMembers& row) {
                       if (device != cluster.device.kind) return;
                       widen(any, row);
                       if (software == cluster.device.software.name) widen(alike, row);
                     });
  return alike && alike->rows >= few_rows ? alike : any;
}

std::optional<ErrorBand> memory_error_band(const CostModel& model) {
  return memory_error_band(model.model(), model.cluster());
}

std::int64_t cap_with_margin(std::int64_t memory_bytes, const ErrorBand& band) {
  // An error is a part of the real peak.
  return static_cast<std::int64_t>(static_cast<double>(memory_bytes) *
                                   std::max(0.0, 1 - band.fraction));
}

bool may_not_fit(std::int64_t peak_bytes, std::int64_t cap_bytes, std::int64_t device_bytes,
                 const std::optional<ErrorBand>& band) {
  return band && peak_bytes <= cap_bytes &&
         peak_bytes > cap_with_margin(std::max(cap_bytes, device_bytes), *band);
}

std::string memory_band_text(const ErrorBand& band) {
  return fmt::format("predicted peaks were off by up to {:.0f} % in four of five of {} ({})",
                     band.fraction * 100, plural(band.rows, "row"), fmt::join(band.sets, ", "));
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
