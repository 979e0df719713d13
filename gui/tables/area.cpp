// What lies in an area, summed.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "gui/tables/table_rows.h"
#include "gui/tables/tables.h"
#include "traces/bubbles.h"

namespace pipesim::gui {
namespace {

constexpr std::size_t most_names = 1'000;

struct Sum {
  std::int64_t count = 0;
  std::int64_t time_ns = 0;
};

// Sums of one trace, by kind, idle kinds after them, or by name's text.
struct TraceSums {
  std::vector<Sum> sums;
  std::int64_t lanes = 0;  // whose area is shared
};

class Area {
 public:
  Area(const Document& document, const Scene& scene, const View& view)
      : document_(document), scene_(scene), range_(*view.area) {
    const bool slots = scene.options.alignment == Alignment::slot;
    for (const Group& group : scene.groups) {
      if (!passes(group, view.filter)) continue;
      for (const Lane& lane : group.lanes) {
        TraceSums& own = sums_of(lane.trace);
        if (lane.kind != LaneKind::transfers) ++own.lanes;
        for (const BarRow& row : lane.rows) add(row, lane, own, slots);
      }
    }
  }

  Table table() const {
    Table table;
    table.title = fmt::format("In {}", format_time(range_.length_ns()));
    table.columns.push_back(text_column("what"));
    // Runs as columns side by side, predicted ones first; names of slices below.
    for (const int trace : order_) {
      const std::string name = order_.size() > 1 ? name_of_run(document_, trace) + " " : "";
      table.columns.push_back(number_column(name + "count"));
      table.columns.push_back(time_column(name + "time"));
      table.columns.push_back(time_column(name + "mean"));
      table.columns.push_back(number_column(name + "share", "ppm"));
    }
    if (document_.pair) table.columns.push_back(time_column("difference"));
    add_kinds(table);
    add_names(table);
    if (table.rows.empty()) table.note = "Nothing is in the area.";
    if (scene_.options.alignment == Alignment::slot) {
      table.title = "In the slots";
      table.note = "Times are the actions' own; places in a list have none.";
    } else if (table.note.empty()) {
      table.note = "Shares are of all its ranks' or tracks' time.";
    }
    return table;
  }

 private:
  static constexpr std::size_t first_idle = kind_count;

  TraceSums& sums_of(int trace) {
    const auto [found, is_new] = sums_.try_emplace(trace);
    if (is_new) {
      order_.push_back(trace);
      const OpenTrace& own = document_.trace(trace);
      found->second.sums.resize(own.run ? first_idle + bubble_names.size()
                                        : own.events->texts.size());
    }
    return found->second;
  }

  void add(const BarRow& row, const Lane& lane, TraceSums& own, bool slots) {
    const OpenTrace& trace = document_.trace(lane.trace);
    const std::int64_t from_ns = range_.from_ns - lane.offset_ns;
    const std::int64_t to_ns = range_.to_ns - lane.offset_ns;
    for (std::size_t i = row.first_ending_after(from_ns); i < row.size(); ++i) {
      const Bar bar = row[i];
      if (bar.start_ns >= to_ns) break;
      std::int64_t time_ns = std::min(bar.end_ns, to_ns) - std::max(bar.start_ns, from_ns);
      std::size_t what = 0;
      if (trace.events) {
        what = trace.events->slices[bar.ref].name;
      } else if (is_bubble(bar.shade)) {
        what = first_idle + bar.shade - first_bubble_shade;
      } else {
        const Span& span = trace.run->spans[bar.ref];
        what = static_cast<std::size_t>(span.action.kind);
        if (slots) time_ns = span.end_ns - span.start_ns;
      }
      ++own.sums[what].count;
      own.sums[what].time_ns += time_ns;
    }
  }

  // One cell of each column of a trace.
  void add_cells(RowOf& row, int trace, const Sum& sum) const {
    if (sum.count == 0) {
      row.none().none().none().none();
      return;
    }
    row.count(sum.count).time(sum.time_ns).time(sum.time_ns / sum.count);
    if (scene_.options.alignment == Alignment::slot) {
      row.none();
      return;
    }
    row.share(fraction_of(sum.time_ns, range_.length_ns()) /
              static_cast<double>(std::max<std::int64_t>(sums_.at(trace).lanes, 1)));
  }

  void add_kinds(Table& table) const {
    for (std::size_t what = 0; what < first_idle + bubble_names.size(); ++what) {
      const auto of = [&](int trace) {
        return document_.trace(trace).run ? sums_.at(trace).sums[what] : Sum{};
      };
      if (std::ranges::all_of(order_, [&](int trace) { return of(trace).count == 0; })) continue;
      RowOf row(table);
      row.text(what < first_idle ? std::string(kind_name(static_cast<Kind>(what)))
                                 : fmt::format("{} bubble", bubble_names[what - first_idle]));
      for (const int trace : order_) add_cells(row, trace, of(trace));
      if (!document_.pair) continue;
      const auto time_of = [&](Side side) {
        const int trace = document_.pair->trace[side];
        return sums_.contains(trace) ? of(trace).time_ns : 0;
      };
      row.change(time_of(measured_side) - time_of(predicted_side));
    }
  }

  // The longest first.
  void add_names(Table& table) const {
    struct Named {
      int trace;
      std::size_t text;
      Sum sum;
    };
    std::vector<Named> all;
    for (const int trace : order_) {
      if (!document_.trace(trace).events) continue;
      const auto& sums = sums_.at(trace).sums;
      for (std::size_t text = 0; text < sums.size(); ++text) {
        if (sums[text].count > 0) all.push_back({trace, text, sums[text]});
      }
    }
    std::ranges::stable_sort(
        all, [](const Named& a, const Named& b) { return a.sum.time_ns > b.sum.time_ns; });
    if (all.size() > most_names) {
      table.note = fmt::format("The {} longest of {} names.", format_count(most_names),
                               format_count(std::ssize(all)));
      all.resize(most_names);
    }
    for (const Named& named : all) {
      RowOf row(table);
      row.text(document_.trace(named.trace).events->texts[named.text]);
      for (const int trace : order_) {
        add_cells(row, trace, trace == named.trace ? named.sum : Sum{});
      }
      if (document_.pair) row.none();
    }
  }

  const Document& document_;
  const Scene& scene_;
  TimeRange range_;
  std::map<int, TraceSums> sums_;
  std::vector<int> order_;  // of traces, as their lanes come
};

}  // namespace

Table area_table(const Document& document, const Scene& scene, const View& view) {
  if (view.area) return Area(document, scene, view).table();
  Table table;
  table.title = "Area";
  table.note = "No area is selected.";
  return table;
}

}  // namespace pipesim::gui
