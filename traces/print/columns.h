// Tables whose columns continue below if a page is too narrow for them.
#pragma once

#include <string>
#include <vector>

namespace pipesim {

// Cells without a value are "-".
struct Column {
  std::string name;
  std::vector<std::string> cells;
  bool to_the_left = false;  // words, not numbers
};

// Columns that stay together, under a title if it has one.
struct ColumnGroup {
  std::string title;
  std::vector<Column> columns;
};

// `labels` name the rows, after the heading; every column has one cell per row. Rows without any
// value are left out. Groups come closer where that keeps them beside each other. Pure.
std::string table(const std::vector<std::string>& labels, const std::vector<ColumnGroup>& groups,
                  std::size_t width);

}  // namespace pipesim
