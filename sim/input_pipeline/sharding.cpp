#include "sim/input_pipeline/sharding.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::array<std::string_view, 5> sharding_names{"table-wise", "row-wise", "column-wise",
                                                         "data-parallel", "table-row-wise"};

// Reads the placement of each table of one model.
class PlanReader {
 public:
  PlanReader(const RecommendationModel& model, int ranks, int ranks_per_node)
      : model_(model), ranks_(ranks), ranks_per_node_(ranks_per_node) {}

  ShardingPlan read(const JsonCursor& tables) const {
    const auto* members = tables.value().get_if<JsonValue::Object>();
    if (members == nullptr) tables.fail("must be an object, with one key per table");
    std::vector<std::optional<TableSharding>> found(model_.tables.size());
    std::map<std::string_view, std::size_t> places;
    for (std::size_t i = 0; i < model_.tables.size(); ++i) {
      places.emplace(model_.tables[i].name, i);
    }
    for (const auto& [name, value] : *members) {
      const JsonCursor cursor(value, tables.file(), fmt::format("{}.{}", tables.path(), name));
      const auto place = places.find(name);
      if (place == places.end()) fail_unknown(cursor, name);
      found[place->second] = read_one(cursor, model_.tables[place->second]);
    }
    ShardingPlan plan;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i]) {
        tables.fail(fmt::format("table {} of {} is nowhere; say how it is sharded",
                                quote(model_.tables[i].name), model_.name));
      }
      plan.tables.push_back(*std::move(found[i]));
    }
    return plan;
  }

 private:
  [[noreturn]] void fail_unknown(const JsonCursor& cursor, const std::string& name) const {
    constexpr std::size_t most = 5;
    std::vector<std::string> names;
    for (const EmbeddingTable& table : model_.tables) names.push_back(table.name);
    names = nearest_first(name, std::move(names));
    names.resize(std::min(names.size(), most));
    cursor.fail(fmt::format("{} of {}", unknown_name("table", name, names), model_.name));
  }

  TableSharding read_one(const JsonCursor& cursor, const EmbeddingTable& table) const {
    JsonMembers members(cursor);
    const JsonCursor given = members.required("sharding");
    const auto known = std::ranges::find(sharding_names, given.string());
    if (known == sharding_names.end()) {
      given.fail(
          unknown_name("sharding", given.string(), {sharding_names.begin(), sharding_names.end()}));
    }
    TableSharding sharding{static_cast<ShardingType>(known - sharding_names.begin()), {}};
    switch (sharding.sharding) {
      case ShardingType::table_wise: sharding.ranks = {read_rank(members.required("rank"))}; break;
      case ShardingType::row_wise: check_rows(given, table, ranks_); break;
      case ShardingType::column_wise:
        sharding.ranks = read_ranks(members.required("ranks"), table);
        break;
      case ShardingType::data_parallel: break;
      case ShardingType::table_row_wise: {
        const int first = read_node(members.required("node")) * ranks_per_node_;
        sharding.ranks = {first};
        check_rows(given, table, ranks_of_node(first, ranks_, ranks_per_node_));
        break;
      }
    }
    members.finish();
    return sharding;
  }

  int read_rank(const JsonCursor& cursor) const {
    const std::int64_t rank = cursor.integer(0, max_count);
    if (rank >= ranks_) {
      cursor.fail(fmt::format("there is no rank {} among {}; give one from 0 to {}", rank,
                              plural(ranks_, "rank"), ranks_ - 1));
    }
    return static_cast<int>(rank);
  }

  int read_node(const JsonCursor& cursor) const {
    const int nodes = (ranks_ + ranks_per_node_ - 1) / ranks_per_node_;
    const std::int64_t node = cursor.integer(0, max_count);
    if (node >= nodes) {
      cursor.fail(fmt::format("there is no node {} among {}; give one from 0 to {}", node,
                              plural(nodes, "node"), nodes - 1));
    }
    return static_cast<int>(node);
  }

  std::vector<int> read_ranks(const JsonCursor& list, const EmbeddingTable& table) const {
    std::vector<int> ranks;
    std::set<int> named;
    for (const JsonCursor& item : list.array()) {
      const int rank = read_rank(item);
      if (!named.insert(rank).second) {
        item.fail(fmt::format("rank {} is given twice; name each once", rank));
      }
      ranks.push_back(rank);
    }
    if (ranks.empty()) list.fail("an empty list; name at least one rank");
    if (table.width % std::ssize(ranks) != 0) {
      list.fail(fmt::format(
          "{} can't share the {} of table {} evenly; name as many ranks as divide them",
          plural(std::ssize(ranks), "rank"), plural(table.width, "column"), quote(table.name)));
    }
    return ranks;
  }

  static void check_rows(const JsonCursor& cursor, const EmbeddingTable& table, int ranks) {
    if (table.rows >= ranks) return;
    cursor.fail(fmt::format(
        "table {} has {}, fewer than the {} that would share them; make it table-wise or "
        "data-parallel",
        quote(table.name), plural(table.rows, "row"), plural(ranks, "rank")));
  }

  const RecommendationModel& model_;
  int ranks_;
  int ranks_per_node_;
};

}  // namespace

std::string_view sharding_type_name(ShardingType sharding) {
  return sharding_names[static_cast<std::size_t>(sharding)];
}

std::vector<TablePiece> pieces_of(const ShardingPlan& plan, const RecommendationModel& model,
                                  int ranks, int ranks_per_node) {
  std::vector<TablePiece> pieces;
  for (std::size_t t = 0; t < plan.tables.size(); ++t) {
    const EmbeddingTable& table = model.tables[t];
    const TableSharding& sharding = plan.tables[t];
    const auto begin = pieces.size();
    const auto add = [&](int rank, std::int64_t row_begin, std::int64_t row_end,
                         std::int64_t column_begin, std::int64_t column_end) {
      pieces.push_back({static_cast<int>(t), rank, row_begin, row_end, column_begin, column_end});
    };
    const auto add_rows = [&](int first, int count) {
      for (int i = 0; i < count; ++i) {
        add(first + i, rows_before(table.rows, count, i), rows_before(table.rows, count, i + 1), 0,
            table.width);
      }
    };
    switch (sharding.sharding) {
      case ShardingType::table_wise:
        add(sharding.ranks.front(), 0, table.rows, 0, table.width);
        break;
      case ShardingType::row_wise: add_rows(0, ranks); break;
      case ShardingType::column_wise: {
        const std::int64_t columns = table.width / std::ssize(sharding.ranks);
        std::int64_t column = 0;
        for (const int rank : sharding.ranks) {
          add(rank, 0, table.rows, column, column + columns);
          column += columns;
        }
        break;
      }
      case ShardingType::data_parallel:
        for (int rank = 0; rank < ranks; ++rank) add(rank, 0, table.rows, 0, table.width);
        break;
      case ShardingType::table_row_wise: {
        const int first = sharding.ranks.front();
        add_rows(first, ranks_of_node(first, ranks, ranks_per_node));
        break;
      }
    }
    std::sort(pieces.begin() + static_cast<std::ptrdiff_t>(begin), pieces.end(),
              [](const TablePiece& a, const TablePiece& b) { return a.rank < b.rank; });
  }
  return pieces;
}

ShardingPlan default_sharding(const RecommendationModel& model, int ranks) {
  std::vector<std::size_t> largest_first(model.tables.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::ranges::stable_sort(largest_first, [&](std::size_t a, std::size_t b) {
    return model.tables[a].bytes() > model.tables[b].bytes();
  });
  std::vector<std::int64_t> held(static_cast<std::size_t>(ranks), 0);
  ShardingPlan plan;
  plan.tables.resize(model.tables.size());
  for (const std::size_t table : largest_first) {
    const auto emptiest = std::ranges::min_element(held);
    *emptiest += model.tables[table].bytes();
    plan.tables[table] = {ShardingType::table_wise, {static_cast<int>(emptiest - held.begin())}};
  }
  return plan;
}

ShardingPlan parse_sharding_plan(std::string_view text, const std::string& file,
                                 const RecommendationModel& model, int ranks, int ranks_per_node) {
  const JsonValue document = parse_json(text, file);
  const JsonCursor root(document, file);
  JsonMembers members(root);
  members.format("pipesim-sharding-plan", 1);
  ShardingPlan plan = PlanReader(model, ranks, ranks_per_node).read(members.required("tables"));
  members.finish();
  return plan;
}

ShardingPlan read_sharding_plan(const std::string& path, const RecommendationModel& model,
                                int ranks, int ranks_per_node) {
  return parse_sharding_plan(read_file(path), path, model, ranks, ranks_per_node);
}

Json sharding_json(const ShardingPlan& plan, const RecommendationModel& model, int ranks_per_node) {
  Json json;
  json["format"] = "pipesim-sharding-plan";
  json["version"] = 1;
  json["tables"] = Json::object();
  for (std::size_t t = 0; t < plan.tables.size(); ++t) {
    const TableSharding& sharding = plan.tables[t];
    Json& entry = json["tables"][model.tables[t].name];
    entry["sharding"] = sharding_type_name(sharding.sharding);
    switch (sharding.sharding) {
      case ShardingType::table_wise: entry["rank"] = sharding.ranks.front(); break;
      case ShardingType::column_wise: entry["ranks"] = sharding.ranks; break;
      case ShardingType::table_row_wise:
        entry["node"] = sharding.ranks.front() / ranks_per_node;
        break;
      case ShardingType::row_wise:
      case ShardingType::data_parallel: break;
    }
  }
  return json;
}

std::string to_json(const ShardingPlan& plan, const RecommendationModel& model,
                    int ranks_per_node) {
  return sharding_json(plan, model, ranks_per_node).dump(2) + "\n";
}

}  // namespace pipesim
