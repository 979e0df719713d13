#include "sim/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "sim/report/comparison_tables.h"
#include "sim/report/exposures.h"
#include "sim/report/page.h"
#include "sim/report/picture.h"
#include "sim/report/words.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/base/utf8.h"
#include "traces/bubbles.h"
#include "traces/draw/colours.h"

namespace pipesim {
namespace {

constexpr std::size_t max_rows_on_page = 200;
constexpr std::size_t max_dots = 400;

// ---- HTML

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// Any text as the content of an element or an attribute: valid UTF-8, no control
// characters, no markup.
std::string escape(std::string_view text) {
  std::string out;
  for (const char c : printable(valid_utf8(text))) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

// What the page adds to a table's rows, by their index.
struct Dress {
  std::function<std::string(std::size_t)> bars = {};        // in a column behind the others,
  std::string bars_name = {};                               // under this heading
  std::function<std::string(std::size_t)> attributes = {};  // of the row's element
  bool has_buttons = false;                                 // for the last cells of these
};

// A report's table; rows that are left out are counted below it.
std::string to_html(const ReportTable& table, std::size_t most, const Dress& dress = {}) {
  if (table.rows.empty()) {
    return table.note.empty() ? "" : fmt::format("<p>{}</p>\n", escape(table.note));
  }
  const std::vector<const ReportRow*> rows = shown_rows(table, most);
  const TableUnit unit = unit_of(table, rows, false);
  bool has_times = false;
  std::string out = "<div class=\"wide\"><table>\n<thead><tr>";
  const auto add = [&](std::string_view tag, std::string_view of, const std::string& html) {
    out += fmt::format("<{0}{1}>{2}</{0}>", tag, of.empty() ? "" : fmt::format(" class=\"{}\"", of),
                       html);
  };
  // The first column names its row, unless it has durations.
  const auto class_of = [&](std::size_t column) {
    const Unit own = table.columns[column].unit;
    return own == Unit::prose ? "p" : is_duration(own) || (column > 0 && !is_words(own)) ? "n" : "";
  };
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const ReportColumn& column = table.columns[c];
    if (column.name.empty()) continue;
    add("th", class_of(c), escape(heading_of(table, column)));
    has_times = has_times || is_duration(column.unit);
  }
  if (dress.bars) add("th", "", dress.bars_name);
  out += "</tr></thead>\n<tbody>\n";
  for (const ReportRow* row : rows) {
    const auto index = static_cast<std::size_t>(row - table.rows.data());
    const std::string attributes = dress.attributes ? dress.attributes(index) : "";
    out += fmt::format("<tr{}>", attributes);
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const ReportColumn& column = table.columns[c];
      if (column.name.empty()) continue;
      const ReportCell& cell = row->cells[c];
      std::string html = escape(text_of(cell, column.unit, unit));
      constexpr std::int64_t little_ppm = 10'000;
      if (column.unit == Unit::fraction && std::abs(cell.value) >= little_ppm) {
        html = fmt::format("<span class=\"{}\">{}</span>", cell.value > 0 ? "late" : "early", html);
      }
      if (dress.has_buttons && c + 1 == table.columns.size() && !attributes.empty()) {
        html = "<button type=\"button\" aria-pressed=\"false\">" + html + "</button>";
      }
      add("td", class_of(c), html);
    }
    if (dress.bars) add("td", "", "<div class=\"bars\">" + dress.bars(index) + "</div>");
    out += "</tr>\n";
  }
  out += "</tbody></table></div>\n";
  if (has_times) out = fmt::format("<p class=\"unit\">times in {}</p>\n", unit.name) + out;
  for (const std::string& text : {left_out_of(table, most), table.note}) {
    if (!text.empty()) out += fmt::format("<p>{}</p>\n", escape(text));
  }
  return out;
}

// A bar from one share of the width to another, in percent.
std::string bar(std::string_view name, double from, double to) {
  return fmt::format("<i class=\"{}\" style=\"left:{:.3f}%;width:{:.3f}%\"></i>", name, from * 100,
                     (to - from) * 100);
}

// ---- The head

std::string tiles(const Comparison& comparison) {
  const SideResult& predicted = comparison.sides[predicted_side];
  const SideResult& measured = comparison.sides[measured_side];
  const std::int64_t gap = measured.makespan_ns - predicted.makespan_ns;
  std::string out;
  const auto tile = [&](std::string_view name, const std::string& value, const std::string& more) {
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd><dd class=\"more\">{}</dd></div>\n", name, value,
                       more);
  };
  const auto bubble = [](const SideResult& side) {
    return format_percent(side.global_bubble) + " bubble";
  };
  tile(side_name(comparison, predicted_side), format_time(predicted.makespan_ns),
       bubble(predicted));
  tile(side_name(comparison, measured_side), format_time(measured.makespan_ns), bubble(measured));
  tile("gap", signed_time(gap), with_percent(fraction_of(gap, predicted.makespan_ns)));
  if (const auto& errors = comparison.duration_errors) {
    tile("durations", format_percent(errors->mean_abs) + " off",
         format_percent(errors->p50) + " in the median");
  }
  tile("matched", format_count(comparison.counts.matched),
       fmt::format("{} only {}, {} only {}",
                   format_count(comparison.counts.unmatched[predicted_side]),
                   side_name(comparison, predicted_side),
                   format_count(comparison.counts.unmatched[measured_side]),
                   side_name(comparison, measured_side)));
  return out;
}

// ---- Where the gap comes from

std::string waterfall(const Comparison& comparison) {
  const std::int64_t start = comparison.sides[predicted_side].makespan_ns;
  std::int64_t least = start;
  std::int64_t most = start;
  std::int64_t now = start;
  for (const std::int64_t ns : comparison.gap.terms) {
    now += ns;
    least = std::min(least, now);
    most = std::max(most, now);
  }
  // A tenth of the width on either side.
  const auto place = [&](std::int64_t ns) {
    return most == least ? 0.1 : 0.1 + 0.8 * fraction_of(ns - least, most - least);
  };
  const auto step = [&](std::int64_t from, std::int64_t to) {
    if (from == to) return std::string();
    return bar(to > from ? "late" : "early", place(std::min(from, to)), place(std::max(from, to)));
  };
  // The total begins where the first run ends.
  std::vector<std::string> bars;
  now = start;
  for (std::size_t i = 0; i < term_count; ++i) {
    if (!concerns(static_cast<Term>(i), comparison)) continue;
    const std::int64_t ns = comparison.gap.terms[i];
    bars.push_back(step(now, now + ns));
    now += ns;
  }
  bars.push_back(step(start, now));
  const ReportTable table = term_table(comparison);
  return to_html(table, no_limit,
                 {.bars = [&](std::size_t row) { return bars[row]; },
                  .attributes = [&](std::size_t row) -> std::string {
                    if (row + 1 == bars.size()) return " class=\"total\"";
                    return bars[row].empty() ? " class=\"none\"" : "";
                  }});
}

std::string causes(const Comparison& comparison) {
  const ShownCauses shown = shown_causes(comparison, comparison.root_causes.size());
  return to_html(cause_table(comparison, shown), no_limit,
                 {.attributes =
                      [&](std::size_t row) {
                        if (row >= shown.places.size()) return std::string();
                        return fmt::format(" data-cause=\"{}\"", shown.places[row]);
                      },
                  .has_buttons = true});
}

// ---- Tables

// Of an input pipeline: what its compute streams did and waited for, means over ranks.
std::string exposures(const RecordedRun& predicted, const RecordedRun& measured,
                      const Comparison& comparison) {
  if (!predicted.inputs) return {};
  const Exposures both = exposures_of(*predicted.inputs, *measured.inputs);
  return "\n<section>\n<h2>Busy, or exposed by what they waited for: means over ranks</h2>\n" +
         to_html(exposure_table(both, comparison), no_limit) + "</section>\n";
}

std::string bubble_bars(const RankMetrics& rank, std::int64_t makespan_ns) {
  std::string out;
  double from = 0;
  const auto add = [&](std::string_view name, std::int64_t ns) {
    const double to = from + fraction_of(ns, makespan_ns);
    if (ns > 0) out += bar(name, from, to);
    from = to;
  };
  add("busy", rank.busy_ns);
  for (std::size_t kind = 0; kind < bubble_names.size(); ++kind) {
    add(bubble_names[kind], rank.bubble.by_kind()[kind]);
  }
  return out;
}

std::string bubbles(const Comparison& comparison) {
  const auto& sides = comparison.sides;
  const std::int64_t longest =
      std::max(sides[predicted_side].played.makespan_ns, sides[measured_side].played.makespan_ns);
  std::vector<std::string> bars;
  std::vector<bool> is_first;
  const std::vector<int> shown = pictured_ranks(comparison);
  for (const int r : shown) {
    for (const Side side : both_sides) {
      const auto at = static_cast<std::size_t>(r);
      if (at >= sides[side].ranks.size()) continue;
      bars.push_back(bubble_bars(sides[side].ranks[at], longest));
      is_first.push_back(side == predicted_side);
    }
  }
  std::string key;
  for (const std::string_view name : bubble_names) {
    key += fmt::format("<b class=\"{0}\"></b>{0} ", name);
  }
  return to_html(
      rank_table(comparison, shown), no_limit,
      {.bars = [&](std::size_t row) { return bars[row]; },
       .bars_name = key,
       .attributes =
           [&](std::size_t row) { return std::string(is_first[row] ? " class=\"first\"" : ""); }});
}

// Each iteration's makespan as a dot, p10 to p90 as a box, and that of the first run as a line,
// unless it is so far off that the dots would merge.
std::string iterations(const RecordedRun& measured, const Comparison& comparison) {
  if (measured.iterations.size() < 2) {
    return fmt::format("<p>The {} has one iteration.</p>\n", side_noun(comparison, measured_side));
  }
  std::vector<std::int64_t> makespans;
  for (const RecordedIteration& one : measured.iterations) makespans.push_back(one.makespan_ns);
  std::ranges::sort(makespans);
  const std::int64_t predicted = comparison.sides[predicted_side].makespan_ns;
  std::int64_t least = makespans.front();
  std::int64_t most = makespans.back();
  const std::int64_t spread = most - least;
  const bool near = predicted >= least - spread && predicted <= most + spread;
  if (near) {
    least = std::min(least, predicted);
    most = std::max(most, predicted);
  }
  const auto place = [&](std::int64_t ns) {
    return 0.02 + 0.96 * fraction_of(ns - least, most - least);
  };
  const Quantiles& all = comparison.iterations;
  const std::string_view noun = side_noun(comparison, predicted_side);
  std::string out = "<div class=\"bars strip\">" + bar("box", place(all.p10), place(all.p90));
  const std::size_t dots = std::min(makespans.size(), max_dots);
  for (std::size_t i = 0; i < dots; ++i) {
    const double at = place(makespans[i * makespans.size() / dots]);
    out += bar("dot", at, at);
  }
  if (near) out += bar("mark", place(predicted), place(predicted));
  return out + fmt::format("</div>\n<p>{}: {} to {}; box: p10 to p90; {} {}.</p>\n",
                           plural(all.count, "iteration"), format_time(makespans.front()),
                           format_time(makespans.back()),
                           near ? fmt::format("dashed: the {},", noun)
                                : fmt::format("far from the {} of", noun),
                           format_time(predicted));
}

std::string facts(const RecordedRun& predicted, const RecordedRun& measured,
                  const Comparison& comparison) {
  std::string out = "<dl>\n";
  for (const Fact& fact : facts_of(predicted, measured, comparison)) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", fact.about, escape(fact.text));
  }
  for (const RecordedRun* run : {&predicted, &measured}) {
    for (const Warnings::Kind& kind : run->warnings.kinds()) {
      out += fmt::format("<dt class=\"late\">warning</dt><dd>{}: {}{}</dd>\n",
                         escape(kind.first_place), escape(kind.what),
                         kind.count > 1 ? fmt::format(" ({} in all)", kind.count) : "");
    }
  }
  return out + "</dl>\n";
}

// A section for each table that has rows.
std::string sections(std::initializer_list<ReportTable> tables) {
  std::string out;
  for (const ReportTable& table : tables) {
    if (table.rows.empty()) continue;
    std::string title = table.title;
    title.front() = static_cast<char>(title.front() - 'a' + 'A');
    out += fmt::format("\n<section>\n<h2>{}</h2>\n{}</section>\n", title,
                       to_html(table, max_rows_on_page));
  }
  return out;
}

std::string clocks(const RecordedRun& measured, const Comparison& comparison) {
  const bool any =
      std::ranges::any_of(measured.about.clocks,
                          [](const RecordedClock& clock) { return clock.uncertainty_ns != 0; }) ||
      std::ranges::any_of(comparison.clocks,
                          [](const ClockShift& clock) { return clock.ahead_ns != 0; });
  if (!any) return "<p>No clock is off, and all ranks share one or agree on one exactly.</p>\n";
  return to_html(clock_table(measured, comparison), max_rows_on_page);
}

// The colours as variables of the page's style.
std::string colour_variables() {
  using namespace colours;
  constexpr std::pair<std::string_view, Colour> named[] = {
      {"forward", forward}, {"backward", backward}, {"weight", weight_gradient},
      {"other", other},     {"neutral", neutral},   {"late", late},
      {"early", early},     {"ink", ink},           {"paper", paper}};
  std::string light;
  std::string dark;
  for (const auto& [name, colour] : named) {
    light += fmt::format(" --{}: #{:06x};", name, colour.light);
    dark += fmt::format(" --{}: #{:06x};", name, colour.dark);
  }
  return fmt::format(
      ":root {{{} }}\n"
      "@media screen and (prefers-color-scheme: dark) {{ :root:not(.printing) {{{} }} }}\n",
      light, dark);
}

// Replaces names by their values, once: a value that looks like a name is not replaced.
std::string fill(std::string_view page, const std::map<std::string_view, std::string>& values) {
  std::string out;
  for (;;) {
    const std::size_t begin = page.find("{{");
    out += page.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const std::size_t end = page.find("}}", begin);
    out += values.at(page.substr(begin + 2, end - begin - 2));
    page.remove_prefix(end + 2);
  }
}

}  // namespace

std::string comparison_html(const RecordedRun& predicted, const RecordedRun& measured,
                            const Comparison& comparison) {
  ComparisonPicture picture = comparison_picture(predicted, measured, comparison);
  // It must not contain the end of its element.
  replace_all(picture.json, "<", "\\u003c");
  std::string verdict = escape(verdict_of(comparison));
  for (const char* unit : {"ns", "us", "ms", "s", "%"}) {  // keeps it next to its number
    for (const char end : {'.', ',', ':', ' ', ')'}) {
      replace_all(verdict, fmt::format(" {}{}", unit, end), fmt::format("&nbsp;{}{}", unit, end));
    }
  }
  return fill(page_html,
              {{"style", colour_variables() + std::string(page_css)},
               {"script", std::string(page_js)},
               {"data", std::move(picture.json)},
               {"left_out", escape(picture.left_out)},
               {"verdict", std::move(verdict)},
               {"first_file", escape(predicted.name)},
               {"second_file", escape(measured.name)},
               {"first", std::string(side_name(comparison, predicted_side))},
               {"second", std::string(side_name(comparison, measured_side))},
               {"first_noun", std::string(side_noun(comparison, predicted_side))},
               {"second_noun", std::string(side_noun(comparison, measured_side))},
               {"tiles", tiles(comparison)},
               {"waterfall", waterfall(comparison)},
               {"causes", causes(comparison)},
               {"kinds", to_html(kind_table(comparison), max_rows_on_page)},
               {"others", sections({collective_table(comparison), save_table(comparison)})},
               {"exposures", exposures(predicted, measured, comparison)},
               {"bubbles", bubbles(comparison)},
               {"critical_paths", to_html(path_table(comparison), no_limit)},
               {"facts", facts(predicted, measured, comparison)},
               {"iterations", iterations(measured, comparison)},
               {"clocks", clocks(measured, comparison)}});
}

}  // namespace pipesim
