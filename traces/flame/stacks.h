// Time by stacks: what a rank or a thread did when, with its enclosing frames.
//
// The input of flame graphs (flame_graph.h) and their files (stack_files.h), from any
// recording. Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/bubbles.h"
#include "traces/read/event_trace.h"
#include "traces/recorded_run.h"

namespace pipesim {

// The name of a flame graph's box, and its kind if known.
struct StackFrame {
  std::string name;
  std::optional<Kind> work;        // in a run: what a rank did
  std::optional<BubbleKind> idle;  // in a run: why it was idle
  bool slice = false;              // in events: a slice's name, not a process or thread

  auto operator<=>(const StackFrame&) const = default;
};

// A frame, an index into Stacks::frames, begins or ends.
struct StackEvent {
  std::int64_t at_ns = 0;
  std::uint32_t frame = 0;
  bool opens = false;
};

// One step of a rank, or one thread.
struct StackLine {
  std::vector<std::uint32_t> path;  // the frames enclosing all of it
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  // By time, within start and end; last opened, first closed, and all close.
  std::vector<StackEvent> events;
};

struct Stacks {
  std::vector<StackFrame> frames;  // each once
  std::vector<StackLine> lines;    // none without events
};

// Appends lines to stacks, each frame once.
class StackCollector {
 public:
  // Of each line that is complete; the stacks keep none then.
  using Use = std::function<void(const StackLine& line)>;
  explicit StackCollector(Use use = {}) : use_(std::move(use)) {}

  // `around`: a frame around all lines that follow; empty for none.
  void set_around(const std::string& around);

  // A line for each step and rank, over its makespan: `step 0;rank 1;stage 1;steady;F` for
  // work, `step 0;rank 1;idle;drain;transfer from stage 2` for idle
  // time; see METRICS.md, "Time by stacks". Of an input pipeline a line for each rank's compute
  // stream: `fused;rank 1;compute stream;rows;LOOKUP`, `fused;rank 1;waits;p2p;IDS`.
  void add(const RecordedRun& run);
  // A line for each thread that has a slice of some length: the slices' names below
  // `process;thread`. Each instant belongs to the slice that began last; a slice that outlasts the
  // one in which it began is not nested in it, and ends it.
  void add(const EventTrace& events);

  Stacks take() { return std::move(stacks_); }

 private:
  using Innermost = std::array<StackFrame, 3>;

  std::uint32_t frame_of(StackFrame frame);
  std::vector<std::uint32_t> path_of(std::string first, std::string second);
  // An interval with its frames, the outermost first.
  void put(StackLine& line, std::int64_t from_ns, std::int64_t to_ns, Innermost frames);
  void add_step(const RecordedRun& run, const RecordedIteration& step);
  void add_compute_stream(const InputRun& run, int rank);
  void end_line(StackLine line);

  Use use_;
  Stacks stacks_;
  std::map<StackFrame, std::uint32_t> places_;
  std::string around_;
};

// The slices of one track, as indices into the trace's, with a positive duration, except the mark
// that PyTorch's profiler lays over all others; by (start, longest first, row).
std::vector<std::uint32_t> slices_in_order(const EventTrace& events, std::size_t begin,
                                           std::size_t end);

// Given slices of one track in order, calls open(slice, at_ns) and
// close(slice, at_ns) by time, as in StackLine::events.
template <typename Open, typename Close>
void play_slices(const EventTrace& events, const std::vector<std::uint32_t>& order,
                 const Open& open, const Close& close) {
  // Ends never grow towards the innermost.
  std::vector<std::uint32_t> stack;
  const auto end_of_innermost = [&] { return events.slices[stack.back()].end_ns; };
  const auto close_innermost = [&](std::int64_t at_ns) {
    close(stack.back(), at_ns);
    stack.pop_back();
  };
  for (const std::uint32_t place : order) {
    const Slice& slice = events.slices[place];
    while (!stack.empty() && end_of_innermost() <= slice.start_ns) {
      close_innermost(end_of_innermost());
    }
    while (!stack.empty() && end_of_innermost() < slice.end_ns) close_innermost(slice.start_ns);
    open(place, slice.start_ns);
    stack.push_back(place);
  }
  while (!stack.empty()) close_innermost(end_of_innermost());
}

// Calls use(begin, end) with the indices of each track's slices.
template <typename Use>
void each_track(const EventTrace& events, const Use& use) {
  const std::size_t all = events.slices.size();
  for (std::size_t begin = 0; begin < all;) {
    std::size_t end = begin;
    while (end < all && events.slices[end].track == events.slices[begin].track) ++end;
    use(begin, end);
    begin = end;
  }
}

}  // namespace pipesim
