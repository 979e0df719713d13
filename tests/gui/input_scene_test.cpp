// Runs of input pipelines in the viewer: what is in their scenes, colours, details.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "gui/commands/commands.h"
#include "gui/commands/navigation.h"
#include "gui/commands/objections.h"
#include "gui/layout/layout.h"
#include "gui/layout/palette.h"
#include "gui/scene/input_events.h"
#include "gui/scene/scene.h"
#include "gui/scene/shading.h"
#include "gui/tables/histogram.h"
#include "gui/tables/report.h"
#include "gui/tables/tables.h"
#include "tests/errors.h"
#include "tests/events.h"
#include "tests/files.h"
#include "tests/input_runs.h"
#include "tests/scenes.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/input_trace.h"
#include "traces/recorded_run.h"

namespace pipesim::gui {
namespace {

using enum Kind;
using pipesim::testing::overlapping_program;
using pipesim::testing::random_run;
using testing::bars_of;

InputRun run_of(int seed, int ranks = 2, int batches = 4) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  return random_run(overlapping_program(ranks, batches), random);
}

std::shared_ptr<const OpenTrace> opened_input(InputRun run, const std::string& name) {
  auto trace = std::make_shared<OpenTrace>();
  InputEvents made = events_of(std::move(run), name);
  trace->name = name;
  trace->events = std::move(made.events);
  trace->input = std::move(made.input);
  return trace;
}

// A prediction and what was measured of it, a little longer.
Document both() {
  InputRun measured = run_of(8);
  measured.is_measured = true;
  Document document;
  document.traces = {opened_input(std::move(measured), "m.json"),
                     opened_input(run_of(7), "p.json")};
  return document;
}

const Group* group_of(const Scene& scene, const std::string& process, const std::string& name) {
  const auto found = std::ranges::find_if(scene.groups, [&](const Group& group) {
    return group.process == process && group.name == name;
  });
  return found == scene.groups.end() ? nullptr : &*found;
}

// Each call is a bar on the track of its rank and stream, and beside it there are what the host
// takes to call things, and what waits.
TEST(InputScene, HasEveryCallWaitAndHostsTime) {
  for (int seed = 0; seed < 20; ++seed) {
    const InputRun run = run_of(seed, 1 + seed % 3, 1 + seed % 4);
    using Seen = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;
    std::multiset<Seen> want, got;
    for (int rank = 0; rank < run.program.ranks(); ++rank) {
      const InputCalls& calls = run.program.calls[static_cast<std::size_t>(rank)];
      for (std::size_t place = 0; place < calls.size(); ++place) {
        const InputSpan& span = run.span(rank, place);
        const std::string name = to_text(calls[place].action);
        const std::string where = "rank " + std::to_string(rank) + " ";
        const std::string stream(input_stream_name(calls[place].stream));
        const bool on_host = calls[place].stream == InputStream::host;
        want.emplace(where + stream, name, span.start_ns, span.end_ns);
        if (!on_host && span.issued_ns > span.called_ns) {
          want.emplace(where + "host", "call " + name, span.called_ns, span.issued_ns);
        }
        const std::int64_t since = on_host ? span.called_ns : span.ready_ns;
        if (span.start_ns > since && stream != "compute")
          want.emplace(where + stream, name + " waits", since, span.start_ns);
      }
    }
    Document document;
    document.traces = {opened_input(run, "p.json")};
    const Scene scene = build_scene(document, {});
    for (const Group& group : scene.groups) {
      ASSERT_EQ(group.lanes.size(), 1U);
      EXPECT_EQ(group.lanes[0].label, "");
      EXPECT_EQ(group.lanes[0].rows.size(), 1U) << group.name;
      for (const Bar& bar : bars_of(group.lanes[0])) {
        if (is_bubble(bar.shade)) continue;
        got.emplace(group.process + " " + group.name, label_of(document.trace(0), bar.ref),
                    bar.start_ns, bar.end_ns);
        const auto place = find(scene, document, {0, bar.ref, false});
        ASSERT_TRUE(place);
        EXPECT_EQ(&scene.groups[static_cast<std::size_t>(place->group)], &group);
        EXPECT_EQ(place->range, (TimeRange{bar.start_ns, bar.end_ns}));
      }
    }
    ASSERT_EQ(got, want) << seed;
  }
}

TEST(InputScene, ArrowsAreFromWhatLetThingsGo) {
  for (int seed = 0; seed < 20; ++seed) {
    Document document;
    document.traces = {opened_input(run_of(seed), "p.json")};
    const OpenInput& input = *document.trace(0).input;
    const Scene scene = build_scene(document, {});
    ASSERT_FALSE(scene.arrows.empty());
    std::set<Ref> reached;
    for (const Arrow& arrow : scene.arrows) {
      const InputSlice& from = input.slices[arrow.ref];
      const InputSlice& to = input.slices[arrow.to_ref];
      EXPECT_TRUE(reached.insert(arrow.to_ref).second);
      EXPECT_EQ(from.rank, to.rank);
      EXPECT_NE(arrow.from_group, arrow.to_group);
      EXPECT_EQ(to.role, InputRole::action);
      EXPECT_LT(from.place, to.place + (from.role == InputRole::call ? 1 : 0));
      // In a prediction that is when it is ready.
      const InputSpan& span = input.span_of(from);
      const std::int64_t end_ns = from.role == InputRole::call ? span.issued_ns : span.end_ns;
      const bool is_of_host =
          from.role == InputRole::call || input.called_by(from).stream == InputStream::host;
      if (is_of_host) {
        EXPECT_LE(end_ns, input.span_of(to).ready_ns);
      } else {
        EXPECT_EQ(end_ns, input.span_of(to).ready_ns);
        EXPECT_TRUE(std::ranges::count(input.called_by(to).after, from.place) == 1);
      }
      EXPECT_EQ(arrow.to_ns, input.span_of(to).start_ns);
    }
    // Whatever waits for another stream's end, and begins with it, has one.
    for (Ref ref = 0; ref < input.slices.size(); ++ref) {
      const InputSlice& slice = input.slices[ref];
      if (slice.role != InputRole::action) continue;
      const InputSpan& own = input.span_of(slice);
      const auto& calls = input.run.program.calls[static_cast<std::size_t>(slice.rank)];
      bool is_of_own_stream = own.called_ns == own.ready_ns || own.issued_ns == own.ready_ns;
      bool is_of_other = false;
      for (std::uint32_t place = 0; place < slice.place; ++place) {
        if (input.run.span(slice.rank, place).end_ns != own.ready_ns) continue;
        const bool same = calls[place].stream == input.called_by(slice).stream;
        is_of_own_stream = is_of_own_stream || same;
        is_of_other =
            is_of_other || (!same && std::ranges::count(input.called_by(slice).after, place));
      }
      EXPECT_TRUE(!is_of_other || is_of_own_stream || reached.contains(ref));
    }
  }
}

TEST(InputScene, RunsStandBesideEachOtherByRankAndStream) {
  const Document document = both();
  const Scene scene = build_scene(document, {});
  std::vector<std::string> names;
  for (const Group& group : scene.groups) names.push_back(group.process + " " + group.name);
  EXPECT_EQ(names, (std::vector<std::string>{"rank 0 host", "rank 0 memcpy", "rank 0 data_dist",
                                             "rank 0 compute", "rank 0 reduction", "rank 1 host",
                                             "rank 1 memcpy", "rank 1 data_dist", "rank 1 compute",
                                             "rank 1 reduction"}));
  for (const Group& group : scene.groups) {
    ASSERT_EQ(group.lanes.size(), 2U) << group.name;
    EXPECT_EQ(group.lanes[0].label, "predicted");
    EXPECT_EQ(group.lanes[1].label, "measured");
    EXPECT_EQ(group.lanes[0].trace, 1);
    EXPECT_EQ(group.lanes[0].offset_ns, 0);
  }
  for (const Arrow& arrow : scene.arrows) {
    const Slice& to = document.trace(arrow.trace).events->slices[arrow.to_ref];
    const EventTrack& track = document.trace(arrow.trace).events->tracks[to.track];
    const Group& group = scene.groups[static_cast<std::size_t>(arrow.to_group)];
    EXPECT_EQ(group.process + group.name, track.process + track.name);
  }
}

TEST(InputScene, StreamsOfOneRunAloneHaveTheirPlace) {
  InputRun other = run_of(3, 1, 1);
  for (InputCall& call : other.program.calls[0]) {
    if (call.stream == InputStream::data_dist) call.stream = InputStream::prefetch;
  }
  Document document;
  document.traces = {opened_input(run_of(4, 1, 1), "a.json"), opened_input(other, "b.json"),
                     testing::open_trace(testing::events())};
  const Scene scene = build_scene(document, {});
  std::vector<std::string> names;
  for (const Group& group : scene.groups) names.push_back(group.name);
  EXPECT_EQ(names, (std::vector<std::string>{"host", "memcpy", "data_dist", "prefetch", "compute",
                                             "reduction", "thread 7", "stream 7", "load"}));
  EXPECT_EQ(group_of(scene, "rank 0", "data_dist")->lanes.size(), 1U);
  // Both are predictions: their names tell them apart.
  EXPECT_EQ(group_of(scene, "rank 0", "compute")->lanes[1].label, "b.json");
  EXPECT_TRUE(find(scene, document, {2, 0, false}));
}

TEST(InputScene, ClocksThatOverlapMakeRows) {
  InputRun run = run_of(5, 1, 2);
  run.is_measured = true;
  const InputCalls& calls = run.program.calls[0];
  std::uint32_t first = InputPlaces::none, second = InputPlaces::none;
  for (std::uint32_t place = 0; place < calls.size(); ++place) {
    if (calls[place].action == input_action(TOP, 0)) first = place;
    if (calls[place].action == input_action(TOP_BACKWARD, 0)) second = place;
  }
  run.spans[0][first].start_ns = run.spans[0][first].end_ns - 10;
  run.spans[0][second].start_ns = run.spans[0][second].ready_ns = run.spans[0][first].end_ns - 3;
  run.spans[0][second].end_ns = run.spans[0][first].end_ns + 4;
  Document document;
  document.traces = {opened_input(run, "m.json")};
  const Scene scene = build_scene(document, {});
  EXPECT_EQ(group_of(scene, "rank 0", "compute")->lanes[0].rows.size(), 2U);
  const Ref ref = document.trace(0).input->find(0, input_action(TOP_BACKWARD, 0));
  EXPECT_EQ(label_of(document.trace(0), ref), "TOP_BACKWARD0");
  EXPECT_TRUE(find(scene, document, {0, ref, false}));
}

TEST(InputScene, ColoursTellBatchesOrKinds) {
  Document document;
  document.traces = {opened_input(run_of(1, 2, 10), "p.json")};
  const OpenInput& input = *document.trace(0).input;
  Scene scene = build_scene(document, {.colouring = Colouring::microbatch});
  const auto check = [&](auto shade_of_slice) {
    for (const Group& group : scene.groups) {
      for (const Bar& bar : bars_of(group.lanes[0])) {
        if (is_bubble(bar.shade)) continue;
        EXPECT_EQ(bar.shade, shade_of_slice(input.slices[bar.ref]))
            << label_of(document.trace(0), bar.ref);
      }
    }
  };
  check([&](const InputSlice& slice) {
    return slice.role == InputRole::wait ? wait_shade
                                         : input.called_by(slice).action.microbatch % 8;
  });
  change_scene(scene, document, {.colouring = Colouring::kind});
  const std::map<Kind, int> shades{{NEXT, 6},   {READ, 6},   {COPY, 7},         {LOOKUP, 1},
                                   {UPDATE, 1}, {SPLITS, 2}, {OUTPUT, 2},       {REDUCE_BOTTOM, 2},
                                   {IDS, 2},    {BOTTOM, 0}, {TOP_BACKWARD, 0}, {DENSE_STEP, 0}};
  check([&](const InputSlice& slice) {
    if (slice.role == InputRole::wait) return static_cast<int>(wait_shade);
    if (slice.role == InputRole::call) return 6;
    const auto known = shades.find(input.called_by(slice).action.kind);
    return known == shades.end()
               ? static_cast<int>(shade_of(input_group_of(input.called_by(slice).action.kind)))
               : known->second;
  });
}

std::vector<std::string> legend_of(const Document& document, Colouring colouring) {
  const Scene scene = build_scene(document, {.colouring = colouring});
  View view;
  view.range = scene.home;
  view.options = scene.options;
  const Canvas canvas{1600, 900, 1, 7, 14};
  const Picture picture = layout(document, scene, view, canvas, palette(Theme::light, colouring));
  std::vector<std::string> words;
  for (const DrawList::Text& text : picture.list.cover_texts) {
    if (text.y >= canvas.height - picture.legend_height) words.push_back(text.text);
  }
  return words;
}

TEST(InputScene, TheLegendNamesWhatIsThere) {
  using Words = std::vector<std::string>;
  const auto with_bubbles = [](Words words, const Words& more = {}) {
    for (const char* bubble : {"warm-up", "steady", "drain", "p2p"}) {
      words.push_back(std::string(bubble) + " bubble");
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Words kinds{"dense part", "rows of tables", "exchange", "host", "copy", "waiting"};
  Document document;
  document.traces = {opened_input(run_of(1, 2, 3), "p.json")};
  EXPECT_EQ(legend_of(document, Colouring::microbatch),
            with_bubbles({"batch 0", "1", "2", "waiting"}));
  EXPECT_EQ(legend_of(document, Colouring::kind), with_bubbles(kinds));
  EXPECT_EQ(legend_of(both(), Colouring::kind), with_bubbles(kinds, {"predicted", "measured"}));
}

TEST(InputScene, KeysChooseColours) {
  const Document document = both();
  const Scene scene = build_scene(document, {});
  View view;
  view.options = scene.options;
  const auto after = [&](Command command) {
    return apply(command, document, scene, view, Picture{}).options.colouring;
  };
  EXPECT_EQ(after(Command::colour_microbatch), Colouring::microbatch);
  EXPECT_EQ(after(Command::colour_error), Colouring::kind);  // nothing is compared
}

TEST(InputScene, DetailsAreOfAllRunsThatHaveIt) {
  const Document document = both();
  const Scene scene = build_scene(document, {});
  const OpenInput& predicted = *document.trace(1).input;
  const Ref ref = predicted.find(1, input_action(SPLITS, 2));
  const Table table = detail_table(document, scene, {1, ref, false});
  EXPECT_EQ(table.title, "SPLITS2 of rank 1");
  ASSERT_EQ(table.columns.size(), 3U);
  EXPECT_EQ(table.columns[1].name, "measured");
  EXPECT_EQ(table.columns[2].name, "predicted");
  std::map<std::string, std::vector<std::string>> rows;
  for (const Table::Row& row : table.rows) rows[row.cells[0]] = row.cells;
  EXPECT_EQ(rows["kind"][2], "SPLITS (exchange)");
  EXPECT_EQ(rows["batch"][1], "2");
  EXPECT_EQ(rows["stream"][2], "data_dist");
  EXPECT_EQ(rows["waits for"][2], "COPY2");
  const InputSpan& span = predicted.span_of(predicted.slices[ref]);
  EXPECT_EQ(rows["duration"][2], format_time(span.end_ns - span.start_ns));
  if (span.start_ns > span.ready_ns) {
    EXPECT_EQ(rows["waited for ranks"][2], format_time(span.start_ns - span.ready_ns));
  }
  EXPECT_FALSE(rows["let go by"][2].empty());
  EXPECT_EQ(other_side(document, {1, ref, false}),
            (Pick{0, document.trace(0).input->find(1, input_action(SPLITS, 2)), false}));
}

// Two runs of one program are a pair like any other.
TEST(InputScene, TwoRunsAreCompared) {
  const Document document = paired(both());
  ASSERT_NE(document.pair, nullptr) << document.not_compared;
  EXPECT_EQ(document.pair->trace, (std::array{1, 0}));  // the prediction is the second trace
  const Comparison& comparison = document.pair->comparison;
  const Operations& operations = comparison.operations;
  for (const Side side : both_sides) {
    const OpenTrace& trace = document.trace(document.pair->trace[side]);
    EXPECT_EQ(comparison.sides[side].makespan_ns, makespan_of(trace.input->run));
    for (OperationId id = 0; id < operations.size(); ++id) {
      const Ref ref = document.pair->span_of[side][id];
      const Occurrence& own = operations.sides[side][id];
      if (ref == no_ref) {
        EXPECT_EQ(own.duration_ns(), 0);
        continue;
      }
      const Slice& slice = trace.events->slices[ref];
      EXPECT_EQ(std::pair(slice.start_ns, slice.end_ns), std::pair(own.start_ns, own.end_ns));
      EXPECT_EQ(document.pair->find(side, ref), id);
    }
  }
  EXPECT_GT(cause_table(document).rows.size(), 3U);
  EXPECT_EQ(bubble_table(document).rows.size(), 4U);  // two ranks, two runs
  EXPECT_EQ(verdict(document).find("Measured "), 0U);
  // What takes longer by far is the darkest.
  const int measured = document.pair->trace[measured_side];
  const Shading shading(document, measured, Colouring::error);
  for (OperationId id = 0; id < operations.size(); ++id) {
    const Ref ref = document.pair->span_of[measured_side][id];
    const std::int64_t planned = operations.sides[predicted_side][id].duration_ns();
    if (ref == no_ref || planned == 0) continue;
    EXPECT_EQ(shading.of(ref),
              shade_of_error(planned, operations.sides[measured_side][id].duration_ns()));
  }
  for (const Command command : {Command::show_difference, Command::show_overlay,
                                Command::align_slot, Command::toggle_critical}) {
    EXPECT_EQ(objection_to(command, document, {}, {}), "");
  }
}

// Bubbles fill a compute stream; those of a kind sum to the metrics' but for exchanges on the
// stream itself, and details say what was waited for.
TEST(InputScene, BubblesAreBetweenTheActionsOfCompute) {
  for (int seed = 0; seed < 20; ++seed) {
    Document document;
    document.traces = {opened_input(run_of(seed, 1 + seed % 3), "p.json")};
    const InputRun& run = document.trace(0).input->run;
    const Scene scene = build_scene(document, {});
    const Metrics metrics = input_bubbles(run);
    for (int rank = 0; rank < run.program.ranks(); ++rank) {
      const Group* const group = group_of(scene, "rank " + std::to_string(rank), "compute");
      ASSERT_NE(group, nullptr);
      std::array<std::int64_t, 4> sums{};
      std::int64_t last_ns = 0;
      for (const Bar& bar : bars_of(group->lanes[0])) {
        EXPECT_EQ(bar.start_ns, last_ns) << "of rank " << rank;
        last_ns = bar.end_ns;
        if (!is_bubble(bar.shade)) continue;
        sums[bar.shade - first_bubble_shade] += bar.end_ns - bar.start_ns;
        if (bar.ref == no_ref) continue;
        const Pick pick{0, bar.ref, true};
        EXPECT_TRUE(find(scene, document, pick));
        const Table details = detail_table(document, scene, pick);
        EXPECT_TRUE(details.title.starts_with("idle before ")) << details.title;
        EXPECT_FALSE(details.rows.empty());
      }
      std::int64_t exchanges_ns = 0;  // on the compute stream itself
      const InputCalls& calls = run.program.calls[static_cast<std::size_t>(rank)];
      for (std::size_t place = 0; place < calls.size(); ++place) {
        if (calls[place].stream != InputStream::compute || !is_meeting(calls[place].action.kind)) {
          continue;
        }
        exchanges_ns += run.span(rank, place).end_ns - run.span(rank, place).start_ns;
      }
      EXPECT_EQ(last_ns, metrics.makespan_ns);
      const Bubble& bubble = metrics.ranks[static_cast<std::size_t>(rank)].bubble;
      EXPECT_EQ(sums, (std::array{bubble.warmup_ns, bubble.steady_ns, bubble.drain_ns,
                                  bubble.p2p_ns - exchanges_ns}));
    }
  }
}

TEST(InputScene, SlotsAreThePlacesOfActionsOnTheirStreams) {
  const Document document = paired(both());
  SceneOptions options;
  options.alignment = Alignment::slot;
  const Scene scene = build_scene(document, options);
  Scene changed = build_scene(document, {});
  change_scene(changed, document, options);
  for (std::size_t group = 0; group < scene.groups.size(); ++group) {
    const auto& lanes = scene.groups[group].lanes;
    ASSERT_EQ(lanes.size(), 2U);
    EXPECT_EQ(bars_of(lanes[0]), bars_of(changed.groups[group].lanes[0]));
    const auto predicted = bars_of(lanes[0]);
    const auto measured = bars_of(lanes[1]);
    ASSERT_EQ(predicted.size(), measured.size());
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      EXPECT_EQ(predicted[i].start_ns, static_cast<std::int64_t>(i) * slot_ns);
      EXPECT_EQ(label_of(document.trace(lanes[0].trace), predicted[i].ref),
                label_of(document.trace(lanes[1].trace), measured[i].ref));
    }
  }
  EXPECT_TRUE(scene.arrows.empty());
}

// A clock may show as simultaneous what a stream did one after the other: then it has several rows.
TEST(InputScene, OverlapsKeepTheirSlotsAndPaths) {
  InputRun measured = run_of(8);
  measured.is_measured = true;
  const InputCalls& calls = measured.program.calls[0];
  for (std::size_t place = 0; place < calls.size(); ++place) {
    InputSpan& span = measured.spans[0][place];
    if (calls[place].stream == InputStream::compute && place % 2 == 0) span.end_ns += 700;
  }
  Document document;
  document.traces = {opened_input(std::move(measured), "m.json"),
                     opened_input(run_of(7), "p.json")};
  document = paired(std::move(document));
  SceneOptions options;
  options.critical = true;
  for (const Alignment alignment : {Alignment::iteration, Alignment::slot}) {
    options.alignment = alignment;
    const Scene scene = build_scene(document, options);
    bool has_rows = false;
    for (const Group& group : scene.groups) {
      for (const Lane& lane : group.lanes) {
        has_rows = has_rows || lane.rows.size() > 1;
        for (std::size_t i = 1; i < lane.critical.size(); ++i) {
          EXPECT_GE(lane.critical.start_ns(i), lane.critical.end_ns(i - 1));
        }
      }
      if (alignment != Alignment::slot) continue;
      std::map<std::string, std::int64_t> slots;  // of the prediction
      for (const Bar& bar : bars_of(group.lanes[0])) {
        slots[label_of(document.trace(group.lanes[0].trace), bar.ref)] = bar.start_ns;
      }
      for (const Bar& bar : bars_of(group.lanes[1])) {
        EXPECT_EQ(bar.start_ns, slots[label_of(document.trace(group.lanes[1].trace), bar.ref)]);
      }
    }
    EXPECT_TRUE(has_rows);
  }
}

// What takes no time ends a bubble, and what was waited for before it does not count again.
TEST(InputScene, DetailsOfABubbleAreItsOwn) {
  InputRun run = run_of(3, 1, 2);
  const InputCalls& calls = run.program.calls[0];
  std::vector<std::uint32_t> compute;
  for (std::uint32_t place = 0; place < calls.size(); ++place) {
    if (calls[place].stream == InputStream::compute) compute.push_back(place);
  }
  InputSpan& first = run.spans[0][compute[0]];
  first.end_ns = first.start_ns;
  Document document;
  document.traces = {opened_input(run, "p.json")};
  const Scene scene = build_scene(document, {});
  const Pick second{0, document.trace(0).input->slice_of[0][compute[1]], true};
  const auto place = find(scene, document, second);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->range, (TimeRange{first.start_ns, run.span(0, compute[1]).start_ns}));
  const Table details = detail_table(document, scene, second);
  std::set<std::string_view> causes;
  for (const InputWait& wait : waits_of(run, 0)) {
    if (wait.start_ns >= place->range.from_ns && wait.end_ns <= place->range.to_ns) {
      causes.insert(wait.what);
    }
  }
  EXPECT_EQ(details.rows.size(), causes.size());
}

TEST(InputScene, TheDifferenceIsHowLateEachActionEnds) {
  const Document document = paired(both());
  const int measured = document.pair->trace[measured_side];
  SceneOptions options;
  options.show = Show::difference;
  const Scene scene = build_scene(document, options);
  const Comparison& comparison = document.pair->comparison;
  std::size_t points = 0;
  for (const Group& group : scene.groups) {
    ASSERT_EQ(group.lanes.size(), 1U);
    EXPECT_EQ(group.lanes[0].trace, measured);
    for (const CurveLane& lane : group.curves) {
      EXPECT_EQ(lane.label, "lateness");
      for (std::size_t i = 0; i < lane.curve.size(); ++i) {
        const auto is_told = [&](OperationId id) {
          return comparison.operations.sides[measured_side][id].end_ns == lane.curve[i].time_ns &&
                 comparison.lateness[id].total_ns() == lane.curve[i].value;
        };
        bool found = false;
        for (OperationId id = 0; id < comparison.operations.size(); ++id) found |= is_told(id);
        EXPECT_TRUE(found);
        ++points;
      }
    }
  }
  EXPECT_GT(points, 0U);
}

TEST(InputScene, TheCriticalPathIsOnItsLanes) {
  for (const Document& document : {paired(both()), [] {
                                     Document alone;
                                     alone.traces = {opened_input(run_of(9), "p.json")};
                                     return alone;
                                   }()}) {
    SceneOptions options;
    options.critical = true;
    const Scene scene = build_scene(document, options);
    for (int trace = 0; trace < static_cast<int>(document.traces.size()); ++trace) {
      std::int64_t sum = 0, last = 0;
      for (const Group& group : scene.groups) {
        for (const Lane& lane : group.lanes) {
          if (lane.trace != trace) continue;
          for (std::size_t i = 0; i < lane.critical.size(); ++i) {
            sum += lane.critical.end_ns(i) - lane.critical.start_ns(i);
            last = std::max(last, lane.critical.end_ns(i));
          }
        }
      }
      const std::int64_t makespan = makespan_of(document.trace(trace).input->run);
      EXPECT_EQ(last, makespan);
      EXPECT_EQ(sum, makespan);  // a simulation waits for nothing else
    }
  }
}

// Beside a run of a pipeline they are not compared with it.
TEST(InputScene, OnlyAlikeRunsAreCompared) {
  Document document = both();
  auto pipeline = std::make_shared<OpenTrace>();
  pipeline->name = "1f1b.json";
  pipeline->run.emplace();
  pipeline->run->name = "1f1b.json";
  document.traces.push_back(pipeline);
  EXPECT_EQ(paired(document).pair, nullptr);
  const Document two = compared(document, 1, 2);
  EXPECT_EQ(two.pair, nullptr);
  EXPECT_NE(two.not_compared.find("1f1b.json of a pipeline; compare two runs of one program"),
            std::string::npos);
}

TEST(InputScene, NamesAreOfAllBatches) {
  Document document;
  document.traces = {opened_input(run_of(1, 2, 3), "p.json")};
  const Table table = name_table(document);
  const InputRun& run = document.trace(0).input->run;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> want;  // total, greatest
  for (int rank = 0; rank < 2; ++rank) {
    for (std::size_t place = 0; place < run.spans[0].size(); ++place) {
      const InputSpan& span = run.span(rank, place);
      auto& [total, greatest] =
          want[std::string(kind_name(run.program.calls[0][place].action.kind))];
      total += span.end_ns - span.start_ns;
      greatest = std::max(greatest, span.end_ns - span.start_ns);
    }
  }
  for (const auto& [name, times] : want) {
    const auto row =
        std::ranges::find(table.rows, name, [](const Table::Row& own) { return own.cells[0]; });
    ASSERT_NE(row, table.rows.end()) << name;
    EXPECT_EQ(row->values[1], 6) << name;
    EXPECT_EQ(kind_histogram(document, row->about).count(), 6) << name;
    EXPECT_EQ(row->values[3], times.first) << name;
    EXPECT_EQ(row->values[5], times.second) << name;
  }
}

TEST(InputScene, ReportsAreOfOneRunOrTwo) {
  Document document = both();
  const std::string two = report_of(document, Terminal{});
  EXPECT_NE(two.find("measured"), std::string::npos);
  document.traces.pop_back();
  EXPECT_NE(report_of(document, Terminal{}).find("overlapping, 2 ranks"), std::string::npos);
  EXPECT_NE(verdict(document).find("overlapping, 2 ranks"), std::string::npos);
}

TEST(InputScene, FilesAreOpenedAsWhatTheyAre) {
  const pipesim::testing::TemporaryFolder folder;
  const InputRun run = run_of(2);
  write_input_trace(run, folder / "p.json.gz");
  Document document = open_traces({folder / "p.json.gz"});
  ASSERT_TRUE(document.trace(0).input);
  EXPECT_EQ(document.trace(0).banner, "");
  EXPECT_EQ(document.trace(0).input->run.spans, run.spans);
  EXPECT_EQ(document.trace(0).source(), Source::predicted);
  // One that contradicts itself is shown as events, and says why.
  write_input_trace(run, folder / "q.json");
  std::string text = read_file(folder / "q.json");
  const std::string stream = "\"stream\":\"memcpy\"";
  text.replace(text.find(stream), stream.size(), "\"stream\":\"lookup\"");
  write_file(folder / "q.json", text);
  document = open_traces({folder / "q.json"});
  EXPECT_FALSE(document.trace(0).input);
  ASSERT_TRUE(document.trace(0).events);
  EXPECT_NE(document.trace(0).banner.find("is on stream lookup, in the program on memcpy"),
            std::string::npos)
      << document.trace(0).banner;
}

}  // namespace
}  // namespace pipesim::gui
