// What lies in an area, summed.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gui/scene/shading.h"
#include "gui/tables/area_bars.h"
#include "gui/tables/table_rows.h"
#include "gui/tables/tables.h"
#include "traces/bubbles.h"

namespace pipesim::gui {
namespace {

constexpr std::size_t max_names = 1'000;

struct Sum {
  std::int64_t count = 0;
  std::int64_t inside_ns = 0;
  std::int64_t whole_ns = 0;
  std::int64_t min_ns = 0;
  std::int64_t max_ns = 0;
  Shade shade = 0;
  std::vector<Pick> about;

  void add(const AreaBar& one) {
    min_ns = count == 0 ? one.whole_ns : std::min(min_ns, one.whole_ns);
    max_ns = std::max(max_ns, one.whole_ns);
    ++count;
    inside_ns += one.inside_ns;
    whole_ns += one.whole_ns;
    if (one.bar.ref != no_ref && about.size() < max_picks) {
      about.push_back({one.trace, one.bar.ref, is_bubble(one.bar.shade)});
    }
  }
};

// Sums of one trace, by kind, idle kinds after them, or by name's text.
struct TraceSums {
  std::vector<Sum> sums;
  std::int64_t lanes = 0;  // whose area is shared
};

class Area {
 public:
  Area(const Document& document, const Scene& scene, const View& view)
      : document_(document),
        range_(*view.area),
        slots_(scene.options.alignment == Alignment::slot) {
    for (const Group& group : scene.groups) {
      if (!passes(group, view.filter)) continue;
      for (const Lane& lane : group.lanes) {
        TraceSums& own = sums_of(lane.trace);
        if (lane.kind != LaneKind::transfers) ++own.lanes;
      }
    }
    for_each_in_area(document, scene, view, [&](const AreaBar& one) { add(one); });
  }

  Table table() const {
    Table table;
    table.title = fmt::format("In {}", format_time(range_.length_ns()));
    table.columns.push_back(text_column("what"));
    if (names_runs()) table.columns.push_back(text_column("run"));
    table.columns.push_back(number_column("count"));
    for (const char* name : {"sum", "mean", "least", "greatest"}) {
      table.columns.push_back(time_column(name));
    }
    if (!slots_) table.columns.push_back(number_column("share", "ppm"));
    if (document_.pair) table.columns.push_back(time_column("difference"));
    add_kinds(table);
    add_names(table);
    if (table.rows.empty()) table.note = "Nothing is in the area.";
    if (slots_) {
      table.title = "In the slots";
      table.note = "Times are the actions' own; places in a list have none.";
    } else if (table.note.empty()) {
      table.note = "Sums and shares are of the time within the area, the others of whole actions.";
    }
    return table;
  }

 private:
  static constexpr std::size_t first_idle = kind_count;

  static std::string bubble(std::size_t kind) {
    return fmt::format("{} bubble", bubble_names[kind]);
  }

  bool names_runs() const { return order_.size() > 1; }

  TraceSums& sums_of(int trace) {
    const auto [found, is_new] = sums_.try_emplace(trace);
    if (is_new) {
      order_.push_back(trace);
      const OpenTrace& own = document_.trace(trace);
      found->second.sums.resize(own.run ? first_idle + bubble_names.size()
                                        : own.events->texts.size() + bubble_names.size());
      shadings_[trace] = std::make_unique<Shading>(document_, trace, Colouring::kind);
    }
    return found->second;
  }

  void add(const AreaBar& one) {
    const OpenTrace& trace = document_.trace(one.trace);
    std::size_t what = 0;
    if (is_bubble(one.bar.shade)) {
      what = (trace.events ? trace.events->texts.size() : first_idle) + one.bar.shade -
             first_bubble_shade;
    } else if (trace.events) {
      what = trace.events->slices[one.bar.ref].name;
    } else {
      what = static_cast<std::size_t>(trace.run->spans[one.bar.ref].action.kind);
    }
    Sum& sum = sums_.at(one.trace).sums[what];
    if (sum.count == 0) {
      sum.shade = is_bubble(one.bar.shade) ? one.bar.shade
                                           : full_shade(shadings_.at(one.trace)->of(one.bar.ref));
    }
    sum.add(one);
  }

  void add_row(Table& table, std::string_view what, int trace, const Sum& sum,
               std::optional<std::int64_t> difference_ns) const {
    RowOf row(table);
    row.text(what);
    if (names_runs()) row.text(name_of_run(document_, trace));
    row.count(sum.count).time(sum.inside_ns).time(sum.whole_ns / sum.count);
    row.time(sum.min_ns).time(sum.max_ns);
    if (!slots_) {
      row.share(fraction_of(sum.inside_ns, range_.length_ns()) /
                static_cast<double>(std::max<std::int64_t>(sums_.at(trace).lanes, 1)));
    }
    if (document_.pair) difference_ns ? row.change(*difference_ns) : row.none();
    for (const Pick& pick : sum.about) row.about(pick);
    row.shade(sum.shade);
  }

  // Runs below each other, predicted ones first.
  void add_kinds(Table& table) const {
    for (std::size_t what = 0; what < first_idle + bubble_names.size(); ++what) {
      const std::string name = what < first_idle ? std::string(kind_name(static_cast<Kind>(what)))
                                                 : bubble(what - first_idle);
      for (const int trace : order_) {
        if (!document_.trace(trace).run) continue;
        const Sum& sum = sums_.at(trace).sums[what];
        if (sum.count > 0) add_row(table, name, trace, sum, difference_ns(trace, what));
      }
    }
  }

  // Of the pair's second side, where both have any.
  std::optional<std::int64_t> difference_ns(int trace, std::size_t what) const {
    if (document_.side_of(trace) != measured_side) return std::nullopt;
    const auto first = sums_.find(document_.pair->trace[predicted_side]);
    if (first == sums_.end() || first->second.sums[what].count == 0) return std::nullopt;
    return sums_.at(trace).sums[what].inside_ns - first->second.sums[what].inside_ns;
  }

  // The same of a name of two input pipelines' runs.
  std::optional<std::int64_t> difference_of(int trace, std::size_t text) const {
    if (document_.side_of(trace) != measured_side) return std::nullopt;
    const int other = document_.pair->trace[predicted_side];
    const auto first = sums_.find(other);
    if (first == sums_.end()) return std::nullopt;
    const auto& own_texts = document_.trace(trace).events->texts;
    const auto& texts = document_.trace(other).events->texts;
    std::size_t same = texts.size() + text - own_texts.size();  // a bubble of that kind
    if (text < own_texts.size()) {
      same = static_cast<std::size_t>(std::ranges::find(texts, own_texts[text]) - texts.begin());
      if (same == texts.size()) return std::nullopt;
    }
    const auto& sums = first->second.sums;
    if (sums[same].count == 0) return std::nullopt;
    return sums_.at(trace).sums[text].inside_ns - sums[same].inside_ns;
  }

  // The longest first.
  void add_names(Table& table) const {
    struct Named {
      int trace;
      std::size_t text;
      const Sum* sum;
    };
    std::vector<Named> all;
    for (const int trace : order_) {
      if (!document_.trace(trace).events) continue;
      const auto& sums = sums_.at(trace).sums;
      for (std::size_t text = 0; text < sums.size(); ++text) {
        if (sums[text].count > 0) all.push_back({trace, text, &sums[text]});
      }
    }
    std::ranges::stable_sort(
        all, [](const Named& a, const Named& b) { return a.sum->inside_ns > b.sum->inside_ns; });
    if (all.size() > max_names) {
      table.note = fmt::format("The {} longest of {} names.", format_count(max_names),
                               format_count(std::ssize(all)));
      all.resize(max_names);
    }
    for (const Named& named : all) {
      const auto& texts = document_.trace(named.trace).events->texts;
      add_row(table,
              named.text < texts.size() ? texts[named.text] : bubble(named.text - texts.size()),
              named.trace, *named.sum, difference_of(named.trace, named.text));
    }
  }

  const Document& document_;
  TimeRange range_;
  bool slots_;
  std::map<int, TraceSums> sums_;
  std::map<int, std::unique_ptr<Shading>> shadings_;
  std::vector<int> order_;  // of traces, as their lanes come
};

}  // namespace

Table area_table(const Document& document, const Scene& scene, const View& view) {
  if (view.area) return Area(document, scene, view).table();
  Table table;
  table.title = "Area";
  table.note = "No area is selected: drag with Shift held, or along the ruler.";
  return table;
}

}  // namespace pipesim::gui
