// Where costs come from, if from recorded runs: how many samples each time is based on, and their
// spread. A prediction's times do not depend on it; its spread does.
//
// The member `calibration` of a costs.json (FORMAT.md). Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipesim {

// The spread of the samples of one time.
struct Spread {
  std::int64_t samples = 0;
  std::int64_t p10_ns = 0;
  std::int64_t p90_ns = 0;

  bool operator==(const Spread&) const = default;
};

struct Provenance {
  // One of the file's stages or layers. A time without samples was not measured, or, for B,
  // measured in two parts.
  struct Entry {
    std::string name;  // "block 3", "stage 2"
    std::optional<Spread> forward, backward_input, backward_weight, backward;

    bool operator==(const Entry&) const = default;
  };

  std::vector<std::string> from;  // the names of files
  std::vector<Entry> entries;
  std::optional<Spread> transfers;
  std::optional<Spread> replicas;  // of collectives with them, from their start
  // The times of F, I, W and B of all stages, relative to the typical time of their stage and kind:
  // quantiles at equal distances from the least to the largest, in millionths. Empty if there are
  // few.
  std::vector<std::int64_t> variation_ppm;
  std::vector<std::string> notes;  // what could not be determined, and why

  bool operator==(const Provenance&) const = default;
};

}  // namespace pipesim
