#include "traces/print/report_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>

#include "traces/base/text.h"

namespace pipesim {
namespace {

bool is_duration(Unit unit) { return unit == Unit::time || unit == Unit::change; }

// A table laid out: what is in each column that is shown, under its headings.
struct LaidOut {
  std::string group;
  std::vector<std::string> lines;  // the name, then the cells
  bool to_the_left = false;
  std::size_t width = 0;
};

std::vector<LaidOut> lay_out(const ReportTable& table, const std::vector<const ReportRow*>& rows,
                             const TableUnit& times) {
  std::vector<LaidOut> all;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const ReportColumn& column = table.columns[c];
    if (column.name.empty() || !column.in_text) continue;
    LaidOut& own = all.emplace_back();
    own.group = column.group;
    own.to_the_left = column.unit == Unit::text;
    own.lines.push_back(column.name);
    for (const ReportRow* row : rows) {
      own.lines.push_back(text_of(row->cells[c], column.unit, times));
    }
    for (const std::string& line : own.lines) own.width = std::max(own.width, line.size());
  }
  return all;
}

// The columns from one on that are under the same heading.
std::size_t end_of_group(const std::vector<LaidOut>& columns, std::size_t first) {
  std::size_t end = first + 1;
  while (!columns[first].group.empty() && end < columns.size() &&
         columns[end].group == columns[first].group) {
    ++end;
  }
  return end;
}

std::string without_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

void put(Json& object, std::string_view key, Json value) {
  const std::size_t dot = key.find('.');
  if (dot == key.npos) {
    object[key] = std::move(value);
  } else {
    put(object[key.substr(0, dot)], key.substr(dot + 1), std::move(value));
  }
}

}  // namespace

std::string_view name_of(Unit unit) {
  switch (unit) {
    case Unit::time:
    case Unit::change: return "ns";
    case Unit::bytes: return "bytes";
    case Unit::fraction: return "ppm";
    default: return {};
  }
}

std::vector<const ReportRow*> shown_rows(const ReportTable& table, std::size_t most) {
  std::vector<const ReportRow*> rows;
  for (const ReportRow& row : table.rows) rows.push_back(&row);
  if (rows.size() > most) {
    std::ranges::stable_sort(rows, std::greater(), &ReportRow::weight);
    rows.resize(most);
  }
  return rows;
}

std::string left_out_of(const ReportTable& table, std::size_t most) {
  if (table.rows.size() <= most) return {};
  const bool by_weight = std::ranges::any_of(table.rows, &ReportRow::weight);
  return fmt::format(
      "{}, of {}; --json lists them all",
      by_weight ? fmt::format("the {} that differ most", most) : fmt::format("the first {}", most),
      table.rows.size());
}

TableUnit unit_of(const ReportTable& table, const std::vector<const ReportRow*>& rows) {
  std::int64_t longest = 0;
  for (const ReportRow* row : rows) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      if (!is_duration(table.columns[c].unit) || table.columns[c].name.empty()) continue;
      longest = std::max(longest, std::abs(row->cells[c].value));
    }
  }
  return table_unit(longest);
}

std::string text_of(const ReportCell& cell, Unit unit, const TableUnit& times) {
  if (cell.is_empty || !is_duration(unit)) return text_of(cell, unit);
  return unit == Unit::time ? times.text(cell.value) : change(cell.value, times);
}

std::string text_of(const ReportCell& cell, Unit unit) {
  if (cell.is_empty) return {};
  switch (unit) {
    case Unit::text: return cell.text;
    case Unit::count: return format_count(cell.value);
    case Unit::time: return format_time(cell.value);
    case Unit::change: return signed_time(cell.value);
    case Unit::bytes: return cell.value == 0 ? "-" : format_bytes(cell.value);
    default: return with_percent(static_cast<double>(cell.value) * 1e-6);
  }
}

std::string to_text(const ReportTable& table, std::size_t most) {
  if (table.rows.empty()) return {};
  const std::vector<const ReportRow*> rows = shown_rows(table, most);
  const TableUnit unit = unit_of(table, rows);
  std::vector<LaidOut> columns = lay_out(table, rows, unit);
  constexpr std::size_t gap = 2;  // 1 between the columns of a group
  std::string heading;
  for (std::size_t first = 0; first < columns.size();) {
    const std::size_t end = end_of_group(columns, first);
    std::size_t width = end - first - 1;
    for (std::size_t c = first; c < end; ++c) width += columns[c].width;
    const std::string& group = columns[first].group;
    if (group.size() > width) columns[first].width += group.size() - width;
    width = std::max(width, group.size());
    const bool has_dashes = width >= group.size() + 4 && !group.empty();
    heading += has_dashes ? fmt::format("{:-^{}}", " " + group + " ", width)
                          : fmt::format("{:>{}}", group, width);
    heading += std::string(gap, ' ');
    first = end;
  }
  std::string out = fmt::format("{}, {}\n", table.title, unit.name) + without_end(heading);
  for (std::size_t line = 0; line <= rows.size(); ++line) {
    std::string text;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const LaidOut& own = columns[c];
      const bool goes_on = c > 0 && !own.group.empty() && own.group == columns[c - 1].group;
      if (c > 0) text.append(goes_on ? 1 : gap, ' ');
      text += own.to_the_left ? fmt::format("{:<{}}", own.lines[line], own.width)
                              : fmt::format("{:>{}}", own.lines[line], own.width);
    }
    out += without_end(std::move(text));
  }
  const std::string rest = left_out_of(table, most);
  return rest.empty() ? out : out + "  " + rest + "\n";
}

Json to_json(const ReportTable& table) {
  Json list = Json::array();
  for (const ReportRow& row : table.rows) {
    Json object = Json::object();
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const ReportColumn& column = table.columns[c];
      const ReportCell& cell = row.cells[c];
      if (column.key.empty() || cell.is_empty) continue;
      put(object, column.key, column.unit == Unit::text ? Json(cell.text) : Json(cell.value));
    }
    list.append(object);
  }
  return list;
}

std::string with_percent(double fraction) { return fmt::format("{:+.1f} %", fraction * 100); }

std::string signed_time(std::int64_t ns) {
  if (ns == 0) return "-";
  return (ns > 0 ? "+" : "-") + format_time(std::abs(ns));
}

std::string change(std::int64_t ns, const TableUnit& unit) {
  return (ns > 0 ? "+" : "") + unit.text(ns);
}

}  // namespace pipesim
