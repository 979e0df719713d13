// Where costs come from, if from recorded runs: how many samples stand behind
// each time and how they spread. No time of a prediction depends on it; its spread does.
//
// The member `calibration` of a costs.json (FORMAT.md). Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipesim {

// Of the samples of one time.
struct Spread {
  std::int64_t samples = 0;
  std::int64_t p10_ns = 0;
  std::int64_t p90_ns = 0;

  bool operator==(const Spread&) const = default;
};

struct Provenance {
  // One of the file's stages or layers. A time without samples was not
  // measured, or, of B, in two parts.
  struct Entry {
    std::string name;  // "block 3", "stage 2"
    std::optional<Spread> forward, backward_input, backward_weight, backward;

    bool operator==(const Entry&) const = default;
  };

  std::vector<std::string> from;  // the names of files
  std::vector<Entry> entries;
  std::optional<Spread> transfers;
  std::optional<Spread> replicas;  // of collectives with them, from their start
  // What F, I, W and B of all stages took, over what is typical of their stage and kind: quantiles
  // at equal distances from the least to the largest, in millionths. Empty where they are few.
  std::vector<std::int64_t> variation_ppm;
  std::vector<std::string> notes;  // what could not be told, and why

  bool operator==(const Provenance&) const = default;
};

}  // namespace pipesim
