#include "sim/schedule/description.h"

#include "sim/schedule/csv.h"

namespace pipesim {

void describe(const Schedule& schedule, Json& json) {
  json["schedule"] = schedule.name;
  json["stages"] = schedule.ranks();
  json["virtual_stages"] = schedule.placement.virtual_stages();
  json["microbatches"] = schedule.microbatches;
}

std::vector<std::string> rows_of(const Schedule& schedule) {
  std::vector<std::string> rows;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    rows.push_back(csv_row(schedule.actions[rank]));
  }
  return rows;
}

std::vector<std::string> dependencies_of(const Schedule& schedule) {
  std::vector<std::string> lines;
  for (const auto& [action, awaited] : schedule.dependencies) {
    lines.push_back(to_text(action) + " after " + to_text(awaited));
  }
  return lines;
}

}  // namespace pipesim
