// The schedule families: one generator per family, found by name.
//
// A family is a pure function from a shape and a rank to that rank's compute
// actions, with its published properties. Definitions and sources:
// families/*.cpp, one file each; add a line to family.cpp to add one.
// Everything here is immutable; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/schedule/schedule.h"

namespace pipesim {

// The input of a generator.
struct Shape {
  int ranks = 1;         // p
  int chunks = 1;        // v, virtual stages per rank
  int microbatches = 1;  // m
  int group = 1;         // g, microbatches an interleaved group
  Placement placement;
  // Each rank's place in the order of the ranks' first stages: the rank
  // itself in a loop. Orders start by it, not by the rank's number.
  std::vector<int> position;
  bool overlap_experts = false;  // one more forward before the first backward

  int place(int rank) const { return position[static_cast<std::size_t>(rank)]; }
  // The stage of a rank's chunk.
  int stage(int rank, int chunk) const {
    return placement.stages_of(rank)[static_cast<std::size_t>(chunk)];
  }
};

// Times of a chunk where all stages are alike, and of a hop between ranks.
struct UniformTimes {
  std::int64_t forward_ns = 0;
  std::int64_t input_ns = 0;
  std::int64_t weight_ns = 0;
  std::int64_t hop_ns = 0;

  std::int64_t backward_ns() const { return input_ns + weight_ns; }
};

enum class BubbleMetric { global, span };

// A bubble known on paper, under conditions that hold here.
struct ClosedForm {
  BubbleMetric metric;
  std::int64_t bubble_ns;  // of every rank (global), of the widest rank (span)
  std::string formula;     // "(p-1)(F+B)"
};

// The placement of stages with two copies, which --placement does not give.
inline constexpr std::string_view both_ways = "both-ways";

struct Family {
  std::string_view name;  // as in --schedule
  // Aliases. Names are case-insensitive.
  std::vector<std::string_view> aliases;
  std::string_view title;       // as in a sentence
  std::string_view summary;     // one line
  std::string_view bubble;      // closed form, as text
  std::string_view conditions;  // when it holds, besides uniform stages and hops
  std::string_view peak;        // peak chunk-activations of rank r, as text
  int default_chunks = 1;
  bool many_chunks = false;             // takes any number of chunks per rank, else default_chunks
  std::string_view placement = "loop";  // unless --placement says otherwise
  bool takes_group = false;             // --group means something, and --overlap-experts
  bool splits_backward = false;         // has I and W, instead of B or besides it
  int working_bytes = 0;                // extra bytes per action while the order is generated
  bool overlaps = false;                // has forwards and backwards that share a cell
  // Appends a rank's actions to the open list.
  void (*actions)(const Shape&, int rank, ActionLists& out) = nullptr;
  // Instead, where ranks' orders depend on each other: opens and writes all lists.
  void (*all_actions)(const Shape&, ActionLists& out) = nullptr;
  // The closed form where its conditions hold, for the placement above.
  std::optional<ClosedForm> (*closed_form)(const Shape&, const UniformTimes&) = nullptr;
  // Why this shape is outside the family's definition, or empty.
  std::string (*objection)(const Shape&) = nullptr;

  // Where stages are unless --placement says otherwise.
  Placement usual_placement(int ranks, int chunks, int microbatches) const;
};

const std::vector<Family>& all_families();
std::vector<std::string> schedule_names();
// The family that is called so, or an input error that lists their names, nearest first.
const Family& family(std::string_view name);

struct ScheduleRequest {
  std::string name;
  int ranks = 1;
  int microbatches = 1;
  std::optional<int> chunks = {};             // default: the family's
  std::optional<int> group = {};              // default: ranks
  std::optional<std::string> placement = {};  // default: the family's
  bool overlap_experts = false;
};

// Resolves defaults; an input error says what a family does not take.
Shape resolve_shape(const Family& family, const ScheduleRequest& request);
Schedule generate(const Family& family, const Shape& shape);
// All of it: the family by its name, the shape, the schedule.
Schedule generate(const ScheduleRequest& request);

}  // namespace pipesim
