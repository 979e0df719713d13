// Tables whose columns continue below if a page is too narrow for them.
#pragma once

#include <string>
#include <vector>

namespace pipesim {

// Cells without a value are "-", or empty.
struct Column {
  std::string name;
  std::vector<std::string> cells;
  bool to_the_left = false;  // words, not numbers
};

// Sentences behind the rows, which continue on lines of their own.
struct ProseColumn {
  std::string name;
  std::vector<std::string> cells;  // none: there is no such column
};

// Columns that stay together, under a title if it has one.
struct ColumnGroup {
  std::string title;
  std::vector<Column> columns;
};

// `labels` name the rows, after the heading; every column has one cell per row. Rows without any
// value or sentence are left out. Groups come closer where that keeps them beside each other. Pure.
std::string table(const std::vector<std::string>& labels, const std::vector<ColumnGroup>& groups,
                  std::size_t width, const ProseColumn& prose = {});

}  // namespace pipesim
