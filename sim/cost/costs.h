// What each chunk of work takes: a table (virtual stage x kind -> time,
// bytes), the links between ranks, what replicas exchange, and per-rank closing
// work.
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

// An exchange of a stage with its replicas, such as an all-gather of its weights:
// what one rank has of it. None where no bytes cross its links.
struct CollectiveCosts {
  static constexpr std::int64_t max_parts = 10'000;

  std::int64_t latency_ns = 0;  // of all its steps, beside the bytes
  std::int64_t bytes = 0;       // that cross the rank's links, of d replicas on a ring
                                // (d - 1) / d of what is gathered
  std::int64_t parts = 1;       // it comes in: layers, or buckets
  // Parts go side by side, and share the rank's links; else one after the other.
  bool side_by_side = false;
  // Of a REDUCE_GRAD: what makes gradients of the stage next waits for its end.
  bool holds_gradients = false;
  // Up to which of `bytes` each part reaches, in the order in which they go; empty: they are
  // equal.
  std::vector<std::int64_t> part_ends = {};

  bool exists() const { return bytes > 0; }
  std::int64_t bytes_of(std::int64_t part) const;
  // Once how much of a time is over in which its bytes come to be, in whole nanoseconds, those
  // of so many parts are there.
  std::int64_t lead_ns(std::int64_t time_ns, std::int64_t first_parts) const;
  // What a stage of layers exchanges, in the parts of each.
  CollectiveCosts& operator+=(const CollectiveCosts& other) {
    if (!other.exists()) return *this;
    parts = exists() ? parts + other.parts : other.parts;
    latency_ns += other.latency_ns;
    bytes += other.bytes;
    return *this;
  }
  bool operator==(const CollectiveCosts&) const = default;
};

// Of one virtual stage, one microbatch.
struct StageCosts {
  std::int64_t forward_ns = 0;
  std::int64_t backward_input_ns = 0;
  std::int64_t backward_weight_ns = 0;
  // Compute that messages to and from other ranks take beside: of an F, and of an I or B.
  std::int64_t forward_messages_ns = 0;
  std::int64_t backward_messages_ns = 0;
  // An OVERLAP_F_B whose forward this stage does, messages included; default F + the
  // backward.
  std::optional<std::int64_t> overlap_ns;
  std::int64_t activation_bytes = 0;
  std::int64_t weight_residue_bytes = 0;
  std::int64_t weight_bytes = 0;
  std::int64_t gradient_bytes = 0;
  std::int64_t optimizer_bytes = 0;
  std::int64_t output_bytes = 0;  // sent forward; the gradient of it comes back
  // Where its weights are sharded over replicas: an UNSHARD, and what they take
  // while they are gathered, beside weight_bytes.
  CollectiveCosts unshard;
  std::int64_t unsharded_bytes = 0;
  // What a B or an I takes beside while it runs; of layers, the most of any.
  std::int64_t workspace_bytes = 0;
  CollectiveCosts reduce;  // a REDUCE_GRAD
  // Of each of its layers, on one device; empty: nobody says. Of a layer, or of a stage that
  // tells of no layers, one number.
  std::vector<std::int64_t> parameters;
  // Closing work for what it holds; only of layers, whose ranks it adds up to.
  std::int64_t optimizer_ns = 0;
  std::int64_t reduce_gradients_ns = 0;

  // What an F, I, W or B takes, messages included.
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

// Where nobody says otherwise: F = I = W = 1 ms, no bytes.
StageCosts usual_stage_costs();

// The way from one rank to another: a link of its own, and links that it has
// in common with other ways, such as the network card of two ranks.
struct Link {
  std::int64_t latency_ns = 0;
  std::optional<std::int64_t> bytes_per_second;  // of its own; unlimited where absent
  std::vector<int> through = {};                 // indices in Costs::shared_links

  bool operator==(const Link&) const = default;
};

// A blocking collective: from when the last rank of its group has come.
struct GroupCosts {
  std::int64_t latency_ns = 0;                        // of all its steps, beside the bytes
  std::int64_t bytes = 0;                             // that cross each rank's link
  std::optional<std::int64_t> bytes_per_second = {};  // of that link; unlimited where absent
  std::vector<int> through = {};                      // links that the ranks have in common
                                                      // with other traffic, as a Link has them

  Link link() const { return {latency_ns, bytes_per_second, through}; }
  bool operator==(const GroupCosts&) const = default;
};

// What an exchange takes in which each replica sends every other one its part directly: by
// that, what replicas exchange follows for any number of them, whatever they split.
struct ReplicaCosts {
  std::int64_t latency_ns = 0;                        // of each of its steps, behind its bytes
  std::optional<std::int64_t> bytes_per_second = {};  // that a rank sends; unlimited where absent
  std::int64_t weight_bytes = 4;                      // of a parameter that is gathered

  bool takes_time() const { return latency_ns > 0 || bytes_per_second; }
  bool operator==(const ReplicaCosts&) const = default;
};

struct SharedLink {
  std::string name;
  std::int64_t bytes_per_second = 0;

  bool operator==(const SharedLink&) const = default;
};

// What the `index`-th of `count` has of a whole, such as a REDUCE_GRAD of its
// rank's reduction time: an equal share, the last one what the division left, too.
constexpr std::int64_t share_of(std::int64_t total, std::int64_t count, std::int64_t index) {
  return total / count + (index + 1 == count ? total % count : 0);
}

// How often a stage may be gathered, or reduced, in an iteration: once an action
// of each of its microbatches.
constexpr std::int64_t most_collectives(std::int64_t microbatches) { return 3 * microbatches; }

// Whether any stage sends bytes to another rank.
bool exchanges_bytes(const std::vector<StageFootprint>& footprints);

struct Costs {
  // One a virtual stage; where stages have second copies that differ, those follow.
  std::vector<StageCosts> stages;
  Link p2p;
  std::map<std::pair<int, int>, Link> edges;  // (from rank, to rank): overrides p2p
  std::vector<SharedLink> shared_links;
  // By how much a rank's compute takes longer while a transfer to or from it
  // is under way, in millionths.
  std::int64_t compute_slowdown_ppm = 0;
  std::int64_t reserved_bytes = 0;                // of each rank's memory, whatever it holds
  std::vector<std::int64_t> optimizer_ns;         // one per rank, or empty: none
  std::vector<std::int64_t> reduce_gradients_ns;  // one per rank, or empty: none
  // What REDUCE_TIED and GRAD_NORM take; where absent, nothing is exchanged.
  std::optional<GroupCosts> tied_gradients, gradient_norm;
  // The way from each rank to its replicas, which adds no latency; or empty: unlimited.
  std::vector<Link> collective_links;
  // By which exchanges with replicas follow; then stages have `parameters`, bytes are those of
  // states that are not split, and closing work is that on all of them.
  std::optional<ReplicaCosts> replicas;
  // What saving takes, where it is known; a program has SAVEs only where that is asked for.
  // Without bytes they follow from the states of ranks, see fill_save_bytes().
  std::optional<SaveCosts> save;

  const StageCosts& of(int stage, int copy, const Placement& placement) const {
    const bool has_own = copy > 0 && static_cast<int>(stages.size()) > placement.stages();
    return stages[static_cast<std::size_t>(has_own ? placement.stages() + stage : stage)];
  }
  const Link& link(int from_rank, int to_rank) const;
  Link collective_link(int rank) const;
  // The time that a transfer of `bytes` occupies its narrowest link when it is
  // alone: ceil(bytes x 1e9 / rate), 0 where all are unlimited.
  std::int64_t occupied_ns(const Link& link, std::int64_t bytes) const;
  const std::optional<GroupCosts>& group_costs(Kind blocking_collective) const {
    return blocking_collective == Kind::REDUCE_TIED ? tied_gradients : gradient_norm;
  }
  // How long a blocking collective takes that meets no other traffic; nothing where nobody else
  // is in its group.
  std::int64_t group_ns(Kind blocking_collective, const Placement& placement) const;
  // What each stage keeps alive and exchanges, and what each rank holds.
  std::vector<StageFootprint> footprints(const Placement& placement) const;
  std::vector<StateBytes> states(const Placement& placement) const;

  // Refuses costs that don't fit a placement (their number of stages or
  // ranks), an F or I that its messages make longer than a time may be, and those whose sums could
  // leave int64 over so many iterations of `microbatches`. `where` names their source in errors.
  void check(const Placement& placement, int microbatches, std::string_view where,
             int iterations = 1) const;
};

// Where `save` does not say what ranks write: of each parameter of its stages 12 bytes, the
// weight and both moments of AdamW as 32-bit numbers, or, where parameters are not known, the
// bytes of weights and optimizer. So many replicas write a part each, and each of the
// tensor-parallel ranks its own. `parameters`: of each stage, on one device; or empty: those of
// the costs.
void fill_save_bytes(const Placement& placement, const std::vector<std::int64_t>& parameters,
                     int replicas, int tensor_parallel, Costs& costs);

// A costs.json: `stages`, or `layers` summed by a layout.
struct CostsFile {
  Costs costs;                     // stages filled where the file gives them
  std::vector<StageCosts> layers;  // or one entry a layer; overlap_ns is of stages
  // Closing work that is the same on every rank.
  std::optional<std::int64_t> optimizer_ns;
  std::optional<std::int64_t> reduce_gradients_ns;
  std::optional<Link> collective_link;     // the same of every rank
  std::optional<std::int64_t> save_bytes;  // likewise
  // Compute that a message costs the rank that receives it.
  std::int64_t receive_ns = 0;
  std::optional<Provenance> calibration;
  std::string name;

  // The costs for a placement; `layout` only where the file gives layers. What
  // receiving takes is added to the messages of each F, I or B whose input another rank sends.
  Costs resolve(const Placement& placement, const std::optional<std::vector<int>>& layout) const;
};

CostsFile parse_costs(std::string_view text, const std::string& file);
CostsFile read_costs(const std::string& path);

// The costs as a costs.json of one line, readable again by parse_costs.
std::string to_json(const Costs& costs);
// A file as it is, on several lines, layers and calibration included.
std::string to_json(const CostsFile& file);

}  // namespace pipesim
