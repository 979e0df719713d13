#include "sim/calibrate/calibration_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>

#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::size_t max_named = 4;

// One time of a layer, with the variation of its samples.
struct LayerTime {
  std::size_t layer = 0;
  std::int64_t ns = 0;
  std::int64_t spread_ns = 0;
};

std::int64_t median_of(const std::vector<LayerTime>& times, std::int64_t LayerTime::*field) {
  std::vector<std::int64_t> values;
  for (const LayerTime& time : times) values.push_back(time.*field);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// "block 3" without its number.
std::string kind_of(const std::string& name) {
  std::string kind = name;
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  return kind;
}

void add_odd_layers(const CostsFile& costs, std::vector<std::string>& doubts) {
  using Entry = Provenance::Entry;
  struct Field {
    std::string_view name;
    std::int64_t StageCosts::*time;
    std::optional<Spread> Entry::*spread;
  };
  const Field fields[] = {{"F", &StageCosts::forward_ns, &Entry::forward},
                          {"I", &StageCosts::backward_input_ns, &Entry::backward_input},
                          {"W", &StageCosts::backward_weight_ns, &Entry::backward_weight}};
  const std::vector<Entry>& entries = costs.calibration->entries;
  std::vector<std::string> odd;
  for (const Field& field : fields) {
    std::map<std::string, std::vector<LayerTime>> kinds;
    for (std::size_t i = 0; i < costs.layers.size(); ++i) {
      const std::optional<Spread>& spread = entries[i].*field.spread;
      if (!spread) continue;
      kinds[kind_of(entries[i].name)].push_back(
          {i, costs.layers[i].*field.time, spread->p90_ns - spread->p10_ns});
    }
    for (const auto& [kind, times] : kinds) {
      if (times.size() < 3) continue;  // with two it is unclear which one is odd
      const std::int64_t usual_ns = median_of(times, &LayerTime::ns);
      const std::int64_t spread_ns = median_of(times, &LayerTime::spread_ns);
      for (const LayerTime& time : times) {
        if (std::abs(time.ns - usual_ns) <= std::max(time.spread_ns, spread_ns)) continue;
        odd.push_back(fmt::format("{} of {} takes {}, others like it {}", field.name,
                                  printable(entries[time.layer].name), format_time(time.ns),
                                  format_time(usual_ns)));
      }
    }
  }
  if (odd.empty()) return;
  std::string all;
  for (std::size_t i = 0; i < std::min(odd.size(), max_named); ++i) {
    all += (i == 0 ? "" : "; ") + odd[i];
  }
  if (odd.size() > max_named) all += fmt::format("; and {} more", odd.size() - max_named);
  doubts.push_back(all +
                   "; that is more than they vary: a rank was slower or disturbed, so record "
                   "more iterations, or look at its processor");
}

}  // namespace

std::vector<std::string> doubts_about(const CostsFile& costs, std::span<const RecordedRun> runs) {
  std::vector<std::string> doubts;
  for (const RecordedRun& run : runs) {
    const double taken = preempted_fraction({run.spans.data(), run.spans.size()});
    if (taken < disturbed) continue;
    doubts.push_back(fmt::format(
        "{}: other processes used the processors for {} of the ranks' compute time; the "
        "layers' times exclude that, but messages may have waited: record again with "
        "nothing else running, and a processor for each rank",
        run.name, format_percent(taken)));
  }
  add_odd_layers(costs, doubts);
  return doubts;
}

}  // namespace pipesim
