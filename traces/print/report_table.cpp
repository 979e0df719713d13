#include "traces/print/report_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <utility>

#include "traces/base/text.h"
#include "traces/print/columns.h"
#include "traces/print/terminal.h"

namespace pipesim {
namespace {

bool is_shown(const ReportColumn& column, bool in_text) {
  return !column.name.empty() && (column.in_text || !in_text);
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
    case Unit::share:
    case Unit::fraction: return "ppm";
    default: return {};
  }
}

ReportRow& ReportRow::fraction(double fraction) {
  return number(std::llround(std::clamp(fraction, -1e9, 1e9) * 1e6));
}

void drop_empty_columns(ReportTable& table) {
  for (std::size_t c = table.columns.size(); c-- > 1;) {
    const auto is_empty = [&](const ReportRow& row) {
      return row.cells[c].value == 0 && row.cells[c].text.empty();
    };
    if (!std::ranges::all_of(table.rows, is_empty)) continue;
    const auto at = static_cast<std::ptrdiff_t>(c);
    table.columns.erase(table.columns.begin() + at);
    for (ReportRow& row : table.rows) row.cells.erase(row.cells.begin() + at);
  }
}

std::string heading_of(const ReportTable& table, const ReportColumn& column) {
  const auto is_elsewhere = [&](const ReportColumn& own) {
    return own.group == column.group && !own.name.empty() &&
           std::ranges::count(table.columns, own.name, &ReportColumn::name) > 1;
  };
  const bool needs_group =
      !column.group.empty() && std::ranges::any_of(table.columns, is_elsewhere);
  return needs_group ? column.group + " " + column.name : column.name;
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

TableUnit unit_of(const ReportTable& table, const std::vector<const ReportRow*>& rows,
                  bool in_text) {
  std::int64_t longest = 0;
  std::int64_t largest = 0;  // of differences
  for (const ReportRow* row : rows) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      if (!is_shown(table.columns[c], in_text)) continue;
      const std::int64_t size = std::abs(row->cells[c].value);
      if (table.columns[c].unit == Unit::time) longest = std::max(longest, size);
      if (table.columns[c].unit == Unit::change) largest = std::max(largest, size);
    }
  }
  return table_unit(longest > 0 ? longest : largest);
}

std::string text_of(const ReportCell& cell, Unit unit, const TableUnit& times) {
  if (cell.is_empty || !is_duration(unit)) return text_of(cell, unit);
  return unit == Unit::time ? times.text(cell.value) : change(cell.value, times);
}

std::string text_of(const ReportCell& cell, Unit unit) {
  if (cell.is_empty) return {};
  switch (unit) {
    case Unit::text:
    case Unit::prose: return cell.text;
    case Unit::index: return std::to_string(cell.value);
    case Unit::count: return format_count(cell.value);
    case Unit::time: return format_time(cell.value);
    case Unit::change: return signed_time(cell.value);
    case Unit::bytes: return cell.value == 0 ? "-" : format_bytes(cell.value);
    case Unit::share:
      if (cell.value == 0) return "-";
      return fmt::format("{:.0f} %", static_cast<double>(cell.value) * 1e-4);
    default: break;
  }
  const double fraction = static_cast<double>(cell.value) * 1e-6;
  return fraction < 10 ? with_percent(fraction) : fmt::format("x {:.0f}", fraction + 1);
}

std::string to_text(const ReportTable& table, std::size_t most, int width) {
  const std::string note = table.note.empty() ? "" : wrap(table.note, width) + "\n";
  if (table.rows.empty()) return note;
  const std::vector<const ReportRow*> rows = shown_rows(table, most);
  const TableUnit unit = unit_of(table, rows, true);
  std::vector<std::string> labels;
  std::vector<ColumnGroup> groups;
  ProseColumn prose;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const ReportColumn& column = table.columns[c];
    if (!is_shown(column, true)) continue;
    Column own{column.name, {}, column.unit == Unit::text};
    for (const ReportRow* row : rows) {
      own.cells.push_back(text_of(row->cells[c], column.unit, unit));
    }
    if (column.unit == Unit::prose) {
      prose = {std::move(own.name), std::move(own.cells)};
      continue;
    }
    if (labels.empty()) {
      if (table.title.empty()) own.name = fmt::format("{}, {}", column.name, unit.name);
      std::size_t size = own.name.size();
      for (const std::string& cell : own.cells) size = std::max(size, cell.size());
      labels.push_back(own.name);
      for (const std::string& cell : own.cells) {
        labels.push_back(own.to_the_left ? cell : fmt::format("{:>{}}", cell, size));
      }
      continue;
    }
    const bool goes_on =
        !groups.empty() && !column.group.empty() && groups.back().title == column.group;
    if (!goes_on) groups.push_back({column.group, {}});
    groups.back().columns.push_back(std::move(own));
  }
  const std::string rest = left_out_of(table, most);
  const bool has_times = std::ranges::any_of(table.columns, [](const ReportColumn& column) {
    return is_shown(column, true) && is_duration(column.unit);
  });
  std::string title = table.title;
  if (!title.empty()) title += has_times ? fmt::format(", {}\n", unit.name) : "\n";
  return title + pipesim::table(labels, groups, static_cast<std::size_t>(width), prose) +
         (rest.empty() ? "" : "  " + rest + "\n") + note;
}

Json to_json(const ReportTable& table) {
  Json list = Json::array();
  for (const ReportRow& row : table.rows) {
    Json object = Json::object();
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const ReportColumn& column = table.columns[c];
      const ReportCell& cell = row.cells[c];
      if (column.key.empty() || (cell.is_empty && !column.or_null)) continue;
      put(object, column.key,
          cell.is_empty           ? Json(nullptr)
          : is_words(column.unit) ? Json(cell.text)
                                  : Json(cell.value));
    }
    list.append(object);
  }
  return list;
}

double fraction_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
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
