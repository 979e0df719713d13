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

// What a column's values are: words, or sentences, which only the last column may have; an index,
// as of a rank; a duration and a difference of durations in nanoseconds; a share of a whole and a
// relative difference in parts per million.
enum class Unit : std::uint8_t { text, prose, index, count, time, change, bytes, share, fraction };

constexpr bool is_words(Unit unit) { return unit == Unit::text || unit == Unit::prose; }

constexpr bool is_duration(Unit unit) { return unit == Unit::time || unit == Unit::change; }

// Of values as they are in CSV: "ns", "bytes", "ppm"; or empty.
std::string_view name_of(Unit unit);

struct ReportColumn {
  // "measured_ns.p10" is the member `p10` of the member `measured_ns`; empty: not in JSON.
  std::string key;
  std::string name;  // its heading; empty: in JSON alone
  Unit unit = Unit::count;
  std::string group = {};  // a heading above it and its neighbours of the same group
  bool in_text = true;     // false: more than a terminal has room for
  bool or_null = false;    // an empty cell is null in JSON, instead of left out
};

struct ReportCell {
  std::int64_t value = 0;
  std::string text = {};
  bool is_empty = false;  // shown blank
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
  ReportRow& fraction(double fraction);
  ReportRow& none() {
    cells.push_back({0, {}, true});
    return *this;
  }
};

struct ReportTable {
  std::string key;    // in JSON
  std::string title;  // empty: its first column says what it is of
  std::vector<ReportColumn> columns;
  std::vector<ReportRow> rows;
  std::string note = {};  // a sentence or two below it

  ReportRow& add() { return rows.emplace_back(); }
};

// Leaves out columns without any value, but not the first.
void drop_empty_columns(ReportTable& table);

// A column's heading where groups have none: "measured median" if another group has a median, too.
std::string heading_of(const ReportTable& table, const ReportColumn& column);

inline constexpr std::size_t no_limit = static_cast<std::size_t>(-1);

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

// Under its title, as table() lays it out (columns.h), with its note; without rows the note alone.
std::string to_text(const ReportTable& table, std::size_t most, int width);
// A list of the rows as objects.
Json to_json(const ReportTable& table);

double fraction_of(std::int64_t part, std::int64_t whole);  // 0 if `whole` is 0
std::string with_percent(double fraction);                  // "+3.1 %"
std::string signed_time(std::int64_t ns);                   // "+3.10 ms"; "-" for none
// With a sign, in the table's unit; "-" for none.
std::string change(std::int64_t ns, const TableUnit& unit);

}  // namespace pipesim
