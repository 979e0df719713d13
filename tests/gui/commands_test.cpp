// What each command does to the view of a prediction beside a measurement, and what
// holds whatever is pressed.
#include "gui/commands/commands.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gui/commands/navigation.h"
#include "gui/playground/playground.h"
#include "tests/random_schedule.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

constexpr std::int64_t ms = 1'000'000;

std::shared_ptr<const OpenTrace> trace_of(const std::string& schedule, int slow_percent = 100) {
  Settings settings;
  settings.schedule = schedule;
  settings.microbatches = 6;
  settings.latency_ns = 200'000;
  settings.activation_bytes = 1 << 20;
  settings.slow_stage = 2;
  settings.slow_percent = slow_percent;
  return play(settings).trace;
}

// A measurement: it takes longer, and its clock shows another time of the day.
std::shared_ptr<const OpenTrace> measured_trace(const std::string& schedule) {
  auto trace = std::make_shared<OpenTrace>(*trace_of(schedule, 140));
  RecordedRun& run = *trace->run;
  run.about.source = Source::measured;
  constexpr std::int64_t later_ns = 1000 * ms;
  for (Span& span : run.spans) {
    span.start_ns += later_ns;
    span.end_ns += later_ns;
    if (span.has_input()) {
      span.input_sent_ns += later_ns;
      span.input_arrival_ns += later_ns;
    }
  }
  MemorySamples later;
  for (MemorySample sample : run.samples) {
    sample.time_ns += later_ns;
    later.push_back(sample);
  }
  run.samples = std::move(later);
  run.iterations.front().start_ns += later_ns;
  trace->name = "measured";
  return trace;
}

Document alone(const std::string& schedule) {
  Document document;
  document.traces = {trace_of(schedule)};
  return document;
}

Document pair_of(const std::string& schedule) {
  Document document;
  document.traces = {trace_of(schedule), measured_trace(schedule)};
  return compared(document, 0, 1);
}

// Rows one below the other, 20 pixels each, of groups that nothing filters.
Picture picture_of(const Scene& scene, const View& view) {
  Picture picture;
  picture.list.width = 900;
  picture.list.height = 210;
  picture.ruler_height = 20;
  picture.legend_height = 10;
  picture.viewport = {view.range, 100, 800};
  int y = picture.ruler_height;
  const auto place = [&](bool pinned) {
    for (std::size_t g = 0; g < scene.groups.size(); ++g) {
      const Group& group = scene.groups[g];
      if (view.pinned.contains(group.name) != pinned || !passes(group, view.filter)) continue;
      const int from = y;
      for (std::size_t l = 0; l < group.lanes.size(); ++l) {
        for (std::size_t r = 0; r < group.lanes[l].rows.size(); ++r) {
          const PlacedRow row{static_cast<int>(g), static_cast<int>(l), static_cast<int>(r), y, 20};
          const int top = picture.ruler_height + picture.pinned_height;
          if (y + 20 > top && y < 200) picture.rows.push_back(row);
          y += 20;
        }
      }
      picture.groups.push_back({static_cast<int>(g), from, y - from, pinned});
      (pinned ? picture.pinned_height : picture.content_height) += y - from;
    }
  };
  place(true);
  y = picture.ruler_height + picture.pinned_height - view.scroll;
  place(false);
  return picture;
}

// What a window does: the scene follows the view.
struct Bench {
  explicit Bench(Document of) : document(std::move(of)), scene(build_scene(document, {})) {
    view.range = scene.home;
    view.options = scene.options;
  }

  Picture picture() const { return picture_of(scene, view); }
  const View& press(Command command) {
    return show(apply(command, document, scene, view, picture()));
  }
  const View& pick(const std::string& action, int trace = 0) {
    return show(with_pick(document, scene, view, pick_of(action, trace), picture()));
  }
  const View& show(View next) {
    const bool other = next.options != view.options;
    view = std::move(next);
    if (other) change_scene(scene, document, view.options);
    return view;
  }
  Pick pick_of(const std::string& action, int trace = 0) const {
    const auto& spans = document.traces[static_cast<std::size_t>(trace)]->run->spans;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (to_text(spans[i].action) == action) return {trace, static_cast<Ref>(i)};
    }
    ADD_FAILURE() << "no " << action;
    return {};
  }
  std::string picked() const {
    if (!view.picked) return "";
    const auto& trace = document.traces[static_cast<std::size_t>(view.picked->trace)];
    return to_text(trace->run->spans[view.picked->ref].action);
  }
  TimeRange range_of_picked() const { return find(scene, document, *view.picked)->range; }

  Document document;
  Scene scene;
  View view;
};

std::vector<std::string> keys_of(const CommandHelp& help) {
  std::vector<std::string> keys;
  std::string rest(help.keys);
  for (std::size_t at = 0; (at = rest.find(", ")) != std::string::npos; rest.erase(0, at + 2)) {
    keys.push_back(rest.substr(0, at));
  }
  keys.push_back(rest);
  return keys;
}

TEST(CommandList, HasEachCommandOnceWithKeysOfItsOwn) {
  std::map<std::string, Command> taken;
  std::set<Command> listed;
  for (const CommandHelp& help : command_list()) {
    EXPECT_TRUE(listed.insert(help.command).second) << help.title;
    EXPECT_TRUE(help.group == "Move" || help.group == "Select" || help.group == "Show");
    EXPECT_GT(help.title.size(), 5U);
    for (const std::string& key : keys_of(help)) {
      EXPECT_NE(key, "");
      EXPECT_TRUE(taken.emplace(key, help.command).second) << key << " twice";
    }
  }
  EXPECT_EQ(listed.size(), static_cast<std::size_t>(Command::clear) + 1);  // all there are
  for (const char* of_the_window : {"/", "?", "Ctrl+P", "Ctrl+O"}) {
    EXPECT_FALSE(taken.contains(of_the_window)) << of_the_window;
  }
  // What people know from other viewers.
  const std::map<std::string, Command> known{
      {"W", Command::zoom_in},     {"S", Command::zoom_out},       {"A", Command::pan_left},
      {"D", Command::pan_right},   {"F", Command::focus},          {",", Command::previous},
      {".", Command::next},        {"[", Command::flow_back},      {"]", Command::flow_forward},
      {"R", Command::select_area}, {"M", Command::mark},           {"Esc", Command::clear},
      {"Ctrl+Z", Command::undo},   {"Ctrl+Shift+Z", Command::redo}};
  for (const auto& [key, command] : known) {
    ASSERT_TRUE(taken.contains(key)) << key;
    EXPECT_EQ(taken[key], command) << key;
  }
}

TEST(Commands, PanByAFifthOfTheRange) {
  Bench bench(pair_of("1f1b"));
  bench.pick("1F2");
  bench.press(Command::focus);
  const TimeRange before = bench.view.range;
  const TimeRange right = bench.press(Command::pan_right).range;
  EXPECT_EQ(right.from_ns - before.from_ns, before.length_ns() / 5);
  EXPECT_EQ(right.length_ns(), before.length_ns());
  EXPECT_EQ(bench.press(Command::pan_left).range, before);
}

TEST(Commands, PanningEndsAtTheExtent) {
  Bench bench(pair_of("1f1b"));
  bench.press(Command::zoom_in);
  for (int i = 0; i < 100; ++i) bench.press(Command::pan_right);
  const TimeRange last = bench.view.range;
  EXPECT_TRUE(last.contains(bench.scene.extent.to_ns - 1));
  EXPECT_EQ(bench.press(Command::pan_right).range, last);
}

TEST(Commands, ZoomAboutTheMiddleOrTheSelection) {
  Bench bench(pair_of("1f1b"));
  const TimeRange home = bench.view.range;
  const TimeRange less = bench.press(Command::zoom_in).range;
  EXPECT_NEAR(static_cast<double>(less.length_ns()), static_cast<double>(home.length_ns()) / 1.5,
              1);
  EXPECT_NEAR(static_cast<double>(less.from_ns + less.to_ns),
              static_cast<double>(home.from_ns + home.to_ns), 4);
  EXPECT_NEAR(static_cast<double>(bench.press(Command::zoom_out).range.length_ns()),
              static_cast<double>(home.length_ns()), 2);
  // The middle of the picked bar stays at its pixel.
  bench.view.range = home;
  bench.pick("3B0");
  const TimeRange bar = bench.range_of_picked();
  const auto share = [&] {
    return static_cast<double>(bar.from_ns + bar.length_ns() / 2 - bench.view.range.from_ns) /
           static_cast<double>(bench.view.range.length_ns());
  };
  const double before = share();
  bench.press(Command::zoom_in);
  EXPECT_NEAR(share(), before, 1e-6);
}

TEST(Commands, ZoomingInEndsAtTheLeastRange) {
  Bench bench(pair_of("1f1b"));
  for (int i = 0; i < 100; ++i) bench.press(Command::zoom_in);
  EXPECT_EQ(bench.view.range.length_ns(), min_range_ns);
  for (int i = 0; i < 100; ++i) bench.press(Command::zoom_out);
  EXPECT_EQ(bench.view.range, kept_within(bench.view.range, bench.scene.extent));
  EXPECT_GE(bench.view.range.length_ns(), bench.scene.extent.length_ns());
}

TEST(Commands, ScrollByRowsWithinWhatThereIs) {
  Bench bench(pair_of("1f1b"));  // 4 ranks x 2 lanes x 20 pixels are less than 180
  bench.press(Command::scroll_down);
  EXPECT_EQ(bench.view.scroll, 0);
  bench.press(Command::toggle_transfers);
  const int most = greatest_scroll(bench.picture());
  ASSERT_GT(most, 40);
  bench.press(Command::scroll_down);
  EXPECT_EQ(bench.view.scroll, 27);  // 15 % of 180
  bench.press(Command::scroll_up);
  EXPECT_EQ(bench.view.scroll, 0);
  for (int i = 0; i < 20; ++i) bench.press(Command::page_down);
  EXPECT_EQ(bench.view.scroll, most);
  for (int i = 0; i < 20; ++i) bench.press(Command::page_up);
  EXPECT_EQ(bench.view.scroll, 0);
}

TEST(Commands, FocusShowsTheSelectionThenAll) {
  Bench bench(pair_of("1f1b"));
  const TimeRange home = bench.scene.home;
  bench.pick("2B1", 1);
  const TimeRange bar = bench.range_of_picked();
  const TimeRange near = bench.press(Command::focus).range;
  EXPECT_EQ(near, (TimeRange{bar.from_ns - bar.length_ns(), bar.to_ns + bar.length_ns()}));
  EXPECT_EQ(bench.press(Command::focus).range, home);
  EXPECT_EQ(bench.press(Command::focus).range, near);
  bench.press(Command::clear);
  EXPECT_EQ(bench.press(Command::focus).range, home);  // nothing is selected
  View area = bench.view;
  area.area = TimeRange{2 * ms, 4 * ms};
  bench.show(area);
  EXPECT_EQ(bench.press(Command::focus).range, (TimeRange{1'900'000, 4'100'000}));
}

TEST(Commands, FitIsHomeThenTheWholeExtent) {
  Bench bench(pair_of("1f1b"));
  bench.press(Command::zoom_in);
  EXPECT_EQ(bench.press(Command::fit).range, bench.scene.home);
  EXPECT_EQ(bench.press(Command::fit).range, bench.scene.extent);
  EXPECT_EQ(bench.press(Command::fit).range, bench.scene.home);
}

TEST(Commands, NextAndPreviousWalkARowPastBubbles) {
  Bench bench(pair_of("1f1b"));
  bench.press(Command::next);
  EXPECT_EQ(bench.picked(), "0F0");  // nothing was picked: the first in sight
  // All of rank 0 in its order, there and back.
  std::vector<std::string> want;
  for (const Span& span : bench.document.traces[0]->run->spans) {
    if (span.rank == 0 && is_compute(span.action.kind)) want.push_back(to_text(span.action));
  }
  std::vector<std::string> got{bench.picked()};
  for (std::size_t i = 1; i < want.size(); ++i) {
    bench.press(Command::next);
    got.push_back(bench.picked());
    EXPECT_FALSE(bench.view.picked->bubble);
  }
  EXPECT_EQ(got, want);
  bench.press(Command::next);
  EXPECT_EQ(bench.picked(), want.back());  // nothing comes after it
  for (std::size_t i = want.size() - 1; i-- > 0;) {
    bench.press(Command::previous);
    EXPECT_EQ(bench.picked(), want[i]);
  }
}

TEST(Commands, FromABubbleToWhatIsBesideIt) {
  Bench bench(pair_of("1f1b"));
  Pick bubble = bench.pick_of("1F0");  // rank 1 waits for its first input
  bubble.bubble = true;
  View view = bench.view;
  view.picked = bubble;
  ASSERT_TRUE(find(bench.scene, bench.document, bubble));
  bench.show(view);
  bench.press(Command::next);
  EXPECT_EQ(bench.view.picked, bench.pick_of("1F0"));
}

TEST(Commands, FlowWalksAMicrobatchThroughThePipeline) {
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    Bench bench(pair_of(schedule));
    const bool split = std::string(schedule) == "zb-h1";
    const std::string back = split ? "I3" : "B3";
    std::vector<std::string> way;
    for (int s = 0; s < 4; ++s) way.push_back(std::to_string(s) + "F3");
    for (int s = 4; s-- > 0;) way.push_back(std::to_string(s) + back);
    if (split) way.emplace_back("0W3");
    for (const int trace : {0, 1}) {
      bench.pick(way.front(), trace);
      for (std::size_t i = 1; i < way.size(); ++i) {
        bench.press(Command::flow_forward);
        EXPECT_EQ(bench.picked(), way[i]);
        EXPECT_EQ(bench.view.picked->trace, trace);
        const TimeRange bar = bench.range_of_picked();
        EXPECT_TRUE(bar.from_ns >= bench.view.range.from_ns && bar.to_ns <= bench.view.range.to_ns);
      }
      bench.press(Command::flow_forward);
      EXPECT_EQ(bench.picked(), way.back());
      for (std::size_t i = way.size() - 1; i-- > 0;) {
        bench.press(Command::flow_back);
        EXPECT_EQ(bench.picked(), way[i]);
      }
      bench.press(Command::flow_back);
      EXPECT_EQ(bench.picked(), way.front());
    }
  }
}

TEST(Commands, FlowLeadsThroughTransfersToo) {
  Bench bench(pair_of("1f1b"));
  bench.press(Command::toggle_transfers);
  bench.pick("1SEND_F2");
  bench.press(Command::flow_forward);
  EXPECT_EQ(bench.picked(), "2F2");
  bench.pick("1SEND_F2");
  bench.press(Command::flow_back);
  EXPECT_EQ(bench.picked(), "1F2");
  bench.pick("1RECV_B2");
  bench.press(Command::flow_back);
  EXPECT_EQ(bench.picked(), "2B2");
  bench.pick("1RECV_B2");
  bench.press(Command::flow_forward);
  EXPECT_EQ(bench.picked(), "1B2");
}

// Along the arrows of a trace in which no pipeline is known: the first to end, the
// last to start.
TEST(Commands, FlowOfEventsFollowsArrows) {
  EventTrace events;
  events.tracks.resize(2);
  events.texts = {"", "work"};
  for (std::uint32_t track = 0; track < 2; ++track) {
    for (int i = 0; i < 3; ++i) events.slices.push_back({i * 100, i * 100 + 50, 1, track});
  }
  events.arrows = {{0, 4}, {0, 5}, {1, 5}};
  OpenTrace trace;
  trace.events = std::move(events);
  Document document;
  document.traces.push_back(std::make_shared<OpenTrace>(std::move(trace)));
  const Scene scene = build_scene(document, {});
  ASSERT_EQ(scene.arrows.size(), 3U);
  EXPECT_EQ(along_flow(document, scene, {0, 0}, 1), (Pick{0, 4}));
  EXPECT_EQ(along_flow(document, scene, {0, 5}, -1), (Pick{0, 1}));
  EXPECT_EQ(along_flow(document, scene, {0, 4}, 1), std::nullopt);
  EXPECT_EQ(along_flow(document, scene, {0, 0}, -1), std::nullopt);
}

TEST(Commands, OtherSideIsTheSameAction) {
  Bench bench(pair_of("1f1b"));
  bench.pick("2B4");
  bench.press(Command::other_side);
  EXPECT_EQ(bench.view.picked, bench.pick_of("2B4", 1));
  bench.press(Command::other_side);
  EXPECT_EQ(bench.view.picked, bench.pick_of("2B4", 0));
}

TEST(Commands, SelectionBecomesTheArea) {
  Bench bench(pair_of("1f1b"));
  bench.press(Command::select_area);
  EXPECT_FALSE(bench.view.area);
  bench.pick("2B4", 1);
  bench.press(Command::select_area);
  EXPECT_EQ(bench.view.area, bench.range_of_picked());
  bench.press(Command::clear);
  EXPECT_FALSE(bench.view.area || bench.view.picked);
  View view = bench.view;
  view.emphasised = {bench.pick_of("0F0"), bench.pick_of("3B5", 1)};
  bench.show(view);
  bench.press(Command::select_area);
  EXPECT_EQ(bench.view.area,
            (TimeRange{find(bench.scene, bench.document, view.emphasised[0])->range.from_ns,
                       find(bench.scene, bench.document, view.emphasised[1])->range.to_ns}));
  bench.press(Command::clear);
  EXPECT_TRUE(bench.view.emphasised.empty());
}

TEST(Commands, MarksAreSetAndTakenAway) {
  Bench bench(pair_of("1f1b"));
  bench.press(Command::mark);
  const TimeRange range = bench.view.range;
  const std::int64_t middle = range.from_ns + range.length_ns() / 2;
  EXPECT_EQ(bench.view.marks, std::vector{middle});
  bench.pick("0F0");
  bench.press(Command::mark);
  EXPECT_EQ(bench.view.marks, (std::vector<std::int64_t>{0, middle}));
  bench.press(Command::mark);  // again: taken away
  EXPECT_EQ(bench.view.marks, std::vector{middle});
  bench.press(Command::clear_marks);
  EXPECT_TRUE(bench.view.marks.empty());
}

TEST(Commands, PinsTheGroupOfTheSelection) {
  Bench bench(pair_of("1f1b"));
  bench.press(Command::pin);
  EXPECT_TRUE(bench.view.pinned.empty());
  bench.pick("2F0");
  bench.press(Command::pin);
  EXPECT_EQ(bench.view.pinned, std::set<std::string>{"rank 2"});
  bench.press(Command::pin);
  EXPECT_TRUE(bench.view.pinned.empty());
}

// The picked bar stays at its place on the screen, whatever its trace's clock says.
TEST(Commands, AlignmentsByTimeKeepTheSelectionInSight) {
  for (const int trace : {0, 1}) {
    Bench bench(pair_of("1f1b"));
    bench.pick("2B1", trace);
    bench.press(Command::focus);
    bench.press(Command::mark);
    const auto place = [&] { return bench.range_of_picked().from_ns - bench.view.range.from_ns; };
    const std::int64_t before = place();
    const std::int64_t length = bench.view.range.length_ns();
    bench.press(Command::align_absolute);
    EXPECT_EQ(bench.scene.options.alignment, Alignment::absolute);
    EXPECT_EQ(bench.range_of_picked().from_ns >= 1000 * ms, trace == 1);
    EXPECT_EQ(place(), before);
    EXPECT_EQ(bench.view.range.length_ns(), length);
    EXPECT_EQ(bench.view.marks, std::vector{bench.range_of_picked().from_ns});
    bench.press(Command::align_iteration);
    EXPECT_EQ(place(), before);
  }
}

TEST(Commands, PlacesInAListAreShownFromHome) {
  Bench bench(pair_of("1f1b"));
  bench.pick("2B1");
  bench.press(Command::focus);
  bench.press(Command::mark);
  bench.press(Command::align_slot);
  EXPECT_EQ(bench.view.range, bench.scene.home);
  EXPECT_EQ(bench.scene.extent.length_ns(), 12 * slot_ns);  // 6 microbatches, F and B
  EXPECT_TRUE(bench.view.marks.empty());
  bench.press(Command::zoom_in);
  bench.press(Command::align_iteration);
  EXPECT_EQ(bench.view.range, bench.scene.home);
}

TEST(Commands, DifferenceIsColouredByErrorUntilItIsLeft) {
  Bench bench(pair_of("1f1b"));
  const auto colouring = [&] { return bench.view.options.colouring; };
  bench.press(Command::show_difference);
  EXPECT_EQ(bench.view.options.show, Show::difference);
  EXPECT_EQ(colouring(), Colouring::error);
  bench.press(Command::show_stacked);
  EXPECT_EQ(bench.view.options.show, Show::stacked);
  EXPECT_EQ(colouring(), Colouring::kind);
  bench.press(Command::colour_microbatch);
  bench.press(Command::show_difference);
  EXPECT_EQ(colouring(), Colouring::microbatch);  // what was chosen stays
  bench.press(Command::show_overlay);
  EXPECT_EQ(bench.view.options.show, Show::overlay);
  EXPECT_EQ(colouring(), Colouring::microbatch);
  bench.press(Command::colour_error);
  bench.press(Command::show_stacked);
  EXPECT_EQ(colouring(), Colouring::error);
  bench.press(Command::colour_kind);
  EXPECT_EQ(colouring(), Colouring::kind);
}

TEST(Commands, TogglesToggle) {
  Bench bench(pair_of("1f1b"));
  const View before = bench.view;
  const auto twice = [&](Command command, auto value) {
    bench.press(command);
    EXPECT_NE(value(bench.view), value(before));
    bench.press(command);
    EXPECT_EQ(bench.view, before);
  };
  twice(Command::toggle_arrows, [](const View& view) { return view.arrows; });
  twice(Command::toggle_curves, [](const View& view) { return view.curves; });
  twice(Command::toggle_critical, [](const View& view) { return view.options.critical; });
  twice(Command::toggle_transfers, [](const View& view) { return view.options.transfers; });
}

TEST(Commands, WithoutAPairNothingIsCompared) {
  Bench bench(alone("1f1b"));
  bench.pick("1F1");
  const View before = bench.view;
  for (const Command command :
       {Command::other_side, Command::show_overlay, Command::show_difference, Command::colour_error,
        Command::undo, Command::redo}) {
    EXPECT_EQ(bench.press(command), before);
  }
}

TEST(Commands, MeanNothingWhereNothingIsOpen) {
  Bench bench{Document{}};
  for (const CommandHelp& help : command_list()) {
    bench.press(help.command);
    EXPECT_FALSE(bench.view.picked);
    EXPECT_GE(bench.view.range.length_ns(), 0);
  }
}

TEST(Picking, MovesNoMoreThanNeeded) {
  Bench bench(pair_of("1f1b"));
  const TimeRange home = bench.view.range;
  EXPECT_EQ(bench.pick("3B5").range, home);  // it is in sight
  bench.pick("0F0");
  bench.press(Command::focus);
  const TimeRange near = bench.view.range;
  bench.pick("3B5");
  const TimeRange bar = bench.range_of_picked();
  EXPECT_EQ(bench.view.range.length_ns(), near.length_ns());
  EXPECT_GE(bench.view.range.to_ns, bar.to_ns);
  EXPECT_LE(bench.view.range.to_ns - bar.to_ns, near.length_ns() / 20);
  bench.pick("0F0");
  EXPECT_LE(bench.view.range.from_ns, 0);
  EXPECT_GE(bench.view.range.from_ns, -near.length_ns() / 20);
}

TEST(Picking, ScrollsToTheGroup) {
  Bench bench(pair_of("1f1b"));
  bench.press(Command::toggle_transfers);
  bench.pick("3F0");
  Picture picture = bench.picture();
  EXPECT_GT(bench.view.scroll, 0);
  EXPECT_EQ(picture.groups[3].y + picture.groups[3].height, 200);  // just in sight
  bench.pick("0F0");
  EXPECT_EQ(bench.view.scroll, 0);
  // A filter that hides it goes.
  View view = bench.view;
  view.filter = "rank 1";
  bench.show(view);
  EXPECT_EQ(bench.pick("1F1").filter, "rank 1");
  EXPECT_EQ(bench.pick("2F1").filter, "");
}

// Of pictures as they are drawn, with curves, pinned groups and little room.
TEST(Picking, BringsEveryBarIntoSight) {
  std::mt19937_64 random(5);
  Bench bench(pair_of("zb-h1"));
  const Canvas canvas{900, 280};
  const Palette colours = palette(Theme::light, Colouring::kind);
  bench.press(Command::toggle_transfers);
  const auto drawn = [&] {
    return layout(bench.document, bench.scene, bench.view, canvas, colours);
  };
  for (int i = 0; i < 300; ++i) {
    if (i % 40 == 0) {
      View view = bench.view;
      view.curves = i % 80 == 0;
      view.pinned = i % 120 == 0 ? std::set<std::string>{"rank 1"} : std::set<std::string>{};
      bench.show(view);
    }
    const int trace = static_cast<int>(testing::pick(random, 0, 1));
    const auto& spans = bench.document.traces[static_cast<std::size_t>(trace)]->run->spans;
    const Pick pick{trace, static_cast<Ref>(testing::pick(random, 0, std::ssize(spans) - 1))};
    if (i % 7 == 0)
      bench.show(apply(Command::focus, bench.document, bench.scene, bench.view, drawn()));
    bench.show(with_pick(bench.document, bench.scene, bench.view, pick, drawn()));
    const auto place = find(bench.scene, bench.document, pick);
    ASSERT_TRUE(place);
    EXPECT_LE(bench.view.range.from_ns, place->range.to_ns);
    EXPECT_GE(bench.view.range.to_ns, place->range.from_ns);
    const Picture picture = drawn();
    EXPECT_TRUE(std::ranges::any_of(picture.rows,
                                    [&](const PlacedRow& row) {
                                      return row.group == place->group && row.lane == place->lane &&
                                             row.row == place->row;
                                    }))
        << i << ": " << to_text(spans[pick.ref].action);
    EXPECT_LE(bench.view.scroll, greatest_scroll(picture));
  }
}

TEST(Emphasis, ShowsAllThatItIsAboutAndLittleElse) {
  Bench bench(pair_of("1f1b"));
  const std::vector<Pick> about{bench.pick_of("2F1"), bench.pick_of("2F3", 1)};
  bench.show(with_emphasis(bench.document, bench.scene, bench.view, about, bench.picture()));
  EXPECT_EQ(bench.view.emphasised, about);
  const TimeRange all = *range_of(bench.document, bench.scene, about);
  EXPECT_LT(bench.view.range.from_ns, all.from_ns);
  EXPECT_GT(bench.view.range.to_ns, all.to_ns);
  EXPECT_LT(bench.view.range.length_ns(), all.length_ns() * 13 / 10);
  // Of nothing that is on a row: emphasised, but not moved.
  const TimeRange before = bench.view.range;
  bench.show(with_emphasis(bench.document, bench.scene, bench.view, {Pick{}}, bench.picture()));
  EXPECT_EQ(bench.view.range, before);
}

void expect_valid(const Bench& bench) {
  const View& view = bench.view;
  EXPECT_GE(view.range.length_ns(), min_range_ns);
  EXPECT_EQ(view.range, kept_within(view.range, bench.scene.extent));
  EXPECT_GE(view.scroll, 0);
  EXPECT_TRUE(std::ranges::is_sorted(view.marks));
  EXPECT_EQ(std::ranges::adjacent_find(view.marks), view.marks.end());
  EXPECT_EQ(bench.scene.options, view.options);
  if (view.area) {
    EXPECT_LE(view.area->from_ns, view.area->to_ns);
  }
}

// Whatever is pressed, the view is valid, and undo leads back to each view as it was.
TEST(Commands, RandomSequencesKeepTheViewValidAndAreUndone) {
  std::mt19937_64 random(3);
  const auto list = command_list();
  for (const char* schedule : {"1f1b", "zb-h1", "gpipe"}) {
    for (int run = 0; run < 15; ++run) {
      Bench bench(run % 5 == 4 ? alone(schedule) : pair_of(schedule));
      History history(bench.view);
      std::vector<View> steps{bench.view};
      for (int i = 0; i < 120; ++i) {
        const auto at = testing::pick(random, 0, std::ssize(list) - 1);
        const CommandHelp& help = list[static_cast<std::size_t>(at)];
        bench.press(help.command);
        SCOPED_TRACE(::testing::Message()
                     << schedule << " run " << run << ", step " << i << ": " << help.title);
        expect_valid(bench);
        if (::testing::Test::HasFailure()) return;
        const bool steps_on = [&] {
          View same = bench.view;
          same.picked = history.now().picked;
          same.emphasised = history.now().emphasised;
          same.area = history.now().area;
          return !(same == history.now());
        }();
        history.push(bench.view);
        if (steps_on) steps.emplace_back();
        steps.back() = bench.view;
      }
      for (std::size_t i = steps.size(); i-- > 1;) {
        ASSERT_TRUE(history.can_undo());
        ASSERT_EQ(history.undo(), steps[i - 1]);
      }
      EXPECT_FALSE(history.can_undo());
    }
  }
}

}  // namespace
}  // namespace pipesim::gui
