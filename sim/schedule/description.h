// What results and traces say of a schedule: keys that are kept.
#pragma once

#include "sim/schedule/csv.h"
#include "sim/schedule/schedule.h"

namespace pipesim {

// Appends how it is called, and its shape. `Json` is a JSON object in order.
template <typename Json>
void describe(const Schedule& schedule, Json& json) {
  json["schedule"] = schedule.name;
  json["stages"] = schedule.ranks();
  json["virtual_stages"] = schedule.placement.chunks();
  json["microbatches"] = schedule.microbatches;
}

// Its rows, as a CSV file has them.
template <typename Json>
Json rows_of(const Schedule& schedule) {
  Json rows = Json::array();
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    rows.push_back(csv_row(schedule.actions[rank]));
  }
  return rows;
}

}  // namespace pipesim
