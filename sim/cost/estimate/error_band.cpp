#include "sim/cost/estimate/error_band.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/cost/hardware/hardware_json.h"
#include "sim/cost/hardware/presets.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t few_rows = 5;  // fewer say little on their own

// How many of something runs had, at least and at most.
struct Counts {
  std::int64_t least = 1, most = max_count;

  bool have(std::int64_t count) const { return count >= least && count <= most; }
};

// Whose errors differ, as bench/validation/rows.py tells rows apart.
enum class RunPart : std::uint8_t { dense, context, experts };
constexpr std::pair<std::string_view, RunPart> run_part_names[] = {
    {"dense", RunPart::dense},
    {"context parallelism", RunPart::context},
    {"experts", RunPart::experts}};

RunPart part_of(const Model& model, const Training& training) {
  if (model.has_experts()) return RunPart::experts;
  return training.context_parallel > 1 ? RunPart::context : RunPart::dense;
}

// Of runs of one device and software.
struct ValidatedRuns {
  std::string device;
  std::string software;
  bool is_fp8 = false;
  RunPart part = RunPart::dense;
  Counts devices, context_parallel, experts;
  ErrorBand band;

  bool are_like(const Model& model, const Training& training) const {
    return is_fp8 == (training.precision == Precision::fp8) && part == part_of(model, training) &&
           devices.have(training.devices()) && context_parallel.have(training.context_parallel) &&
           experts.have(model.experts);
  }
};

struct Validated {
  std::vector<ValidatedRuns> times, peaks;
};

ErrorBand read_band(JsonMembers& row) {
  ErrorBand band;
  band.fraction = row.required("fraction").number();
  band.rows = row.required("rows").integer(1, max_count);
  row.optional("held", [&](const JsonCursor& held) { band.held = held.integer(0, max_count); });
  row.optional("sets", [&](const JsonCursor& sets) {
    for (const JsonCursor& set : sets.array()) band.sets.push_back(set.string());
  });
  return band;
}

RunPart read_run_part(const JsonCursor& name) {
  const auto* const part = std::ranges::find(run_part_names, name.string(),
                                             &std::pair<std::string_view, RunPart>::first);
  if (part == std::end(run_part_names)) name.fail("is no part of runs");
  return part->second;
}

Validated read_validated() {
  const std::string file = "validated.json";
  const JsonValue document = parse_json(validated_sets(), file);
  JsonMembers members{JsonCursor(document, file)};
  members.format("pipesim-validated", 3);
  Validated result;
  const auto read = [&](std::string_view list, std::vector<ValidatedRuns>& all) {
    for (const JsonCursor& item : members.required(list).array()) {
      JsonMembers row(item);
      ValidatedRuns& runs = all.emplace_back();
      runs.device = row.required("device").string();
      runs.software = row.required("software").string();
      runs.is_fp8 = row.boolean_or("fp8", false);
      row.optional("part", [&](const JsonCursor& name) { runs.part = read_run_part(name); });
      const auto read_counts = [&](std::string_view name, Counts& counts) {
        row.optional(name, [&](const JsonCursor& list) {
          const auto ends = list.array();
          counts = {ends[0].integer(1, max_count), ends[1].integer(1, max_count)};
        });
      };
      read_counts("devices", runs.devices);
      read_counts("context_parallel", runs.context_parallel);
      read_counts("experts", runs.experts);
      runs.band = read_band(row);
    }
  };
  read("sets", result.times);
  read("memory_sets", result.peaks);
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
    if (one.band.held) band->held = band->held.value_or(0) + *one.band.held;
    for (const std::string& set : one.band.sets) {
      if (std::ranges::find(band->sets, set) == band->sets.end()) band->sets.push_back(set);
    }
  }
  return band;
}

}  // namespace

std::optional<ErrorBand> error_band(const Model& model, const Cluster& cluster,
                                    const Training& training) {
  if (!model.is_decoder()) return std::nullopt;
  if (cluster.error_band) {
    return part_of(model, training) == RunPart::dense ? cluster.error_band : std::nullopt;
  }
  const Validated validated = read_validated();
  const SoftwareSpec& software = cluster.device.software;
  const bool is_fp8 = training.precision == Precision::fp8;
  const bool is_16_bits =
      training.precision == Precision::bf16 || training.precision == Precision::fp16;
  if (!is_fp8 && !is_16_bits) return std::nullopt;
  return widest(validated.times, [&](const ValidatedRuns& one) {
    return !software.is_own && one.device == cluster.device.preset &&
           one.software == software.name && one.are_like(model, training);
  });
}

std::optional<ErrorBand> error_band(const CostModel& model) {
  return error_band(model.model(), model.cluster(), model.training());
}

std::optional<ErrorBand> memory_error_band(const Model& model, const Cluster& cluster) {
  if (!model.is_decoder() || model.has_experts()) return std::nullopt;
  const Validated validated = read_validated();
  const auto is_device = [&](const ValidatedRuns& one) {
    return one.device == cluster.device.preset;
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

std::int64_t certain_bytes(std::int64_t cap_bytes, std::int64_t device_bytes,
                           const std::optional<ErrorBand>& band) {
  if (!band) return cap_bytes;
  const auto memory = static_cast<double>(std::max(cap_bytes, device_bytes));
  return std::min(cap_bytes, static_cast<std::int64_t>(memory / (1 + band->fraction)));
}

Fit fit_of(std::int64_t peak_bytes, std::int64_t cap_bytes, std::int64_t device_bytes,
           const std::optional<ErrorBand>& band) {
  if (peak_bytes <= certain_bytes(cap_bytes, device_bytes, band)) return Fit::fits;
  if (peak_bytes <= cap_bytes) return Fit::may_not_fit;
  if (!band || cap_bytes < device_bytes) return Fit::does_not_fit;
  const double least = static_cast<double>(peak_bytes) * (1 - band->fraction);
  return least <= static_cast<double>(cap_bytes) ? Fit::may_not_fit : Fit::does_not_fit;
}

std::string memory_band_text(const ErrorBand& band) {
  return fmt::format("four of five measured peaks are within that band, of {} ({})",
                     plural(band.rows, "row"), fmt::join(band.sets, ", "));
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
  if (!band) return fmt::format("{}, no measurement of such runs", what);
  std::string text = fmt::format("{}, validated on {}", what, plural(band->rows, "row"));
  if (band->held) text += fmt::format(", {} held", *band->held);
  return text;
}

}  // namespace pipesim
