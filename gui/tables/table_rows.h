// Rows of a table, cell by cell.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "gui/tables/tables.h"
#include "sim/report/words.h"
#include "traces/base/text.h"

namespace pipesim::gui {

// A row tells of no more bars than these.
inline constexpr std::size_t max_picks = 10'000;

inline Table::Column text_column(std::string name) { return {std::move(name), false, {}}; }
inline Table::Column number_column(std::string name, std::string_view unit = {}) {
  return {std::move(name), true, unit};
}
inline Table::Column time_column(std::string name) { return number_column(std::move(name), "ns"); }

// Appends cells in the order of the columns.
class RowOf {
 public:
  explicit RowOf(Table& table) : row_(table.rows.emplace_back()) {}
  explicit RowOf(Table::Row& row) : row_(row) {}

  RowOf& number(std::int64_t value, std::string text) {
    row_.cells.push_back(std::move(text));
    row_.values.push_back(value);
    return *this;
  }
  RowOf& text(std::string_view text) { return number(0, std::string(text)); }
  RowOf& none() { return text({}); }
  RowOf& count(std::int64_t value) { return number(value, format_count(value)); }
  RowOf& time(std::int64_t ns) { return number(ns, format_time(ns)); }
  RowOf& change(std::int64_t ns) { return number(ns, signed_time(ns)); }
  RowOf& bytes(std::int64_t bytes) { return number(bytes, format_bytes(bytes)); }
  // A share as parts per million.
  RowOf& share(double fraction) { return number(ppm(fraction), format_percent(fraction)); }
  RowOf& error(double fraction) { return number(ppm(fraction), with_percent(fraction)); }
  RowOf& shade(Shade shade) {
    row_.shade = shade;
    return *this;
  }
  RowOf& about(const Pick& pick) {
    if (row_.about.size() < max_picks) row_.about.push_back(pick);
    return *this;
  }

 private:
  static std::int64_t ppm(double fraction) {
    return static_cast<std::int64_t>(std::clamp(fraction, -1e9, 1e9) * 1e6 +
                                     (fraction < 0 ? -0.5 : 0.5));
  }

  Table::Row& row_;
};

// A report's table in a panel, whose rows are sorted by their values.
Table shown(const ReportTable& report);

// An instant of an iteration to the microsecond: "33012.500 ms".
std::string instant(std::int64_t ns);

// Of a slice of an input pipeline's run, in all such runs that are open.
Table details_of_input(const Document& document, const Pick& pick);

// The bars of an operation, on the sides that have it.
std::vector<Pick> picks_of(const Pair& pair, OperationId id);

}  // namespace pipesim::gui
