#include <algorithm>

#include "gui/tables/tables.h"

namespace pipesim::gui {

Table folded(const Table& table, std::size_t blocks) {
  const std::size_t rows = table.rows.size();
  if (rows == 0) return table;
  const std::size_t most = std::max<std::size_t>(blocks, 1);
  const std::size_t height = (rows + most - 1) / most;
  const std::size_t used = (rows + height - 1) / height;
  Table result;
  result.title = table.title;
  result.note = table.note;
  for (std::size_t block = 0; block < used; ++block) {
    result.columns.insert(result.columns.end(), table.columns.begin(), table.columns.end());
    // What labels stand under is said once.
    if (block > 0) result.columns[block * table.columns.size()].name.clear();
  }
  result.rows.resize(height);
  for (std::size_t i = 0; i < used * height; ++i) {
    Table::Row& row = result.rows[i % height];
    if (i >= rows) {
      row.cells.resize(row.cells.size() + table.columns.size());
      row.values.resize(row.cells.size());
      continue;
    }
    const Table::Row& from = table.rows[i];
    row.cells.insert(row.cells.end(), from.cells.begin(), from.cells.end());
    row.values.insert(row.values.end(), from.values.begin(), from.values.end());
    row.about.insert(row.about.end(), from.about.begin(), from.about.end());
  }
  return result;
}

}  // namespace pipesim::gui
