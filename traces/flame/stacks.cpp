#include "traces/flame/stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "traces/arrivals.h"
#include "traces/dependency.h"

namespace pipesim {
namespace {

// Simultaneous actions of a rank, usually one.
struct Cell {
  std::size_t place = 0;  // index of the first among the step's spans
  std::size_t size = 0;
  bool has_forward = false;
  bool has_backward = false;
};

// A rank's cells in a step, and which of its times are warm-up and drain.
class RankCells {
 public:
  void add(const Cell& cell) {
    if (cell.has_backward) first_backward_ = std::min(first_backward_, cells_.size());
    cells_.push_back(cell);
    if (cell.has_forward) forwards_end_ = cells_.size();
  }
  const std::vector<Cell>& cells() const { return cells_; }

  // The phase of the idle time before a cell, as in bubbles.h, and of the cell itself.
  BubbleKind before(std::size_t cell) const {
    return cell == first_backward_ ? BubbleKind::warmup : during(cell);
  }
  BubbleKind during(std::size_t cell) const {
    if (cell < first_backward_) return BubbleKind::warmup;
    return cell >= forwards_end_ ? BubbleKind::drain : BubbleKind::steady;
  }

 private:
  std::vector<Cell> cells_;
  std::size_t first_backward_ = static_cast<std::size_t>(-1);
  std::size_t forwards_end_ = 0;
};

std::vector<RankCells> cells_of(std::span<const Span> spans, int ranks) {
  std::vector<RankCells> of_rank(static_cast<std::size_t>(ranks));
  Cell cell;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Action& action = spans[i].action;
    if (is_collective(action) || (!is_compute(action.kind) && !is_closing(action))) continue;
    if (cell.size++ == 0) cell.place = i;
    cell.has_forward = cell.has_forward || action.kind == Kind::F;
    cell.has_backward = cell.has_backward || is_backward(action.kind);
    if (action.joined) continue;
    of_rank[static_cast<std::size_t>(spans[i].rank)].add(cell);
    cell = {};
  }
  return of_rank;
}

// The category of the mark that PyTorch's profiler lays over the whole recording.
constexpr std::string_view profilers_mark = "Trace";

std::string_view name_of(BubbleKind phase) { return bubble_names[static_cast<std::size_t>(phase)]; }

// What the rank waited for while idle before a cell.
std::string cause_of(const IdleSpan& idle, std::span<const Span> cell) {
  const Span& waiting = *std::ranges::max_element(cell, {}, &Span::input_arrival_ns);
  const std::int32_t from = input_stage(waiting.action);
  if (idle.kind == BubbleKind::p2p) {
    const bool transfer =
        waiting.has_input() && idle.end_ns == std::min(waiting.input_arrival_ns, waiting.start_ns);
    return transfer ? fmt::format("transfer from stage {}", from) : "collective";
  }
  if (is_blocking_collective(waiting.action.kind)) {
    return fmt::format("waits for the others of {}", kind_name(waiting.action.kind));
  }
  if (!waiting.has_input() || idle.end_ns > waiting.input_sent_ns) return "waits for no input";
  return fmt::format("waits for {} of stage {}", waiting.action.kind == Kind::F ? "F" : "backward",
                     from);
}

std::array<StackFrame, 3> idle_frames(BubbleKind kind, BubbleKind phase, std::string cause) {
  return {StackFrame{"idle", {}, {}}, StackFrame{std::string(name_of(phase)), {}, phase},
          StackFrame{std::move(cause), {}, kind}};
}

std::array<StackFrame, 3> work_frames(std::span<const Span> cell, BubbleKind phase) {
  const Action& action = cell.front().action;
  const std::string_view named = is_closing(action) ? "closing" : name_of(phase);
  if (cell.size() == 1) {
    return {StackFrame{fmt::format("stage {}", action.stage), {}, {}},
            StackFrame{std::string(named), {}, {}},
            StackFrame{std::string(kind_name(action.kind)), action.kind, {}}};
  }
  return {StackFrame{fmt::format("stages {}, {}", action.stage, cell[1].action.stage), {}, {}},
          StackFrame{std::string(named), {}, {}}, StackFrame{"OVERLAP_F_B", Kind::B, {}}};
}

}  // namespace

void StackCollector::set_around(const std::string& around) { around_ = around; }

std::uint32_t StackCollector::frame_of(StackFrame frame) {
  const auto [entry, fresh] =
      places_.try_emplace(std::move(frame), static_cast<std::uint32_t>(stacks_.frames.size()));
  if (fresh) stacks_.frames.push_back(entry->first);
  return entry->second;
}

std::vector<std::uint32_t> StackCollector::path_of(std::string first, std::string second) {
  std::vector<std::uint32_t> path;
  if (!around_.empty()) path.push_back(frame_of({around_, {}, {}}));
  path.push_back(frame_of({std::move(first), {}, {}}));
  path.push_back(frame_of({std::move(second), {}, {}}));
  return path;
}

void StackCollector::add(const RecordedRun& run) {
  if (run.inputs) {
    for (int rank = 0; rank < run.ranks; ++rank) add_compute_stream(*run.inputs, rank);
    return;
  }
  for (const RecordedIteration& step : run.iterations) add_step(run, step);
}

void StackCollector::put(StackLine& line, std::int64_t from_ns, std::int64_t to_ns,
                         Innermost frames) {
  for (StackFrame& frame : frames) {
    line.events.push_back({from_ns, frame_of(std::move(frame)), true});
  }
  for (std::size_t opened = line.events.size(), i = 1; i <= frames.size(); ++i) {
    line.events.push_back({to_ns, line.events[opened - i].frame, false});
  }
}

void StackCollector::end_line(StackLine line) {
  if (use_) {
    use_(line);
  } else {
    stacks_.lines.push_back(std::move(line));
  }
}

void StackCollector::add_step(const RecordedRun& run, const RecordedIteration& step) {
  std::vector<Span> storage;
  const std::span<const Span> spans = told_spans(run, step, storage);
  const std::vector<RankCells> of_rank = cells_of(spans, run.ranks);
  const std::vector<IdleSpan> idle = idle_spans(spans, run.ranks, step.start_ns, step.makespan_ns);
  auto next = idle.begin();
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    StackLine line;
    line.path = path_of(fmt::format("step {}", step.number), fmt::format("rank {}", rank));
    line.start_ns = step.start_ns;
    line.end_ns = step.start_ns + step.makespan_ns;
    const std::vector<Cell>& cells = of_rank[rank].cells();
    std::int64_t done_ns = step.start_ns;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::span<const Span> cell = spans.subspan(cells[i].place, cells[i].size);
      for (; next != idle.end() && next->ended_by == cells[i].place; ++next) {
        put(line, next->start_ns, next->end_ns,
            idle_frames(next->kind, of_rank[rank].before(i), cause_of(*next, cell)));
        done_ns = next->end_ns;
      }
      // Time already covered by another cell counts once.
      const std::int64_t end_ns = std::ranges::max(cell, {}, &Span::end_ns).end_ns;
      if (end_ns <= done_ns) continue;
      put(line, done_ns, end_ns, work_frames(cell, of_rank[rank].during(i)));
      done_ns = end_ns;
    }
    if (next != idle.end() && next->rank == static_cast<std::int32_t>(rank)) {
      put(line, next->start_ns, next->end_ns,
          idle_frames(next->kind, BubbleKind::drain, "end of the step"));
      ++next;
    }
    if (!line.events.empty()) end_line(std::move(line));
  }
}

// Waits fill what actions leave.
void StackCollector::add_compute_stream(const InputRun& run, int rank) {
  StackLine line;
  line.path = path_of(run.program.name, fmt::format("rank {}", rank));
  line.end_ns = makespan_of(run);
  const std::vector<InputWait> waits = waits_of(run, rank);
  auto wait = waits.begin();
  std::int64_t done_ns = 0;
  bool is_before = true;  // its first action
  const auto put_waits = [&](std::int64_t until_ns) {
    for (; wait != waits.end() && wait->end_ns <= until_ns; ++wait) {
      const bool moves = wait->kind && moves_data(*wait->kind);
      const BubbleKind why = wait->what == "drain" ? BubbleKind::drain
                             : moves               ? BubbleKind::p2p
                             : is_before           ? BubbleKind::warmup
                                                   : BubbleKind::steady;
      put(line, wait->start_ns, wait->end_ns,
          {StackFrame{"waits", {}, {}}, StackFrame{std::string(name_of(why)), {}, why},
           StackFrame{std::string(wait->what), {}, why}});
      done_ns = wait->end_ns;
    }
  };
  const InputCalls& calls = run.program.calls[static_cast<std::size_t>(rank)];
  for (std::size_t place = 0; place < calls.size(); ++place) {
    if (calls[place].stream != InputStream::compute) continue;
    const InputSpan& span = run.span(rank, place);
    put_waits(std::max(span.start_ns, done_ns));
    is_before = false;
    if (span.end_ns <= done_ns) continue;
    const Kind kind = calls[place].action.kind;
    put(line, done_ns, span.end_ns,
        {StackFrame{"compute stream", {}, {}},
         StackFrame{std::string(input_group_name(input_group_of(kind))), {}, {}},
         StackFrame{std::string(kind_name(kind)), kind, {}}});
    done_ns = span.end_ns;
  }
  put_waits(line.end_ns);
  if (!line.events.empty()) end_line(std::move(line));
}

std::vector<std::uint32_t> slices_in_order(const EventTrace& events, std::size_t begin,
                                           std::size_t end) {
  std::vector<std::uint32_t> order;
  order.reserve(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    const Slice& slice = events.slices[i];
    if (slice.end_ns > slice.start_ns && events.text(slice.category) != profilers_mark) {
      order.push_back(static_cast<std::uint32_t>(i));
    }
  }
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const Slice& first = events.slices[a];
    const Slice& second = events.slices[b];
    return std::tuple(first.start_ns, second.end_ns, first.row, a) <
           std::tuple(second.start_ns, first.end_ns, second.row, b);
  });
  return order;
}

void StackCollector::add(const EventTrace& events) {
  constexpr std::uint32_t unknown = static_cast<std::uint32_t>(-1);
  std::vector<std::uint32_t> frame_of_text(events.texts.size(), unknown);
  each_track(events, [&](std::size_t begin, std::size_t end) {
    const std::vector<std::uint32_t> order = slices_in_order(events, begin, end);
    if (order.empty()) return;
    const EventTrack& track = events.tracks[events.slices[begin].track];
    StackLine line;
    line.path = path_of(track.process, track.name);
    line.events.reserve(2 * order.size());
    const auto put = [&](std::uint32_t slice, std::int64_t at_ns, bool opens) {
      const std::uint32_t text = events.slices[slice].name;
      if (frame_of_text[text] == unknown) {
        frame_of_text[text] = frame_of({std::string(events.text(text)), {}, {}, true});
      }
      line.events.push_back({at_ns, frame_of_text[text], opens});
    };
    play_slices(
        events, order, [&](std::uint32_t slice, std::int64_t at_ns) { put(slice, at_ns, true); },
        [&](std::uint32_t slice, std::int64_t at_ns) { put(slice, at_ns, false); });
    line.start_ns = line.events.front().at_ns;
    line.end_ns = line.events.back().at_ns;
    end_line(std::move(line));
  });
}

}  // namespace pipesim
