// A table of a report: rows under typed columns, said once. Faces lay it out: text, JSON, the page
// (sim/report/html.cpp), the viewer and its CSV (gui/tables).
//
// Plain values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/base/json.h"
#include "traces/print/tables.h"

namespace pipesim {

// What a column's values are: an index, as of a rank; a duration and a difference of durations in
// nanoseconds; a fraction in parts per million.
enum class Unit : std::uint8_t { text, index, count, time, change, bytes, fraction };

// Of values as they are in CSV: "ns", "bytes", "ppm"; or empty.
std::string_view name_of(Unit unit);

struct ReportColumn {
  // "measured_ns.p10" is the member `p10` of the member `measured_ns`; empty: not in JSON.
  std::string key;
  std::string name;  // its heading; empty: in JSON alone
  Unit unit = Unit::count;
  std::string group = {};  // a heading above it and its neighbours of the same group
  bool in_text = true;     // false: more than a terminal has room for
};

struct ReportCell {
  std::int64_t value = 0;
  std::string text = {};
  bool is_empty = false;  // shown blank, and left out of JSON
};

struct ReportRow {
  std::vector<ReportCell> cells;  // in the order of the columns
  std::int64_t weight = 0;        // where there is no room for all, those with the largest stay

  ReportRow& number(std::int64_t value) {
    cells.push_back({value});
    return *this;
  }
  ReportRow& text(std::string_view text) {
    cells.push_back({0, std::string(text)});
    return *this;
  }
  ReportRow& none() {
    cells.push_back({0, {}, true});
    return *this;
  }
};

struct ReportTable {
  std::string key;  // in JSON
  std::string title;
  std::vector<ReportColumn> columns;
  std::vector<ReportRow> rows;

  ReportRow& add() { return rows.emplace_back(); }
};

// At most so many rows, in their order or, of more, those of the largest weight.
std::vector<const ReportRow*> shown_rows(const ReportTable& table, std::size_t most);
// "the 24 that differ most, of 96; --json lists them all"; empty if all are shown.
std::string left_out_of(const ReportTable& table, std::size_t most);
// The unit for all durations of the rows that are shown: that of the longest, not of differences.
// `in_text`: of the columns that text has.
TableUnit unit_of(const ReportTable& table, const std::vector<const ReportRow*>& rows,
                  bool in_text);
// A cell's text, where durations are in a table's unit.
std::string text_of(const ReportCell& cell, Unit unit, const TableUnit& times);
// The same, each duration in its own unit.
std::string text_of(const ReportCell& cell, Unit unit);

// Under its title, as table() lays it out (columns.h); empty if there are no rows.
std::string to_text(const ReportTable& table, std::size_t most, int width);
// A list of the rows as objects.
Json to_json(const ReportTable& table);

std::string with_percent(double fraction);  // "+3.1 %"
std::string signed_time(std::int64_t ns);   // "+3.10 ms"; "-" for none
// With a sign, in the table's unit; "-" for none.
std::string change(std::int64_t ns, const TableUnit& unit);

}  // namespace pipesim
