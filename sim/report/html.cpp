#include "sim/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
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

// A table whose first `names` columns are text, the others numbers. Cells are HTML.
class Table {
 public:
  Table(std::size_t names, const std::vector<std::string>& heads) : names_(names) {
    html_ = "<div class=\"wide\"><table>\n<thead><tr>";
    for (std::size_t i = 0; i < heads.size(); ++i) cell("th", i, heads[i]);
    html_ += "</tr></thead>\n<tbody>\n";
  }
  void add(const std::vector<std::string>& cells, std::string_view attributes = {}) {
    html_ += fmt::format("<tr{}>", attributes);
    for (std::size_t i = 0; i < cells.size(); ++i) cell("td", i, cells[i]);
    html_ += "</tr>\n";
  }
  std::string finish() { return std::move(html_) + "</tbody></table></div>\n"; }

 private:
  void cell(std::string_view tag, std::size_t column, const std::string& text) {
    html_ += fmt::format("<{}{}>{}</{}>", tag, column < names_ ? "" : " class=\"n\"", text, tag);
  }

  std::size_t names_;
  std::string html_;
};

// A report's table; rows that are left out are counted below it.
std::string to_html(const ReportTable& table, std::size_t most) {
  const std::vector<const ReportRow*> rows = shown_rows(table, most);
  const TableUnit unit = unit_of(table, rows, false);
  std::vector<std::size_t> shown;
  std::size_t texts = 0;  // after the numbers that a row is of
  std::vector<std::string> heads;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const ReportColumn& column = table.columns[c];
    if (column.name.empty()) continue;
    shown.push_back(c);
    heads.push_back(column.group.empty() ? column.name : column.group + " " + column.name);
    if (column.unit == Unit::text) texts = shown.size();
  }
  Table html(std::max<std::size_t>(texts, 1), heads);
  for (const ReportRow* row : rows) {
    std::vector<std::string> cells;
    for (const std::size_t c : shown) {
      const ReportCell& cell = row->cells[c];
      cells.push_back(escape(text_of(cell, table.columns[c].unit, unit)));
      constexpr std::int64_t little_ppm = 10'000;
      if (table.columns[c].unit != Unit::fraction || std::abs(cell.value) < little_ppm) continue;
      cells.back() = fmt::format("<span class=\"{}\">{}</span>", cell.value > 0 ? "late" : "early",
                                 cells.back());
    }
    html.add(cells);
  }
  const std::string rest = left_out_of(table, most);
  return fmt::format("<p class=\"unit\">times in {}</p>\n", unit.name) + html.finish() +
         (rest.empty() ? "" : fmt::format("<p>{}</p>\n", escape(rest)));
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
  std::int64_t largest = 0;
  std::int64_t now = start;
  for (const std::int64_t ns : comparison.gap.terms) {
    now += ns;
    least = std::min(least, now);
    most = std::max(most, now);
    largest = std::max(largest, std::abs(ns));
  }
  // A tenth of the width on either side.
  const auto place = [&](std::int64_t ns) {
    return most == least ? 0.1 : 0.1 + 0.8 * fraction_of(ns - least, most - least);
  };
  const TableUnit unit = table_unit(largest);
  Table table(2, {"", "", fmt::format("difference, {}", unit.name), ""});
  const auto end_row = [&](std::string_view name, std::int64_t ns) {
    table.add({std::string(name), "makespan", format_time(ns),
               "<div class=\"bars\">" + bar("end", place(ns), place(ns)) + "</div>"},
              " class=\"total\"");
  };
  end_row(side_name(comparison, predicted_side), start);
  now = start;
  for (std::size_t i = 0; i < term_count; ++i) {
    if (!concerns(static_cast<Term>(i), comparison)) continue;
    const std::int64_t ns = comparison.gap.terms[i];
    const double from = place(std::min(now, now + ns));
    const double to = place(std::max(now, now + ns));
    now += ns;
    table.add(
        {std::string(term_names[i]), std::string(meaning_of(static_cast<Term>(i))),
         change(ns, unit),
         ns == 0 ? ""
                 : "<div class=\"bars\">" + bar(ns > 0 ? "late" : "early", from, to) + "</div>"},
        ns == 0 ? " class=\"none\"" : "");
  }
  end_row(side_name(comparison, measured_side), now);
  return table.finish();
}

std::string causes(const Comparison& comparison) {
  const auto& list = comparison.root_causes;
  if (list.empty()) return fmt::format("<p>{}</p>\n", without_causes(comparison));
  const ShownCauses shown = shown_causes(comparison, list.size());
  std::int64_t largest = std::abs(shown.others_ns);
  for (const std::size_t i : shown.places) {
    largest = std::max({largest, std::abs(list[i].effect_ns), std::abs(list[i].alone_ns)});
  }
  const TableUnit unit = table_unit(largest);
  Table table(2, {"cause", "term", fmt::format("share, {}", unit.name),
                  fmt::format("alone, {}", unit.name)});
  for (const std::size_t i : shown.places) {
    table.add({fmt::format("<button type=\"button\" aria-pressed=\"false\">{}</button>",
                           escape(list[i].why)),
               std::string(term_names[static_cast<std::size_t>(list[i].term)]),
               change(list[i].effect_ns, unit), change(list[i].alone_ns, unit)},
              fmt::format(" data-cause=\"{}\"", i));
  }
  if (shown.others > 0) {
    table.add({shown.others_text(), "", change(shown.others_ns, unit), ""});
  }
  if (comparison.noise.effect_ns != 0) {
    table.add(
        {"noise: " + noise_text(comparison), "", change(comparison.noise.effect_ns, unit), ""});
  }
  return table.finish();
}

// ---- Tables

// Of an input pipeline: what its compute streams did and waited for, means over ranks.
std::string exposures(const RecordedRun& predicted, const RecordedRun& measured,
                      const Comparison& comparison) {
  if (!predicted.inputs) return {};
  const Exposures both = exposures_of(*predicted.inputs, *measured.inputs);
  const TableUnit unit = table_unit(std::ranges::max(both.makespan));
  const std::string first(side_name(comparison, predicted_side));
  const std::string second(side_name(comparison, measured_side));
  Table table(1, {"compute streams", first, second, "takes: " + first, "takes: " + second});
  for (const Exposures::KindRow& row : both.kinds) {
    table.add({std::string(kind_name(row.kind)), unit.text(row.busy[0] + row.exposed[0]),
               unit.text(row.busy[1] + row.exposed[1]), unit.text(row.total[0]),
               unit.text(row.total[1])});
  }
  for (const Exposures::WaitRow& row : both.waits) {
    table.add(
        {std::string(row.name), unit.text(row.exposed[0]), unit.text(row.exposed[1]), "", ""});
  }
  return fmt::format(
             "\n<section>\n<h2>Busy, or exposed by what they waited for</h2>\n"
             "<p class=\"unit\">times of the whole run in {}, means over ranks</p>\n",
             unit.name) +
         table.finish() + "</section>\n";
}

std::string bubble_bars(const RankMetrics& rank, std::int64_t makespan_ns) {
  std::string out = "<div class=\"bars\">";
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
  return out + "</div>";
}

std::string bubbles(const Comparison& comparison) {
  const auto& sides = comparison.sides;
  const std::int64_t longest =
      std::max(sides[predicted_side].played.makespan_ns, sides[measured_side].played.makespan_ns);
  const TableUnit unit = table_unit(longest);
  const bool bytes =
      std::ranges::any_of(sides, [](const SideResult& side) { return !side.peaks.empty(); });
  std::vector<std::string> heads{"rank", "", "busy"};
  for (const std::string_view name : bubble_names) {
    heads.push_back(fmt::format("<b class=\"{0}\"></b>{0}", name));
  }
  heads.insert(heads.end(), {"all", std::string(held_name(comparison))});
  if (bytes) heads.insert(heads.end(), {"peak", "peak at"});
  Table table(2, heads);
  const std::vector<int> shown = pictured_ranks(comparison);
  for (const int r : shown) {
    for (const Side side : both_sides) {
      const auto at = static_cast<std::size_t>(r);
      if (at >= sides[side].ranks.size()) continue;
      const RankMetrics& rank = sides[side].ranks[at];
      std::vector<std::string> cells{side == predicted_side ? std::to_string(r) : "",
                                     std::string(side_name(comparison, side)),
                                     unit.text(rank.busy_ns)};
      for (const std::int64_t ns : rank.bubble.by_kind()) cells.push_back(unit.text(ns));
      cells.push_back(bubble_bars(rank, longest));
      cells.push_back(format_count(rank.peak_activation_chunks));
      if (bytes) {
        const auto& peaks = sides[side].peaks;
        cells.push_back(peaks.empty() ? "" : format_bytes(peaks[at].total));
        const bool is_known = !peaks.empty() && peaks[at].action.kind != Kind::IDLE;
        cells.push_back(is_known ? to_text(peaks[at].action) : "");
      }
      table.add(cells, side == predicted_side ? " class=\"first\"" : "");
    }
  }
  std::string out = fmt::format("<p class=\"unit\">times in {}</p>\n", unit.name) + table.finish();
  const std::size_t all = std::max(sides[0].ranks.size(), sides[1].ranks.size());
  if (shown.size() < all) {
    out += fmt::format("<p>{} of {} ranks; <code>--json</code> has all.</p>\n", shown.size(), all);
  }
  return out;
}

std::string critical_paths_html(const Comparison& comparison) {
  Table table(1, {"", "compute", "transfers", "other", "steps"});
  for (const Side side : both_sides) {
    const CriticalPath& times = comparison.sides[side].critical_path;
    table.add({std::string(side_name(comparison, side)), format_time(times.compute_ns),
               format_time(times.p2p_ns), format_time(times.other_ns),
               format_count(
                   static_cast<std::int64_t>(comparison.sides[side].played.critical_path.size()))});
  }
  std::string parting = parting_of(comparison);
  parting.front() = parting.front() == 't' ? 'T' : 'B';
  return table.finish() + fmt::format("<p>{}.</p>\n", escape(parting));
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
               {"critical_paths", critical_paths_html(comparison)},
               {"facts", facts(predicted, measured, comparison)},
               {"iterations", iterations(measured, comparison)},
               {"clocks", clocks(measured, comparison)}});
}

}  // namespace pipesim
