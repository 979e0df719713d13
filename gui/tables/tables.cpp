// Tables of a comparison.
#include "gui/tables/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "gui/scene/shading.h"
#include "gui/tables/table_rows.h"
#include "sim/report/comparison_tables.h"

namespace pipesim::gui {
namespace {

// Why there is nothing to say of a pair.
std::string note_without_pair(const Document& document) {
  if (!document.not_compared.empty()) return document.not_compared;
  return "There is one run: open another one to compare them.";
}

const Comparison& comparison_of(const Document& document) { return document.pair->comparison; }

// A table of a pair where there is none.
Table without_pair(const Document& document, std::string title) {
  Table table;
  table.title = std::move(title);
  table.note = note_without_pair(document);
  return table;
}

// For columns; those of a table without a pair stay empty.
std::array<std::string, 2> names_of_sides(const Document& document) {
  if (!document.pair) return {"first", "second"};
  return {name_of_side(document, predicted_side), name_of_side(document, measured_side)};
}

RowOf& add_lateness(RowOf& row, const Lateness& late) {
  return row.change(late.own_ns)
      .change(late.launch_ns)
      .change(late.communication_ns)
      .change(late.inherited_ns);
}

void add_lateness_columns(Table& table) {
  for (const char* cause : {"own", "launch", "communication", "inherited"}) {
    table.columns.push_back(time_column(cause));
  }
}

}  // namespace

std::vector<Pick> picks_of(const Pair& pair, OperationId id) {
  std::vector<Pick> picks;
  for (const Side side : {measured_side, predicted_side}) {
    const Ref span = pair.span_of[side][id];
    if (span != no_ref) picks.push_back({pair.trace[side], span, false});
  }
  return picks;
}

Table shown(const ReportTable& report) {
  Table table;
  table.title = report.title;
  if (!table.title.empty()) {
    table.title.front() = static_cast<char>(table.title.front() - 'a' + 'A');
  }
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < report.columns.size(); ++c) {
    const ReportColumn& column = report.columns[c];
    if (column.name.empty()) continue;
    columns.push_back(c);
    table.columns.push_back(
        {heading_of(report, column), !is_words(column.unit), name_of(column.unit)});
  }
  for (const ReportRow& row : report.rows) {
    RowOf own(table);
    for (const std::size_t c : columns) {
      own.number(row.cells[c].value, text_of(row.cells[c], report.columns[c].unit));
    }
  }
  table.note = report.note;
  return table;
}

Table cause_table(const Document& document) {
  if (!document.pair) return without_pair(document, "Causes");
  const Comparison& comparison = comparison_of(document);
  const ShownCauses causes = shown_causes(comparison, comparison.root_causes.size());
  Table table = shown(cause_table(comparison, causes));
  for (std::size_t i = 0; i < causes.places.size(); ++i) {
    RowOf row(table.rows[causes.row_of(i)]);
    for (const OperationId id : comparison.root_causes[causes.places[i]].operations) {
      for (const Pick& pick : picks_of(*document.pair, id)) row.about(pick);
    }
  }
  return table;
}

Table gap_table(const Document& document) {
  if (!document.pair) return without_pair(document, "Where the difference comes from");
  const Comparison& comparison = comparison_of(document);
  Table table = shown(term_table(comparison));
  for (const Side side : both_sides) {
    const std::string wire = wire_in_words(comparison, side);
    if (!wire.empty()) table.note += (table.note.empty() ? "" : ". ") + wire;
  }
  return table;
}

Table stage_kind_table(const Document& document) {
  if (!document.pair) return without_pair(document, "Durations by stage and kind");
  const Pair& pair = *document.pair;
  Table table = shown(kind_table(pair.comparison));
  // Which operations a row is about.
  std::map<std::pair<std::int32_t, Kind>, std::vector<OperationId>> operations;
  const Operations& all = pair.comparison.operations;
  for (OperationId id = 0; id < all.size(); ++id) {
    if (all.matched(id)) operations[{all.actions[id].stage, all.actions[id].kind}].push_back(id);
  }
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const StageKind& kind = pair.comparison.stage_kinds[i];
    RowOf row(table.rows[i]);
    row.shade(shade_of(kind.kind));
    for (const OperationId id : operations[{kind.stage, kind.kind}]) {
      // Forwards that share a cell have a row of their own.
      if (all.opens_cell[id] != kind.is_cell) continue;
      for (const Pick& pick : picks_of(pair, id)) row.about(pick);
    }
  }
  table.note = fmt::format(
      "Medians; of the {} over microbatches and iterations. Lateness is summed "
      "over the microbatches of the compared iteration.",
      side_noun(pair.comparison, measured_side));
  return table;
}

Table operation_table(const Document& document, std::size_t most) {
  Table table;
  table.title = "Operations";
  const auto [first, second] = names_of_sides(document);
  table.columns = {text_column("action"),
                   number_column("rank"),
                   time_column(first + " start"),
                   time_column(second + " start"),
                   time_column(first + " duration"),
                   time_column(second + " duration"),
                   time_column("lateness")};
  add_lateness_columns(table);
  table.columns.push_back(time_column(first + " slack"));
  table.columns.push_back(time_column(second + " slack"));
  table.columns.push_back(text_column("order"));
  if (!document.pair) {
    table.note = note_without_pair(document);
    return table;
  }
  const Pair& pair = *document.pair;
  const Comparison& comparison = pair.comparison;
  const Operations& operations = comparison.operations;
  // What only one side has, and a transfer, counts as neither late nor early.
  const auto late_by = [&](OperationId id) { return comparison.lateness[id].total_ns(); };
  const auto before = [&](OperationId a, OperationId b) {
    return std::pair(late_by(b), a) < std::pair(late_by(a), b);
  };
  std::vector<OperationId> shown(operations.size());
  std::iota(shown.begin(), shown.end(), OperationId{0});
  const std::size_t all = shown.size();
  if (all > most) {
    std::ranges::nth_element(shown, shown.begin() + static_cast<std::ptrdiff_t>(most), before);
    shown.resize(most);
    table.note = fmt::format("The {} latest of {} operations.", format_count(std::ssize(shown)),
                             format_count(static_cast<std::int64_t>(all)));
  }
  std::ranges::sort(shown, before);
  std::vector<bool> swapped(all, false);
  for (const OperationId id : comparison.swapped) swapped[id] = true;
  for (const OperationId id : shown) {
    RowOf row(table);
    row.text(operation_name(operations.actions[id])).shade(shade_of(operations.actions[id].kind));
    const auto own = [&](Side side) -> const Occurrence& { return operations.sides[side][id]; };
    row.count(own(own(measured_side).exists() ? measured_side : predicted_side).rank);
    const auto times = [&](auto value) {
      for (const Side side : both_sides) {
        if (own(side).exists()) {
          row.time(value(side));
        } else {
          row.none();
        }
      }
    };
    times([&](Side side) { return own(side).start_ns; });
    times([&](Side side) { return own(side).duration_ns(); });
    if (operations.matched(id) && !operations.transfers(id)) {
      row.change(late_by(id));
      add_lateness(row, comparison.lateness[id]);
    } else {
      for (int i = 0; i < 5; ++i) row.none();
    }
    times([&](Side side) { return comparison.sides[side].played.slack_ns[id]; });
    row.text(swapped[id] ? "moved" : "");
    for (const Pick& pick : picks_of(pair, id)) row.about(pick);
  }
  return table;
}

std::string to_csv(const Table& table) {
  std::string out;
  const auto put = [&](std::string_view cell) {
    if (cell.find_first_of(",\"\r\n") == std::string_view::npos) {
      out += cell;
      return;
    }
    out += '"';
    for (const char letter : cell) {
      if (letter == '"') out += '"';
      out += letter;
    }
    out += '"';
  };
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Table::Column& column = table.columns[i];
    if (i > 0) out += ',';
    put(column.unit.empty() ? column.name : fmt::format("{} ({})", column.name, column.unit));
  }
  out += "\r\n";
  for (const Table::Row& row : table.rows) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      if (i > 0) out += ',';
      if (table.columns[i].number && !row.cells[i].empty()) {
        fmt::format_to(std::back_inserter(out), "{}", row.values[i]);
      } else {
        put(row.cells[i]);
      }
    }
    out += "\r\n";
  }
  return out;
}

}  // namespace pipesim::gui
