// The playground: a few numbers become a predicted run at once.
// The only part of the viewer that evaluates schedules. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/scene/document.h"
#include "gui/scene/scene.h"

namespace pipesim::gui {

// The largest values of fields.
inline constexpr int largest_stages = 64;
inline constexpr int largest_chunks = 8;
inline constexpr int largest_microbatches = 4096;

struct Settings {
  std::string schedule = "1f1b";
  int stages = 4;
  int virtual_stages = 1;
  int microbatches = 8;
  std::int64_t forward_ns = 1'000'000;
  std::int64_t input_ns = 1'000'000;
  std::int64_t weight_ns = 1'000'000;
  std::int64_t latency_ns = 0;
  std::int64_t activation_bytes = 0;             // per chunk and microbatch
  std::optional<std::int64_t> memory_cap_bytes;  // per rank
  // A slow virtual stage, in percent of the others' times.
  std::optional<int> slow_stage;
  int slow_percent = 100;

  bool operator==(const Settings&) const = default;
};

// The panel's choices, and those a family allows.
struct Offer {
  std::string name, title, summary;
  bool takes_chunks = false;
  int default_chunks = 1;
};
std::vector<Offer> offers();

// Settings to learn from, with a hint at what to look at.
struct Lesson {
  std::string name, text;
  Settings settings;
};
std::vector<Lesson> lessons();

// A played schedule: pipesim's prediction, as read from its trace.
struct Outcome {
  std::shared_ptr<const OpenTrace> trace;  // null if there is an `objection`
  std::string objection;                   // one sentence; everything else is empty then
  std::string verdict;                     // "1F1B, 4 stages, ...: 33.00 ms, of which 27 % bubble"
  std::string bubble;                      // "27.3 %"; also the span's, if the formula is for that
  std::string formula;   // "(p-1)(F+B) = 9.00 ms, 27.3 %: exact here", or why there is none
  std::string messages;  // between ranks: "48 per iteration, 6 per microbatch, 300 us each"
  std::string memory;    // "at most 4 microbatches on rank 0, 4.0 GiB; fits into 8.0 GiB"
};
// Never throws because of the settings' values; limited to as many results as 64 stages x 4,096
// microbatches have.
Outcome play(const Settings& settings);

// One microbatch on its way through the pipeline, action by action.
struct Step {
  Pick action;
  // What it waited for: the producer of its input, the RECV of that, and its rank's previous
  // action; and the last of these to end, its rank's at a tie.
  std::vector<Pick> needs;
  std::optional<Pick> decided_by;  // nothing if it waited for nothing
  // "2F3 starts at 5.00 ms, when 2F2 ends; the result of 1F3 was there at 4.00 ms"
  std::string text;
};
// Each F, B, I and W of the microbatch in the median iteration, in the order of time; empty if the
// trace has no such microbatch.
std::vector<Step> steps_of(const OpenTrace& trace, int trace_index, int microbatch);

}  // namespace pipesim::gui
