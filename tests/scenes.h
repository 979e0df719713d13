// What tests of scenes have in common: bars of lanes, and a pair to look at.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gui/scene/scene.h"
#include "tests/documents.h"

namespace pipesim::gui {

inline void PrintTo(const Bar& bar, std::ostream* out) {
  *out << bar.start_ns << ".." << bar.end_ns << " ref " << bar.ref << " shade "
       << static_cast<int>(bar.shade);
}

namespace testing {

inline std::vector<Bar> bars_of(const BarRow& row) {
  std::vector<Bar> bars;
  for (std::size_t i = 0; i < row.size(); ++i) bars.push_back(row[i]);
  return bars;
}

inline std::vector<Bar> bars_of(const Lane& lane) {
  std::vector<Bar> bars;
  for (const BarRow& row : lane.rows) {
    const auto own = bars_of(row);
    bars.insert(bars.end(), own.begin(), own.end());
  }
  return bars;
}

inline const Lane* lane_of(const Scene& scene, int rank, int trace,
                           LaneKind kind = LaneKind::work) {
  for (const Lane& lane : scene.groups.at(static_cast<std::size_t>(rank)).lanes) {
    if (lane.trace == trace && lane.kind == kind) return &lane;
  }
  return nullptr;
}

inline const RecordedRun& run_of(const Document& document, int trace) {
  return *document.traces.at(static_cast<std::size_t>(trace))->run;
}

inline Document perturbed_document(const std::string& family = "1f1b") {
  auto [predicted, measured] = perturbed(family);
  return document_of(std::move(predicted), std::move(measured));
}

}  // namespace testing
}  // namespace pipesim::gui
