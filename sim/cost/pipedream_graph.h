// A graph.txt of PipeDream's profiler (github.com/msr-fiddle/pipedream) as
// costs by layer.
//
// One line per node, then one per edge, from a node to one that uses its output:
//
//   node4 -- Linear(8, 8) -- forward_compute_time=0.539,
//     backward_compute_time=0.188, activation_size=1024.0,
//     parameter_size=256.000 -- stage_id=0        (on one line)
//   <tab>node4 -- node5
//
// Times are milliseconds of one microbatch, sizes bytes; `activation_size` is the node's output,
// for a tuple a list such as [1024.0; 64.0]. stage_id, which PipeDream's optimizer adds, may be
// missing and is not used. An edge that is listed twice counts once. Pure; any thread may call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/costs.h"

namespace pipesim {

struct PipedreamGraph {
  struct Node {
    int number = 0;
    std::string description;  // as in the file

    bool operator==(const Node&) const = default;
  };

  // In order of execution: each after all whose output it uses, the smallest number first; one per
  // entry of `costs.layers`.
  std::vector<Node> layers;
  // Sources described as Input, or Input with a number: the source of the data, on whichever stage
  // needs it. They are not layers, as in PipeDream's optimizer.
  std::vector<Node> inputs;
  // Layer l has its two times, the backward split; as `activation_bytes` its output; as
  // `weight_bytes` and `gradient_bytes` its parameters; as `output_bytes` what a cut after l
  // carries: each tensor produced up to l and used after it, once. A tensor is carried over every
  // cut up to its last use. `__getitem__(k)` uses tensor k of a tuple, everything else all of them.
  CostsFile costs;
};

// `optimizer_multiple`: bytes of optimizer state per byte of parameters, such as 2 for Adam in the
// parameters' precision; 0 or more. Refuses a file that is not such a graph, a graph with a cycle,
// and costs that one stage of all layers could not have. `file` names the source in errors.
PipedreamGraph parse_pipedream_graph(std::string_view text, const std::string& file,
                                     std::int64_t optimizer_multiple = 0);
PipedreamGraph read_pipedream_graph(const std::string& path, std::int64_t optimizer_multiple = 0);

}  // namespace pipesim
