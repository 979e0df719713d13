// The costs of a schedule's work: a table (virtual stage x kind -> time,
// bytes), the links between ranks, exchanges of replicas, and each rank's gradient
// reduction and optimizer step.
//
// Given on the command line or read from a costs.json (format: FORMAT.md);
// nothing downstream knows which. Times are per chunk, never divided. Plain
// values; reading is const and thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/cost/provenance.h"
#include "sim/cost/save_costs.h"
#include "sim/schedule/placement.h"
#include "traces/action.h"
#include "traces/memory.h"

namespace pipesim {

// One rank's part in an exchange of a stage with its replicas, such as an all-gather of
// its weights. None if no bytes cross its links.
struct CollectiveCosts {
  static constexpr std::int64_t max_parts = 10'000;

  std::int64_t latency_ns = 0;  // of all its steps, in addition to the bytes
  std::int64_t bytes = 0;       // that cross the rank's links: for d replicas on a ring
                                // (d - 1) / d of the gathered bytes
  std::int64_t parts = 1;       // the number of layers or buckets
  // Parts run concurrently, and share the rank's links; else one after the other.
  bool side_by_side = false;
  // For a REDUCE_GRAD: the stage's next gradients wait for its end.
  bool holds_gradients = false;
  // Where in `bytes` each part ends, in their order; empty: equal parts.
  std::vector<std::int64_t> part_ends = {};

  bool exists() const { return bytes > 0; }
  std::int64_t bytes_of(std::int64_t part) const;
  // How much of the time that produces its bytes has passed, in whole nanoseconds, when the
  // first parts are ready.
  std::int64_t lead_ns(std::int64_t time_ns, std::int64_t first_parts) const;
  // The exchange of a stage of layers, with the parts of each.
  CollectiveCosts& operator+=(const CollectiveCosts& other) {
    if (!other.exists()) return *this;
    parts = exists() ? parts + other.parts : other.parts;
    latency_ns += other.latency_ns;
    bytes += other.bytes;
    return *this;
  }
  bool operator==(const CollectiveCosts&) const = default;
};

// Costs per virtual stage and microbatch.
struct StageCosts {
  std::int64_t forward_ns = 0;
  std::int64_t backward_input_ns = 0;
  std::int64_t backward_weight_ns = 0;
  // Extra compute for messages to and from other ranks: per F, and per I or B.
  std::int64_t forward_messages_ns = 0;
  std::int64_t backward_messages_ns = 0;
  // An OVERLAP_F_B with this stage's forward, messages included; default F + the
  // backward.
  std::optional<std::int64_t> overlap_ns;
  std::int64_t activation_bytes = 0;
  std::int64_t weight_residue_bytes = 0;
  std::int64_t weight_bytes = 0;
  std::int64_t gradient_bytes = 0;
  std::int64_t optimizer_bytes = 0;
  std::int64_t output_bytes = 0;  // sent forward; its gradient comes back
  // If its weights are sharded over replicas: an UNSHARD, and the memory of the gathered
  // weights in addition to weight_bytes.
  CollectiveCosts unshard;
  std::int64_t unsharded_bytes = 0;
  // Extra memory while a B or an I runs; for layers, the maximum.
  std::int64_t workspace_bytes = 0;
  CollectiveCosts reduce;  // a REDUCE_GRAD
  // Per layer, on one device; empty: unknown. One number for a layer, or for a stage
  // without layers.
  std::vector<std::int64_t> parameters;
  // Reduction and optimizer time for its states; only for layers, summed by rank.
  std::int64_t optimizer_ns = 0;
  std::int64_t reduce_gradients_ns = 0;

  // The time of an F, I, W or B, messages included.
  std::int64_t duration_ns(Kind compute) const {
    switch (compute) {
      case Kind::F: return forward_ns + forward_messages_ns;
      case Kind::I: return backward_input_ns + backward_messages_ns;
      case Kind::W: return backward_weight_ns;
      default: return backward_ns() + backward_messages_ns;
    }
  }
  std::int64_t backward_ns() const { return backward_input_ns + backward_weight_ns; }
  std::int64_t messages_ns() const { return forward_messages_ns + backward_messages_ns; }
  // B = I + W, with I = B/2 rounded down.
  void split_backward(std::int64_t backward_ns) {
    backward_input_ns = backward_ns / 2;
    backward_weight_ns = backward_ns - backward_input_ns;
  }
  bool operator==(const StageCosts&) const = default;
};

// A chunk's part of what its rank takes: all alike, rounded down, and the last has the rest.
std::int64_t part_of_chunk(std::int64_t of_rank_ns, int chunk, int chunks);

// The default, a chunk's part of a rank's F = I = W = 1 ms; no bytes.
StageCosts usual_stage_costs(int chunk = 0, int chunks = 1);

// The route from one rank to another: its own link, and links shared
// with other routes, such as a network card of two ranks.
struct Link {
  std::int64_t latency_ns = 0;
  std::optional<std::int64_t> bytes_per_second;  // of its own link; unlimited if absent
  std::vector<int> through = {};                 // indices in Costs::shared_links

  bool operator==(const Link&) const = default;
};

// A blocking collective: it starts when the last rank of its group arrives.
struct GroupCosts {
  std::int64_t latency_ns = 0;                        // of all its steps, in addition to the bytes
  std::int64_t bytes = 0;                             // that cross each rank's link
  std::optional<std::int64_t> bytes_per_second = {};  // of that link; unlimited if absent
  std::vector<int> through = {};                      // links that the ranks share
                                                      // with other traffic, as in Link

  Link link() const { return {latency_ns, bytes_per_second, through}; }
  bool operator==(const GroupCosts&) const = default;
};

// The cost of an exchange in which each replica sends every other one its part directly. It
// gives the exchanges of any number of replicas, at any ZeRO stage.
struct ReplicaCosts {
  std::int64_t latency_ns = 0;                        // of each of its steps, after its bytes
  std::optional<std::int64_t> bytes_per_second = {};  // sent by a rank; unlimited if absent
  std::int64_t weight_bytes = 4;                      // per gathered parameter

  bool takes_time() const { return latency_ns > 0 || bytes_per_second; }
  bool operator==(const ReplicaCosts&) const = default;
};

struct SharedLink {
  std::string name;
  std::int64_t bytes_per_second = 0;

  bool operator==(const SharedLink&) const = default;
};

// The share of the `index`-th of `count` in a whole, such as a REDUCE_GRAD's of its
// rank's reduction time: equal shares, with the remainder added to the last.
constexpr std::int64_t share_of(std::int64_t total, std::int64_t count, std::int64_t index) {
  return total / count + (index + 1 == count ? total % count : 0);
}

// How often a stage may be gathered, or reduced, in an iteration: once per action
// of each of its microbatches.
constexpr std::int64_t max_collectives(std::int64_t microbatches) { return 3 * microbatches; }

// Whether any stage sends bytes to another rank.
bool exchanges_bytes(const std::vector<StageFootprint>& footprints);

struct Costs {
  // One per virtual stage, then those of second copies that differ.
  std::vector<StageCosts> stages;
  Link p2p;
  std::map<std::pair<int, int>, Link> edges;  // (from rank, to rank): overrides p2p
  std::vector<SharedLink> shared_links;
  // How much longer a rank's compute takes while a transfer to or from it
  // is in flight, in millionths.
  std::int64_t compute_slowdown_ppm = 0;
  std::int64_t reserved_bytes = 0;                // of each rank's memory, for any model
  std::vector<std::int64_t> optimizer_ns;         // one per rank, or empty: none
  std::vector<std::int64_t> reduce_gradients_ns;  // one per rank, or empty: none
  // Costs of REDUCE_TIED and GRAD_NORM; if absent, nothing is exchanged.
  std::optional<GroupCosts> tied_gradients, gradient_norm;
  // Each rank's route to its replicas, which adds no latency; empty: unlimited.
  std::vector<Link> collective_links;
  // Determines exchanges with replicas; stages then have `parameters`, and bytes, reduction and
  // optimizer times are those of unsharded states.
  std::optional<ReplicaCosts> replicas;
  // The cost of saving, if known; a program has SAVEs only on request.
  // Without bytes they follow from the states of ranks, see fill_save_bytes().
  std::optional<SaveCosts> save;

  const StageCosts& of(int stage, int copy, const Placement& placement) const {
    const bool has_own = copy > 0 && static_cast<int>(stages.size()) > placement.stages();
    return stages[static_cast<std::size_t>(has_own ? placement.stages() + stage : stage)];
  }
  const Link& link(int from_rank, int to_rank) const;
  Link collective_link(int rank) const;
  // The time for which a transfer of `bytes` alone occupies its narrowest link:
  // ceil(bytes x 1e9 / rate), 0 if all are unlimited.
  std::int64_t occupied_ns(const Link& link, std::int64_t bytes) const;
  const std::optional<GroupCosts>& group_costs(Kind blocking_collective) const {
    return blocking_collective == Kind::REDUCE_TIED ? tied_gradients : gradient_norm;
  }
  // The time of a blocking collective without other traffic; nothing if its group has only
  // one rank.
  std::int64_t group_ns(Kind blocking_collective, const Placement& placement) const;
  // What each stage keeps alive and exchanges, and each rank's static memory.
  std::vector<StageFootprint> footprints(const Placement& placement) const;
  std::vector<StateBytes> states(const Placement& placement) const;

  // Refuses costs that don't fit a placement (their number of stages or
  // ranks), an F or I whose messages make it exceed the largest time, and those whose sums could
  // overflow int64 over this many iterations of `microbatches`. `where` names their source in
  // errors.
  void check(const Placement& placement, int microbatches, std::string_view where,
             int iterations = 1) const;
};

// If `save` does not give the bytes of ranks: 12 bytes per parameter of a rank's stages, the
// weight and both moments of AdamW as 32-bit numbers, or, if parameters are not known, the
// bytes of weights and optimizer. Each of `replicas` writes a part, and each
// tensor-parallel rank its own. `parameters`: of each stage, on one device; or empty: those of
// the costs.
void fill_save_bytes(const Placement& placement, const std::vector<std::int64_t>& parameters,
                     int replicas, int tensor_parallel, Costs& costs);

// A costs.json: `stages`, or `layers` summed by a layout.
struct CostsFile {
  Costs costs;                     // stages filled if the file gives them
  std::vector<StageCosts> layers;  // or one entry per layer; overlap_ns is per stage
  // Reduction and optimizer times that are the same on every rank.
  std::optional<std::int64_t> optimizer_ns;
  std::optional<std::int64_t> reduce_gradients_ns;
  std::optional<Link> collective_link;     // the same for every rank
  std::optional<std::int64_t> save_bytes;  // likewise
  // Compute that a message costs its receiver.
  std::int64_t receive_ns = 0;
  std::optional<Provenance> calibration;
  std::string name;

  // The costs for a placement; `layout` only if the file gives layers. The cost of
  // receiving is added to each F, I or B whose input comes from another rank.
  Costs resolve(const Placement& placement, const std::optional<std::vector<int>>& layout) const;
};

CostsFile parse_costs(std::string_view text, const std::string& file);
CostsFile read_costs(const std::string& path);

// The costs as a costs.json of one line, readable again by parse_costs.
std::string to_json(const Costs& costs);
// The file itself, on several lines, with layers and calibration.
std::string to_json(const CostsFile& file);

}  // namespace pipesim
