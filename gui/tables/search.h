// Finds bars and groups by text.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gui/scene/document.h"
#include "gui/scene/scene.h"

namespace pipesim::gui {

struct Found {
  std::vector<Pick> picks;  // in the order of time, of each trace
  std::size_t all = 0;      // how many there are, with those left out
  std::string text;         // "12 actions: stage 2, B, microbatches 0 to 7" or why nothing is found
};

// "2F0": that action in all iterations of all runs; "2F", "F0" (any stage), "mb 3",
// "stage 2", "rank 1", "bubble", "late" (the latest operations first), a kind's name; else text
// that names of slices hold. Letters of either case.
Found search(const Document& document, const Scene& scene, const std::string& text,
             std::size_t most = 10'000);

}  // namespace pipesim::gui
