// What there is to say of one bar, on both sides of the pair.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>

#include "gui/scene/run_times.h"
#include "gui/tables/table_rows.h"
#include "gui/tables/tables.h"
#include "traces/bubbles.h"

namespace pipesim::gui {
namespace {

// One trace's column: a span, and the operation that it is, where it is compared.
struct Column {
  int trace = -1;
  Ref ref = no_ref;  // none: the trace does not have it
  std::optional<Side> side;
  OperationId operation = no_operation;

  bool exists() const { return ref != no_ref; }
};

// The operation of an action, whatever its iteration.
OperationId operation_of(const Operations& operations, const Action& action) {
  return operations.find(is_receive(action.kind) ? peer_of(action) : action);
}

class Details {
 public:
  Details(const Document& document, const Scene& scene, const Pick& pick)
      : document_(document), scene_(scene), pick_(pick) {
    const auto side = document.side_of(pick.trace);
    const RecordedRun& run = run_of(pick.trace);
    action_ = run.spans[pick.ref].action;
    table_.title = (pick.bubble ? "idle before " : "") + to_text(action_);
    table_.columns.push_back(text_column(table_.title));
    if (!side) {
      columns_ = {{pick.trace, pick.ref, {}, no_operation}};
      table_.columns.push_back(text_column(name_of_run(document, pick.trace)));
      return;
    }
    for (const Side own : both_sides) {
      columns_.push_back(own == *side ? column_of_pick(own) : column_of_other(own));
      table_.columns.push_back(text_column(name_of_side(document, own)));
    }
    table_.columns.push_back(text_column("difference"));
  }

  Table table() {
    table_.note = sentence();
    if (pick_.bubble) {
      add_idle_time();
    } else {
      add_action();
    }
    // The first row is there: what is picked exists.
    for (const Column& column : columns_) {
      if (column.exists())
        table_.rows.front().about.push_back({column.trace, column.ref, pick_.bubble});
    }
    return std::move(table_);
  }

 private:
  const RecordedRun& run_of(int trace) const { return *document_.trace(trace).run; }
  const Span& span_of(const Column& column) const { return run_of(column.trace).spans[column.ref]; }
  const Comparison& comparison() const { return document_.pair->comparison; }
  const Operations& operations() const { return comparison().operations; }

  Column column_of_pick(Side side) const {
    return {pick_.trace, pick_.ref, side, document_.pair->find(side, pick_.ref)};
  }

  // The same action in the iteration that stands for the other run.
  Column column_of_other(Side side) const {
    const Pair& pair = *document_.pair;
    Column column{pair.trace[side], no_ref, side, operation_of(operations(), action_)};
    if (column.operation == no_operation) return column;
    column.ref = pair.span_of[side][column.operation];
    if (column.ref == no_ref || !is_receive(action_.kind)) return column;
    // A RECV beside a RECV.
    const std::size_t first = pair.first_span[side];
    const RecordedRun& run = run_of(column.trace);
    for (std::size_t i = column.ref; i < first + pair.operation_of[side].size(); ++i) {
      const Action& own = run.spans[i].action;
      if (pair.operation_of[side][i - first] == column.operation && is_receive(own.kind)) {
        column.ref = static_cast<Ref>(i);
        break;
      }
    }
    return column;
  }

  // When the iteration of a column's span starts, by its rank's clock.
  std::int64_t zero_of(const Column& column) const {
    const RecordedRun& run = run_of(column.trace);
    const Span& span = span_of(column);
    const std::int64_t ahead = clock_ahead_ns(document_, column.trace, span.rank);
    if (column.operation != no_operation) return comparison().sides[*column.side].start_ns + ahead;
    const auto iteration = std::ranges::upper_bound(run.iterations, std::size_t{column.ref}, {},
                                                    &RecordedIteration::end);
    return iteration->start_ns + ahead;
  }

  // What a column says as text, or nothing.
  using Text = std::function<std::string(const Column&)>;
  using Value = std::function<std::optional<std::int64_t>(const Column&)>;

  void text_row(const char* label, const Text& text) {
    std::vector<std::string> cells;
    for (const Column& column : columns_) cells.push_back(column.exists() ? text(column) : "");
    add_row(label, std::move(cells), {});
  }

  void value_row(const char* label, const Value& value,
                 const std::function<std::string(std::int64_t)>& text) {
    std::vector<std::string> cells;
    std::vector<std::optional<std::int64_t>> values;
    for (const Column& column : columns_) {
      values.push_back(column.exists() ? value(column) : std::nullopt);
      cells.push_back(values.back() ? text(*values.back()) : "");
    }
    std::string difference;
    if (values.size() == 2 && values[0] && values[1])
      difference = signed_time(*values[1] - *values[0]);
    add_row(label, std::move(cells), difference);
  }

  void time_row(const char* label, const Value& value) { value_row(label, value, format_time); }
  void instant_row(const char* label, const Value& value) { value_row(label, value, instant); }

  // Left out where no cell has anything.
  void add_row(const char* label, std::vector<std::string> cells, const std::string& difference) {
    if (difference.empty() &&
        std::ranges::all_of(cells, [](const std::string& cell) { return cell.empty(); })) {
      return;
    }
    RowOf row(table_);
    row.text(label);
    for (const std::string& cell : cells) row.text(cell);
    if (columns_.size() == 2) row.text(difference);
  }

  void add_action() {
    add_rank();
    text_row("iteration", [&](const Column& column) { return iteration_text(column); });
    instant_row("start", [&](const Column& c) { return span_of(c).start_ns - zero_of(c); });
    instant_row("end", [&](const Column& c) { return span_of(c).end_ns - zero_of(c); });
    time_row("duration", [&](const Column& c) { return span_of(c).end_ns - span_of(c).start_ns; });
    add_quantiles();
    time_row("stood at it", [&](const Column& column) {
      const std::int64_t queued = span_of(column).queued_ns;
      return queued > 0 ? std::optional(queued) : std::nullopt;
    });
    text_row("waited for", [&](const Column& column) { return awaited_text(column); });
    instant_row("input sent", [&](const Column& c) { return input_time(c, &Span::input_sent_ns); });
    instant_row("input arrived",
                [&](const Column& c) { return input_time(c, &Span::input_arrival_ns); });
    add_transfer();
    time_row("slack", [&](const Column& column) -> std::optional<std::int64_t> {
      if (column.operation == no_operation) return std::nullopt;
      return comparison().sides[*column.side].played.slack_ns[column.operation];
    });
    add_lateness();
    text_row("on critical path", [&](const Column& column) -> std::string {
      if (column.operation == no_operation) return {};
      const auto& path = comparison().sides[*column.side].played.critical_path;
      return std::ranges::find(path, column.operation) != path.end() ? "yes" : "no";
    });
    text_row("identified", [&](const Column& column) {
      const Identified how = run_of(column.trace).identified;
      return how == Identified::exact ? std::string() : std::string(identified_name(how));
    });
  }

  // What the name stands for, once for all columns.
  std::string sentence() const {
    std::string text(kind_name(action_.kind));
    text += fmt::format(" of stage {}", action_.stage);
    if (takes_microbatch(action_.kind)) text += fmt::format(", microbatch {}", action_.microbatch);
    text = (pick_.bubble ? "Idle before " : "") + text;
    return text + (same_rank() ? fmt::format(", on rank {}.", span_of(picked()).rank) : ".");
  }

  const Column& picked() const {
    return *std::ranges::find_if(columns_, [&](const Column& column) {
      return column.trace == pick_.trace && column.ref == pick_.ref;
    });
  }

  bool same_rank() const {
    return std::ranges::all_of(columns_, [&](const Column& column) {
      return !column.exists() || span_of(column).rank == span_of(picked()).rank;
    });
  }

  void add_rank() {
    if (same_rank()) return;
    text_row("rank", [&](const Column& column) { return fmt::format("{}", span_of(column).rank); });
  }

  std::string iteration_text(const Column& column) const {
    const RecordedRun& run = run_of(column.trace);
    std::string text = fmt::format("{}", span_of(column).iteration);
    if (run.iterations.size() > 1 && column.side && column.operation != no_operation) {
      text += ", median";
    }
    return text;
  }

  void add_quantiles() {
    if (columns_.size() != 2) return;
    for (const StageKind& row : comparison().stage_kinds) {
      if (row.is_cell || row.stage != action_.stage || row.kind != action_.kind) continue;
      const auto add = [&](const char* label, auto quantile) {
        const auto text = [&](const Quantiles& of) {
          return of.count == 0 ? std::string() : format_time(quantile(of));
        };
        add_row(label, {text(row.predicted), text(row.measured)}, {});
      };
      add("p10 of its kind", [](const Quantiles& of) { return of.p10; });
      add("p90 of its kind", [](const Quantiles& of) { return of.p90; });
    }
  }

  std::string awaited_text(const Column& column) const {
    if (column.operation == no_operation) return {};
    const auto& sides = comparison().sides;
    const OperationId awaited = sides[*column.side].played.awaited[column.operation];
    if (awaited == no_operation) return "nothing";
    const std::string name = to_text(operations().actions[awaited]);
    if (operations().transfers(awaited)) return name;
    const std::int32_t rank = operations().sides[*column.side][awaited].rank;
    return fmt::format("{}, rank {}", name, rank);
  }

  // By the clock that the iteration counts by.
  std::optional<std::int64_t> input_time(const Column& column, std::int64_t Span::*time) const {
    const Span& span = span_of(column);
    if (!span.has_input()) return std::nullopt;
    if (column.operation == no_operation) return span.*time - zero_of(column);
    const OperationId input = operations().sides[*column.side][column.operation].input;
    if (input == no_operation || !operations().transfers(input)) return std::nullopt;
    const Occurrence& way = operations().sides[*column.side][input];
    return time == &Span::input_sent_ns ? way.sent_ns : way.end_ns;
  }

  void add_transfer() {
    if (!is_communication(action_) && action_.kind != Kind::SAVE) return;
    text_row("moves", [&](const Column& column) {
      const std::int64_t bytes = span_of(column).bytes;
      return bytes > 0 ? format_bytes(bytes) : std::string();
    });
    text_row("rate", [&](const Column& column) -> std::string {
      const Span& span = span_of(column);
      const std::int64_t took_ns = span.end_ns - span.start_ns;
      if (span.bytes == 0 || took_ns <= 0) return {};
      const double rate = static_cast<double>(span.bytes) * 1e9 / static_cast<double>(took_ns);
      return rate < 9e18 ? format_bytes(static_cast<std::int64_t>(rate)) + "/s" : std::string();
    });
    if (columns_.size() != 2 || !is_transfer(action_.kind)) return;
    const auto way = [&](const Column& column, auto value) -> std::optional<std::int64_t> {
      if (column.operation == no_operation) return std::nullopt;
      return value(operations().sides[*column.side][column.operation]);
    };
    instant_row("sent", [&](const Column& column) {
      return way(column, [](const Occurrence& own) { return own.sent_ns; });
    });
    instant_row("both ends there", [&](const Column& column) {
      return way(column, [](const Occurrence& own) { return own.start_ns; });
    });
    instant_row("arrived", [&](const Column& column) {
      return way(column, [](const Occurrence& own) { return own.end_ns; });
    });
  }

  void add_lateness() {
    if (columns_.size() != 2 || columns_[0].operation == no_operation ||
        columns_[0].operation != columns_[1].operation) {
      return;
    }
    const OperationId id = columns_[0].operation;
    if (!operations().matched(id) || operations().transfers(id)) return;
    const Lateness& late = comparison().lateness[id];
    const auto add = [&](const char* label, std::int64_t ns) {
      add_row(label, {"", ""}, signed_time(ns));
    };
    add("ends late: itself", late.own_ns);
    add("  its start", late.launch_ns);
    add("  travel of its input", late.communication_ns);
    add("  what it waits for", late.inherited_ns);
  }

  // By BubbleKind, of the idle time before a column's span; nothing where the scene
  // does not show its lane.
  using IdleSums = std::array<std::int64_t, 4>;
  std::optional<IdleSums> idle_before(const Column& column) const {
    if (!column.exists() || !find(scene_, document_, {column.trace, column.ref, false})) {
      return std::nullopt;
    }
    IdleSums sums{};
    if (const auto place = find(scene_, document_, {column.trace, column.ref, true})) {
      const Lane& lane = scene_.groups[static_cast<std::size_t>(place->group)]
                             .lanes[static_cast<std::size_t>(place->lane)];
      const BarRow& row = lane.rows[static_cast<std::size_t>(place->row)];
      for (std::size_t i = place->bar;
           i < row.size() && is_bubble(row[i].shade) && row[i].ref == column.ref; ++i) {
        sums[row[i].shade - first_bubble_shade] += row.end_ns(i) - row.start_ns(i);
      }
    }
    return sums;
  }

  void add_idle_time() {
    add_rank();
    text_row("iteration", [&](const Column& column) { return iteration_text(column); });
    std::vector<std::optional<IdleSums>> sums;
    for (const Column& column : columns_) sums.push_back(idle_before(column));
    const auto of = [&](const Column& column) {
      return sums[static_cast<std::size_t>(&column - columns_.data())];
    };
    for (std::size_t kind = 0; kind < 4; ++kind) {
      if (std::ranges::all_of(sums, [&](const auto& own) { return !own || (*own)[kind] == 0; })) {
        continue;
      }
      time_row(meaning_of(static_cast<BubbleKind>(kind)).c_str(), [&](const Column& column) {
        const auto own = of(column);
        return own ? std::optional((*own)[kind]) : std::nullopt;
      });
    }
    time_row("in all", [&](const Column& column) {
      const auto own = of(column);
      return own ? std::optional(std::accumulate(own->begin(), own->end(), std::int64_t{0}))
                 : std::nullopt;
    });
    text_row("ended by", [&](const Column& column) {
      const std::string awaited = awaited_text(column);
      return awaited.empty() ? awaited : "the end of " + awaited;
    });
    instant_row("input sent", [&](const Column& c) { return input_time(c, &Span::input_sent_ns); });
    instant_row("input arrived",
                [&](const Column& c) { return input_time(c, &Span::input_arrival_ns); });
  }

  static std::string meaning_of(BubbleKind kind) {
    const std::string name(bubble_names[static_cast<std::size_t>(kind)]);
    switch (kind) {
      case BubbleKind::warmup: return name + ": before its first backward";
      case BubbleKind::steady: return name + ": between forwards and backwards";
      case BubbleKind::drain: return name + ": after its last forward";
      default: return name + ": its input was on its way";
    }
  }

  const Document& document_;
  const Scene& scene_;
  Pick pick_;
  Action action_;
  std::vector<Column> columns_;
  Table table_;
};

// The time of a slice that no bar of the row below it fills.
std::optional<std::int64_t> own_time_ns(const Document& document, const Scene& scene,
                                        const Pick& pick) {
  const auto place = find(scene, document, pick);
  if (!place) return std::nullopt;
  const auto& rows = scene.groups[static_cast<std::size_t>(place->group)]
                         .lanes[static_cast<std::size_t>(place->lane)]
                         .rows;
  const std::size_t below = static_cast<std::size_t>(place->row) + 1;
  if (below >= rows.size()) return std::nullopt;
  const Bar own = rows[below - 1][place->bar];
  const ShadeTimes before = rows[below].filled_before(own.start_ns);
  const ShadeTimes after = rows[below].filled_before(own.end_ns);
  const auto sum = [](const ShadeTimes& times) {
    return std::accumulate(times.begin(), times.end(), std::int64_t{0});
  };
  return own.end_ns - own.start_ns - (sum(after) - sum(before));
}

Table details_of_slice(const Document& document, const Scene& scene, const Pick& pick) {
  const EventTrace& events = *document.trace(pick.trace).events;
  const Slice& slice = events.slices[pick.ref];
  const std::int64_t took_ns = slice.end_ns - slice.start_ns;
  Table table;
  table.title = std::string(events.text(slice.name));
  table.columns = {text_column(""), text_column(events.name)};
  const auto add = [&](std::string_view label, std::string_view text) {
    if (!text.empty()) RowOf(table).text(label).text(text);
  };
  add("name", events.text(slice.name));
  add("category", events.text(slice.category));
  const EventTrack& track = events.tracks[slice.track];
  add("track", track.process.empty() ? track.name : track.process + ", " + track.name);
  add("start", instant(slice.start_ns - first_start_ns(events)));
  add("duration", format_time(took_ns));
  const auto own_ns = own_time_ns(document, scene, pick);
  if (own_ns && *own_ns != took_ns) add("without what is in it", format_time(*own_ns));
  for (std::string_view line : split(events.text(slice.arguments), '\n')) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) {
      add("", line);
    } else {
      add(line.substr(0, colon), line.substr(colon + 2));
    }
  }
  if (!table.rows.empty()) table.rows.front().about.push_back(pick);
  return table;
}

}  // namespace

std::string instant(std::int64_t ns) {
  return fmt::format("{:.3f} ms", static_cast<double>(ns) / 1e6);
}

Table detail_table(const Document& document, const Scene& scene, const Pick& pick) {
  const bool known = pick.trace >= 0 && pick.trace < static_cast<int>(document.traces.size());
  if (!known || pick.ref == no_ref) {
    Table table;
    table.note = "Nothing is selected.";
    return table;
  }
  const OpenTrace& trace = document.trace(pick.trace);
  if (trace.input) return details_of_input(document, pick);
  return trace.run ? Details(document, scene, pick).table()
                   : details_of_slice(document, scene, pick);
}

}  // namespace pipesim::gui
