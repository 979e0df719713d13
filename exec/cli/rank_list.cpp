#include "exec/cli/rank_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "traces/base/json.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

struct NamedAxis {
  const char* name;
  Axis axis;
  std::int64_t Coordinates::*coordinate;
  bool always;
};
constexpr std::array<NamedAxis, axis_count> named_axes{
    {{"pipeline", Axis::pipeline, &Coordinates::pipeline, true},
     {"data", Axis::data, &Coordinates::data, true},
     {"tensor", Axis::tensor, &Coordinates::tensor, true},
     {"context", Axis::context, &Coordinates::context, false},
     {"expert", Axis::expert, &Coordinates::expert, false}}};

// Numbers to the right, words to the left.
std::string in_columns(const std::vector<std::vector<std::string>>& rows, std::size_t words_from) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out += "  ";
      const bool last = i + 1 == row.size();
      out += i < words_from ? fmt::format("{:>{}}", row[i], widths[i])
             : last         ? row[i]
                            : fmt::format("{:<{}}", row[i], widths[i]);
    }
    out += "\n";
  }
  return out;
}

}  // namespace

std::string rank_list(const Mesh& mesh, const std::vector<RankFacts>& ranks,
                      const std::string& transport) {
  std::vector<std::vector<std::string>> rows{{"rank"}};
  const auto for_each_axis = [&](const auto& visit) {
    for (const NamedAxis& axis : named_axes) {
      if (axis.always || mesh.size(axis.axis) > 1) visit(axis);
    }
  };
  for_each_axis([&](const NamedAxis& axis) { rows[0].emplace_back(axis.name); });
  const std::size_t words_from = rows[0].size() + 1;
  for (const char* name : {"local", "host", "device"}) rows[0].emplace_back(name);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Coordinates at = mesh.coordinates_of(static_cast<std::int64_t>(rank));
    std::vector<std::string> row{std::to_string(rank)};
    for_each_axis(
        [&](const NamedAxis& axis) { row.push_back(std::to_string(at.*axis.coordinate)); });
    row.push_back(std::to_string(ranks[rank].local_rank));
    row.push_back(printable(ranks[rank].host));
    row.push_back(printable(ranks[rank].device));
    rows.push_back(std::move(row));
  }
  return fmt::format("{}, transport {}\n\n{}",
                     plural(static_cast<std::int64_t>(ranks.size()), "rank"), transport,
                     in_columns(rows, words_from));
}

std::string rank_list_json(const Mesh& mesh, const std::vector<RankFacts>& ranks,
                           const std::string& transport) {
  Json json;
  json["format"] = "pipeexec-ranks";
  json["version"] = 1;
  json["transport"] = transport;
  for (const NamedAxis& axis : named_axes) json["mesh"][axis.name] = mesh.size(axis.axis);
  json["ranks"] = Json::array();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Coordinates at = mesh.coordinates_of(static_cast<std::int64_t>(rank));
    Json own{{"rank", rank}, {"host", ranks[rank].host}, {"local_rank", ranks[rank].local_rank}};
    for (const NamedAxis& axis : named_axes) own["coordinates"][axis.name] = at.*axis.coordinate;
    own["device"] = ranks[rank].device;
    json["ranks"].push_back(std::move(own));
  }
  return json.dump(2) + "\n";
}

}  // namespace pipesim::exec
