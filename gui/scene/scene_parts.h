// The parts of a scene; for scene.cpp.
#pragma once

#include <vector>

#include "gui/scene/scene.h"

namespace pipesim::gui {

// Deals bars out to rows so that those of a row don't overlap.
class RowPacker {
 public:
  // Of so many rows at most. Where all are taken, a bar starts as late as one of them
  // is free, and takes no time if that is after its end: none is left out.
  static constexpr std::size_t max_rows = 4;

  // Into rows that are empty; there is one at least.
  explicit RowPacker(std::vector<BarRow>& rows) : rows_(&rows) { add_row(); }

  void reserve(std::size_t bars) { rows_->front().reserve(bars); }
  // In the order of refs, which then ascend along each row.
  void add(Bar bar);
  // What of a bar is free on the first row; the rest is left out.
  void add_where_free(Bar bar);
  void finish();

 private:
  void add_row();

  std::vector<BarRow>* rows_;
  std::vector<std::int64_t> end_ns_;  // of each row
};

// The lanes and curves of a run, in the groups of its ranks, which are there.
void add_run(Scene& scene, const Document& document, int trace);
// Groups for the tracks of all input pipelines' runs, which share those of one stream.
void add_input_groups(Scene& scene, const Document& document);
// Groups for the tracks and counters of an event trace, unless these are there.
void add_events(Scene& scene, const Document& document, int trace);
// How late operations end, by when they do.
CurveLane lateness_curve(int trace, std::vector<CurvePoint> points);
// The arrows of a trace, with the offsets that its lanes have.
ArrowList arrows_of(const Scene& scene, const Document& document, int trace);
// Of arrows that start at the same time those of the first list come first.
ArrowList merged(const ArrowList& one, const ArrowList& other);

// Puts the critical path of each run on its lanes, or takes it off, as the options say.
// A transfer on it is on its receiver's lane, from when it is sent.
void set_critical(Scene& scene, const Document& document);

}  // namespace pipesim::gui
