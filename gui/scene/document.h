// What is open: traces as read, and a comparison of two of them.
//
// Immutable once made; shared between the window and background
// work; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/scene/bars.h"
#include "gui/scene/input_events.h"
#include "sim/compare/comparison.h"
#include "traces/read/event_trace.h"
#include "traces/read/profile_options.h"
#include "traces/recorded_run.h"

namespace pipesim::gui {

// One trace: a pipeline's run, or, where there is none in it, its events; of an input pipeline's
// run with what they are. Of a file of ours with replicas of a pipeline each is one.
struct OpenTrace {
  std::vector<std::string> paths;  // empty: made here, by the playground
  std::string name;                // for people, short
  std::optional<RecordedRun> run;
  std::optional<EventTrace> events;
  std::optional<OpenInput> input;
  std::string banner;  // what is odd about it, in sentences; or empty

  Source source() const;  // of the run; of other events measured
  const Warnings& warnings() const;
};

// A prediction and a measurement.
struct Pair {
  std::array<int, 2> trace{};  // by Side: places among the document's traces
  Comparison comparison;
  // By Side and operation: the span of the compared iteration, of a transfer its
  // SEND; no_ref where the run does not have it. And back: by Side and span from
  // the iteration's first on; a RECV is its SEND's operation.
  std::array<std::vector<Ref>, 2> span_of;
  std::array<std::vector<OperationId>, 2> operation_of;
  std::array<std::size_t, 2> first_span{};

  // For a span of one side; no_operation if it is of another iteration.
  OperationId find(Side side, Ref span) const;
};

struct Document {
  std::vector<std::shared_ptr<const OpenTrace>> traces;
  std::shared_ptr<const Pair> pair;            // null where there are no two runs to compare
  std::string not_compared;                    // why two runs are not; or empty
  std::vector<std::string> not_opened;         // of the files asked for last: what is wrong, each
  std::optional<std::int64_t> capacity_bytes;  // of a rank's memory, if the user gives it

  const OpenTrace& trace(int index) const { return *traces[static_cast<std::size_t>(index)]; }
  // Which side of the pair a trace is, if any.
  std::optional<Side> side_of(int trace) const;
  // The first of the replicas that a trace is one of; of others itself.
  int first_replica_of(int trace) const;
};

// The name of a side of the pair, by its source.
std::string name_of_side(const Document& document, Side side);
// The name of a run's lane or column: its side, else, for a replica next to its first, its
// number, else its name. Of an input pipeline's run its source, unless another such run has the
// same.
std::string name_of_run(const Document& document, int trace);

// Told how far the work is, from time to time, from any thread but by one at a
// time: 0 to 1, never less than before, and what is being done. Returns false to
// have it given up.
using Report = std::function<bool(double fraction, const std::string& what)>;

inline constexpr int max_replicas = 16;  // of a file that are shown

// Thrown where Report said to give up.
struct Cancelled {};

// Reads files, those of one profile together, and those of each folder for themselves, and compares
// the first prediction (else the first run) with the first run that is neither it nor a replica of
// it; where no run is of a pipeline, input pipelines' runs. All replicas of a file are opened,
// unless `profile` names one or there are more than `replicas`: then one. A profile that does not
// say which action is which is told by the first prediction's program. A file that can't be read as
// a run is shown as events where it has some, and its banner says why. What can't be shown at all
// is in not_opened; where that is everything, throws an input error; so it does where `profile`
// says something that does not fit.
Document open_traces(const std::vector<std::string>& paths, const Report& report = {},
                     const ProfileOptions& profile = {}, int replicas = max_replicas);
// The same with traces that are open already, in front; a pair stays.
Document add_traces(const Document& document, const std::vector<std::string>& paths,
                    const Report& report = {}, const ProfileOptions& profile = {},
                    int replicas = max_replicas);
// Of two that have runs of pipelines, or both of one input program.
Comparison compare_traces(const OpenTrace& predicted, const OpenTrace& measured);
// Compares two others of the open traces; not_compared says why they can't be.
Document compared(const Document& document, int predicted, int measured);
// Without one of the traces; where it was one of the pair, compares as open_traces() does.
Document without_trace(const Document& document, int trace);
// Compares as open_traces() does, where nothing is compared yet: for documents put
// together by hand.
Document paired(Document document);

// "2F0" or, where each rank has one stage, "F0"; of a slice its name.
std::string label_of(const OpenTrace& trace, Ref ref);

}  // namespace pipesim::gui
