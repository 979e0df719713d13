// Histograms of action durations, by colour.
//
// Plain values. Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gui/scene/document.h"
#include "gui/scene/scene.h"
#include "gui/scene/view.h"

namespace pipesim::gui {

struct Histogram {
  struct Bin {
    std::array<std::int64_t, shade_count> counts{};  // by what shades mean under Colouring::kind
    std::vector<Pick> about;                         // not all of very many

    std::int64_t count() const;
  };
  struct Run {
    std::string name;  // empty where there is one
    std::vector<Bin> bins;
  };

  std::string title;  // "Durations: B of stage 2"
  std::vector<Run> runs;
  // Bin i of every run is of lengths from edge i to edge i + 1, that one excluded. Ascending.
  std::vector<std::int64_t> edges_ns;
  bool logarithmic = false;  // where lengths span more than a factor of 100

  bool empty() const { return edges_ns.empty(); }
  std::size_t bins() const { return edges_ns.empty() ? 0 : edges_ns.size() - 1; }
  std::int64_t count() const;
  std::int64_t most() const;  // that any bin holds
};

inline constexpr std::size_t max_bins = 40;

// Of the actions and slices in the selected area, whole ones; idle time is none. Empty without an
// area.
Histogram area_histogram(const Document& document, const Scene& scene, const View& view);
// Of all that is like what is picked: in the same run, of the same stage and kind, in all
// iterations; of events of the same name, of input pipelines of all batches.
Histogram kind_histogram(const Document& document, const std::vector<Pick>& picks);

}  // namespace pipesim::gui
