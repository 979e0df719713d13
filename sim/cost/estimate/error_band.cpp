#include "sim/cost/estimate/error_band.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/cost/hardware/hardware_json.h"
#include "sim/cost/hardware/presets.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t few_rows = 5;  // fewer say little on their own

// Of runs of one device and software.
struct ValidatedRuns {
  std::string device;
  std::string software;
  bool is_fp8 = false;
  ErrorBand band;
};

struct Validated {
  std::vector<ValidatedRuns> times, peaks;
  ErrorBand others;  // of software that is predicted by kernels, and none of these
};

ErrorBand read_band(JsonMembers& row) {
  ErrorBand band;
  band.fraction = row.required("fraction").number();
  band.rows = row.required("rows").integer(1, max_count);
  row.optional("sets", [&](const JsonCursor& sets) {
    for (const JsonCursor& set : sets.array()) band.sets.push_back(set.string());
  });
  return band;
}

Validated read_validated() {
  const std::string file = "validated.json";
  const JsonValue document = parse_json(validated_sets(), file);
  JsonMembers members{JsonCursor(document, file)};
  members.format("pipesim-validated", 2);
  Validated result;
  const auto read = [&](std::string_view list, std::vector<ValidatedRuns>& all) {
    for (const JsonCursor& item : members.required(list).array()) {
      JsonMembers row(item);
      all.push_back({row.required("device").string(), row.required("software").string(),
                     row.boolean_or("fp8", false), read_band(row)});
    }
  };
  read("sets", result.times);
  read("memory_sets", result.peaks);
  JsonMembers others(members.required("others"));
  result.others = read_band(others);
  return result;
}

// The widest of all runs that `is_alike` takes.
template <typename IsAlike>
std::optional<ErrorBand> widest(const std::vector<ValidatedRuns>& all, IsAlike is_alike) {
  std::optional<ErrorBand> band;
  for (const ValidatedRuns& one : all) {
    if (!is_alike(one)) continue;
    if (!band) band.emplace();
    band->fraction = std::max(band->fraction, one.band.fraction);
    band->rows += one.band.rows;
    for (const std::string& set : one.band.sets) {
      if (std::ranges::find(band->sets, set) == band->sets.end()) band->sets.push_back(set);
    }
  }
  return band;
}

bool has_evidence(const Model& model) {
  return !model.is_listed() && model.architecture != Architecture::mlp && model.experts <= 1;
}

}  // namespace

std::optional<ErrorBand> error_band(const Model& model, const Cluster& cluster,
                                    const Training& training) {
  if (!has_evidence(model)) return std::nullopt;
  if (cluster.error_band) return cluster.error_band;
  const Validated validated = read_validated();
  const SoftwareSpec& software = cluster.device.software;
  const auto is_usual = [&](const ValidatedRuns& one) {
    return !software.is_own && one.device == cluster.device.kind && one.software == software.name;
  };
  const bool is_fp8 = training.precision == Precision::fp8;
  const auto alike = widest(validated.times, [&](const ValidatedRuns& one) {
    return is_usual(one) && one.is_fp8 == is_fp8;
  });
  if (alike) return alike;
  auto others = widest(validated.times, is_usual);
  const bool is_known =
      std::ranges::count(validated.times, cluster.device.kind, &ValidatedRuns::device) > 0;
  if (!others && software.kernels && cluster.device.kernels && is_known) others = validated.others;
  if (!others) return std::nullopt;
  others->fraction = std::max(others->fraction, validated.others.fraction);
  others->is_of_others = true;
  return others;
}

std::optional<ErrorBand> error_band(const CostModel& model) {
  return error_band(model.model(), model.cluster(), model.training());
}

std::optional<ErrorBand> memory_error_band(const Model& model, const Cluster& cluster) {
  if (!has_evidence(model)) return std::nullopt;
  const Validated validated = read_validated();
  const auto is_device = [&](const ValidatedRuns& one) {
    return one.device == cluster.device.kind;
  };
  const SoftwareSpec& software = cluster.device.software;
  const auto alike = widest(validated.peaks, [&](const ValidatedRuns& one) {
    return is_device(one) && !software.is_own && one.software == software.name;
  });
  if (alike && alike->rows >= few_rows) return alike;
  const auto many = widest(validated.peaks, [&](const ValidatedRuns& one) {
    return is_device(one) && one.band.rows >= few_rows;
  });
  return many ? many : widest(validated.peaks, is_device);
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
                     band->is_of_others ? " of other runs" : "");
}

}  // namespace pipesim
