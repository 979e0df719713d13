// The cost of each action of an input pipeline, on each rank: given in a file, calibrated from a
// run, or computed from a model on a cluster (input_estimate.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/input_run.h"

namespace pipesim {

// A link that transfers share max-min fairly.
struct InputLink {
  std::string name;
  std::int64_t bytes_per_second = 0;  // positive

  bool operator==(const InputLink&) const = default;
};

// Of one kind on one rank. The bytes of an action cross its links, all at once, at the rate of the
// most contended; after the last byte it takes `duration_ns` more.
struct InputWork {
  std::int64_t duration_ns = 0;
  std::int64_t bytes = 0;
  std::vector<std::uint32_t>
      links;  // indices in InputCosts::links, each once; without any, bytes take no time
  std::int64_t host_ns = 0;  // the host's time to call it; 0 for the host's own kinds

  bool operator==(const InputWork&) const = default;
};

// Bytes that a rank holds.
struct InputHoldings {
  InputMemory always;            // tables, optimizer, dense; `batches` and `buffers` are 0
  std::int64_t batch_bytes = 0;  // of a batch, from the start of COPY to the end of UPDATE and
                                 // BOTTOM_BACKWARD
  std::int64_t ids_bytes = 0;    // of received ids, from the start of IDS to the end of UPDATE
  // Of pooled rows, sent and received, from the start of LOOKUP to the end of UPDATE.
  std::int64_t pooled_bytes = 0;
  // Of the dense part, from the start of BOTTOM to the end of BOTTOM_BACKWARD.
  std::int64_t activation_bytes = 0;

  bool operator==(const InputHoldings&) const = default;
};

struct InputCosts {
  std::vector<InputLink> links;
  std::vector<std::array<InputWork, kind_count>> work;  // by rank
  std::vector<InputHoldings> holdings;                  // by rank; empty if unknown
  std::int64_t batch_size = 0;                          // samples per rank; 0 if unknown

  int ranks() const { return static_cast<int>(work.size()); }
  const InputWork& of(int rank, Kind kind) const {
    return work[static_cast<std::size_t>(rank)][static_cast<std::size_t>(kind)];
  }
  InputWork& of(int rank, Kind kind) {
    return work[static_cast<std::size_t>(rank)][static_cast<std::size_t>(kind)];
  }
  bool operator==(const InputCosts&) const = default;
};

// `pipesim-costs` of an input pipeline, in traces/FORMAT.md. Read strictly.
InputCosts parse_input_costs(std::string_view text, const std::string& file);
InputCosts read_input_costs(const std::string& path);
// Values that are the same on all ranks are written once.
std::string to_json(const InputCosts& costs, int indent = -1);

// Throws an input error if costs are for other ranks than the program, or so large that sums over
// all calls overflow 64 bits.
void check_costs(const InputProgram& program, const InputCosts& costs);

// Each rank's memory at its fullest instant: the first one at which batches and buffers together
// are largest. `costs` must have holdings for all ranks.
std::vector<InputMemory> memory_of(const InputRun& run, const InputCosts& costs);

}  // namespace pipesim
