// The schedule families: one generator a family, found by name.
//
// A family is a pure function from a shape and a rank to that rank's compute
// actions, with what is known of it on paper. Definitions and sources:
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

// What a generator needs to know.
struct Shape {
  int ranks = 1;         // p
  int chunks = 1;        // v, virtual stages a rank
  int microbatches = 1;  // m
  int group = 1;         // g, microbatches an interleaved group
  Placement placement;
  // Of each rank, its place in the order of the ranks' first stages: the rank
  // itself in a loop. Orders start by it, not by the rank's number.
  std::vector<int> position;

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

struct Family {
  std::string_view name;        // as in --schedule
  std::string_view title;       // as in a sentence
  std::string_view summary;     // one line
  std::string_view bubble;      // closed form, for people
  std::string_view conditions;  // when it holds, beside alike stages and hops
  std::string_view peak;        // peak chunk-activations of rank r, for people
  int default_chunks = 1;
  bool many_chunks = false;      // takes more than one chunk a rank
  bool takes_group = false;      // --group means something
  bool splits_backward = false;  // I and W instead of B
  // Appends a rank's actions to the list that is open.
  void (*actions)(const Shape&, int rank, ActionLists& out) = nullptr;
  // The closed form where its conditions hold, for a loop placement.
  std::optional<ClosedForm> (*closed_form)(const Shape&, const UniformTimes&) = nullptr;
  // Where its stages live; null: on a loop of ranks, or where the request has them.
  Placement (*placement)(int ranks, int chunks, int microbatches) = nullptr;
  // Why this shape is outside the family's definition, or empty.
  std::string (*objection)(const Shape&) = nullptr;
};

const std::vector<Family>& all_families();
// The family, or an input error that lists the known names, nearest first.
const Family& family(std::string_view name);

struct ScheduleRequest {
  std::string name;
  int ranks = 1;
  int microbatches = 1;
  std::optional<int> chunks = {};             // default: the family's
  std::optional<int> group = {};              // default: ranks
  std::optional<std::string> placement = {};  // default: loop
};

// Resolves defaults; an input error says what a family does not take.
Shape resolve_shape(const Family& family, const ScheduleRequest& request);
Schedule generate(const Family& family, const Shape& shape);
// All of it: the family by its name, the shape, the schedule.
Schedule generate(const ScheduleRequest& request);

}  // namespace pipesim
