// How much of each column of a row its actions fill, by kind: the data of a picture that is too
// narrow for single actions. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "traces/action.h"

namespace pipesim {

class RowShares {
 public:
  // Kinds of a rank's first chunk, cells of a forward with a backward, kinds of later chunks.
  static constexpr std::size_t cells = kind_count;
  static constexpr std::size_t later = kind_count + 1;
  static constexpr std::size_t places = 2 * kind_count + 1;
  using Column = std::array<double, places>;  // in all at most 1

  static constexpr std::size_t place_of(Kind kind, int chunk) {
    return static_cast<std::size_t>(kind) + (chunk > 0 ? later : 0);
  }
  static constexpr bool is_later(std::size_t place) { return place >= later; }
  static constexpr Kind kind_of(std::size_t place) {  // of no cell
    return static_cast<Kind>(is_later(place) ? place - later : place);
  }

  explicit RowShares(int columns) : columns_(static_cast<std::size_t>(columns)) {}

  // From one place along the row to another, in columns; `part` of the row's height.
  void add(std::size_t place, double from, double to, double part = 1);
  const std::vector<Column>& columns() const { return columns_; }

 private:
  std::vector<Column> columns_;
};

}  // namespace pipesim
