// Timelines as a Chrome trace, which Perfetto, chrome://tracing and pipeview
// open. The layout of the file is fixed in FORMAT.md.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/base/files.h"
#include "traces/mesh.h"
#include "traces/recorded_run.h"

namespace pipesim {

// What the writer of a measured trace must know before the first iteration.
struct MeasuredRun {
  std::vector<std::string> layers;  // their names
  // The largest value of each category in any sample of the run: a category that no rank
  // ever has is omitted.
  StateBytes largest_states;
  WorkingBytes largest_working;
};

// Writes a trace iteration by iteration and holds no more than one. The bytes
// depend on the arguments alone. One owner, one thread.
class ChromeTraceWriter {
 public:
  // Writes to `file`, which must outlive the writer and is not committed.
  // `metadata_json` is a JSON object that says what made the trace; it is written
  // under metadata.pipesim. Predicted traces have no MeasuredRun. If the mesh has several
  // pipelines, replicas or tensor-parallel ranks, processes are numbered like its ranks.
  ChromeTraceWriter(const TimelineFrame& frame, std::string_view metadata_json, OutputFile& file,
                    std::optional<MeasuredRun> measured = std::nullopt, const Mesh& mesh = Mesh());
  ~ChromeTraceWriter();

  // Call for one iteration after the other, or for several at once. Spans must
  // be sorted by (start, rank), with the two of an OVERLAP_F_B next to each other and no
  // transfer joined; on no rank may any start before one of an earlier call. The memory
  // counters come from the spans if the run is predicted, from the samples if it
  // is measured. Each pipeline, from 0, in the order of their first ranks, has its own call per
  // iteration. Layers, samples and exchanges come in any order, those of one rank and instant as
  // they happened.
  void add(std::span<const Span> spans, std::span<const LayerSpan> layers = {},
           std::span<const MemorySample> samples = {}, int pipeline = 0,
           std::span<const ExchangeSpan> exchanges = {});

  // Once, after the last iteration.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The whole of it for a predicted run.
void write_chrome_trace(const RecordedRun& run, OutputFile& file);

}  // namespace pipesim
