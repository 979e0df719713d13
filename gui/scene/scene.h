// Open traces as rows of bars and curves, for one alignment and colouring.
//
// Built from a document, updated when those change, and read by
// layout, search and navigation. Plain values, which refer to nothing; const use is
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gui/scene/arrow_list.h"
#include "gui/scene/bars.h"
#include "gui/scene/curve.h"
#include "gui/scene/document.h"
#include "gui/scene/viewport.h"
#include "sim/compare/critical_path.h"

namespace pipesim::gui {

enum class Alignment : std::uint8_t {
  absolute,   // each trace's own times, clocks as they are
  iteration,  // the compared iterations start at 0, clocks put right
  slot,       // the place in its rank's list instead of a time
};
enum class Show : std::uint8_t {
  stacked,     // predicted above measured
  overlay,     // measured in front of predicted
  difference,  // measured, with how late each operation is
};

// The way of looking, as far as bars depend on it.
struct SceneOptions {
  Alignment alignment = Alignment::iteration;
  Show show = Show::stacked;
  Colouring colouring = Colouring::kind;
  bool transfers = false;  // rows of sends, receives and collectives
  bool critical = false;   // the critical path of each run

  bool operator==(const SceneOptions&) const = default;
};

// In slot alignment the axis counts places; each is as wide as so many nanoseconds.
inline constexpr std::int64_t slot_ns = 1000;

// A bar of a trace, on any row.
struct Pick {
  std::int32_t trace = -1;
  Ref ref = no_ref;
  bool bubble = false;  // the idle time before it

  bool operator==(const Pick&) const = default;
};

enum class LaneKind : std::uint8_t { work, transfers, slices, difference };

// Rows of one trace within a group, most often one. Bars have the trace's own
// times; `offset_ns` is to be added.
struct Lane {
  LaneKind kind = LaneKind::work;
  std::int32_t trace = 0;
  std::string label;  // "predicted"; empty where the group has one trace
  std::int64_t offset_ns = 0;
  std::vector<BarRow> rows;
  BarRow critical;  // where the critical path is on this lane, if it is asked for
  BarRow emphasis;  // what is emphasised; row 0 is faint then
};

// A quantity over time. The curve has it `scale` times, rounded: a power of ten, and 1
// for what is counted.
struct CurveLane {
  std::int32_t trace = 0;
  std::string label;  // "memory", "lateness", a counter's name
  std::int64_t offset_ns = 0;
  bool bytes = false;
  double scale = 1;
  Curve curve;
  std::optional<std::int64_t> capacity;
  std::string peak;  // what fills it at its peak: "0B6"; or empty

  // The meaning of a point of the curve.
  double value_of(std::int64_t point) const { return static_cast<double>(point) / scale; }
};

// What belongs together: a rank of all runs, a stream of a rank of all input pipelines' runs, or a
// track of an event trace.
struct Group {
  std::string name;        // "rank 0", "thread 17 (stream 7)"
  std::string process;     // of an event trace's track
  std::int32_t rank = -1;  // of a run's
  std::vector<Lane> lanes;
  std::vector<CurveLane> curves;
};

// The critical path of each trace's run, by trace.
using CriticalPaths = std::vector<std::vector<PathStep>>;
// In about two seconds for a million spans; any thread.
CriticalPaths critical_paths(const Document& document);

struct Scene {
  SceneOptions options;
  std::vector<Group> groups;
  CriticalPaths paths;  // once they were asked for
  // The group of each event trace's tracks; empty for runs, and if events are not shown.
  std::vector<std::vector<std::int32_t>> group_of_track;
  ArrowList arrows;
  // All that there is, and what to look at first: the compared iteration.
  TimeRange extent, home;
  bool emphasises = false;
};

// Finds the critical paths only where they are asked for and not given.
Scene build_scene(const Document& document, const SceneOptions& options, CriticalPaths paths = {});
// Makes of a scene what build_scene() would, in less time where little changes. The document is
// the one that it was built from.
void change_scene(Scene& scene, const Document& document, const SceneOptions& options);
// Sets apart what is told; nothing sets nothing apart.
void emphasise(Scene& scene, const Document& document, const std::vector<Pick>& picks);

// Where a bar is: its lane's place and its time as drawn. Nothing where no row has
// it, as in slot alignment.
struct Place {
  int group = 0, lane = 0, row = 0;
  std::size_t bar = 0;
  TimeRange range;
};
std::optional<Place> find(const Scene& scene, const Document& document, const Pick& pick);

}  // namespace pipesim::gui
