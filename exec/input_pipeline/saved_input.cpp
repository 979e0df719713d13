#include "exec/input_pipeline/saved_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "exec/checkpoint/hash.h"
#include "exec/input_pipeline/input_session.h"
#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr std::string_view saved_kind = "input-pipeline";
constexpr std::string_view columns_of_state = ".columns.";

// A hash of its first samples, to identify a source.
std::string hash_of(const BatchSource& source) {
  constexpr std::int64_t looked_at = 64;
  const InputBatch batch =
      source.read(0, std::min(source.samples().value_or(looked_at), looked_at));
  Hasher hasher;
  const auto add = [&](const auto& values) { hasher.add(std::as_bytes(std::span(values))); };
  add(batch.dense);
  add(batch.labels);
  for (const IdLists& ids : batch.ids) add(ids.values);
  return hasher.text();
}

std::int64_t global_batch(const RecommendationTraining& training) {
  return training.batch_size * training.ranks;
}

Slice slice_of(float* numbers, std::size_t size) {
  return {numbers, static_cast<std::int64_t>(size), Number::float32};
}

Numbers numbers_of(const TablePiece& piece, const EmbeddingTable& table) {
  return {{table.width, {piece.row_begin, piece.row_end}, {{piece.column_begin, piece.column_end}}},
          {0, piece.numbers()}};
}

Numbers rows_of(const TablePiece& piece, const EmbeddingTable& table) {
  Numbers numbers = Numbers::all(table.rows);
  numbers.range = {piece.row_begin, piece.row_end};
  return numbers;
}

std::string state_key(int table, const Range& columns, const EmbeddingTable& spec) {
  std::string key = fmt::format("tables.{}.state", table);
  if (columns.size() < spec.width) {
    key += fmt::format("{}{}-{}", columns_of_state, columns.begin, columns.end);
  }
  return key;
}

// The columns of the state with that key.
std::optional<Range> columns_in(std::string_view key, const EmbeddingTable& spec) {
  const std::size_t at = key.find(columns_of_state);
  if (at == std::string_view::npos) return Range{0, spec.width};
  key.remove_prefix(at + columns_of_state.size());
  Range columns;
  const auto [middle, wrong] = std::from_chars(key.data(), key.data() + key.size(), columns.begin);
  const char* end = key.data() + key.size();
  if (wrong != std::errc() || middle == end || *middle != '-') return std::nullopt;
  const auto [last, wrong_end] = std::from_chars(middle + 1, end, columns.end);
  if (wrong_end != std::errc() || last != end) return std::nullopt;
  return columns;
}

void load_state(const CheckpointReader& checkpoint, const EmbeddingTable& spec,
                ShardedTables::Part& part) {
  const TablePiece& piece = part.piece;
  const Range own{piece.column_begin, piece.column_end};
  const Numbers rows = rows_of(piece, spec);
  const std::string key = state_key(piece.table, own, spec);
  if (checkpoint.has(key)) {
    checkpoint.read(key, rows, part.state.data());
    return;
  }
  std::vector<double> sums(part.state.size());
  std::vector<float> theirs(part.state.size());
  std::int64_t found = 0;
  for (const std::string& other : checkpoint.keys(fmt::format("tables.{}.state", piece.table))) {
    const auto columns = columns_in(other, spec);
    const std::int64_t shared = columns ? common(*columns, own).size() : 0;
    if (shared == 0) continue;
    found += shared;
    checkpoint.read(other, rows, theirs.data());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += static_cast<double>(shared) * double{theirs[i]};
    }
  }
  if (found != own.size()) checkpoint.read(key, rows, part.state.data());  // says what is missing
  for (std::size_t i = 0; i < sums.size(); ++i) {
    part.state[i] = static_cast<float>(sums[i] / static_cast<double>(own.size()));
  }
}

}  // namespace

Manifest manifest_of(const InputJob& job, const InputState& state) {
  const RecommendationTraining& training = *job.training;
  Json json;
  json["kind"] = saved_kind;
  json["model"] = Json::verbatim(to_json(training.model));
  json["seed"] = std::to_string(training.seed);
  json["data"] = {{"name", job.source->name()},
                  {"samples", job.source->samples()},
                  {"hash", hash_of(*job.source)}};
  json["global_batch"] = global_batch(training);
  json["batches"] = job.program.batches;
  json["accumulate"] = training.accumulate;
  json["table_optimizer"] = training.has_states() ? "adagrad" : "sgd";
  json["stale"] = job.program.is_stale;
  json["every"] = job.saves ? job.saves->every : 0;
  json["epoch"] = state.epoch;
  json["batch"] = state.batch;
  json["losses"] = state.losses;
  json["evaluations"] = state.evaluations;
  json["layout"] = {{"input_pipeline", job.program.name}, {"ranks", training.ranks}};
  Manifest manifest;
  manifest.iteration = state.done(job.program.batches);
  manifest.training = json.dump();
  return manifest;
}

InputState state_of(const FoundCheckpoint& checkpoint, const InputJob& job) {
  const RecommendationTraining& training = *job.training;
  const std::string file = fmt::format("{}/{}", checkpoint.path, manifest_name);
  const auto refuse = [&](const std::string& why) {
    throw input_error(fmt::format("{}: {}", printable(checkpoint.path), why));
  };
  const auto same = [&](std::string_view what, const auto& saved, const auto& own) {
    if (saved == own) return;
    refuse(fmt::format("was made with {} {}, not {}; give the same", what, saved, own));
  };
  const auto count = [](const JsonCursor& value) {
    return static_cast<int>(value.integer(0, max_count));
  };
  const JsonValue document = parse_json(checkpoint.manifest.training, file);
  JsonMembers members(JsonCursor(document, file, "training"));
  if (members.required("kind").string() != saved_kind) {
    refuse("is from a training with a schedule; omit --input-pipeline");
  }
  const JsonCursor model = members.required("model");
  if (to_json(parse_recommendation_model(json_text(model.value()), file)) !=
      to_json(training.model)) {
    refuse(fmt::format("is for another model than {}", quote(training.model.name)));
  }
  same("--seed", members.required("seed").string(), std::to_string(training.seed));
  JsonMembers data(members.required("data"));
  if (data.required("hash").string() != hash_of(*job.source)) {
    refuse(fmt::format("was trained with other samples, {}; give --data as it had",
                       quote(data.required("name").string())));
  }
  same("samples per batch of all ranks:", members.required("global_batch").integer(1, max_bytes),
       global_batch(training));
  same("--batches", count(members.required("batches")), job.program.batches);
  same("--accumulate", count(members.required("accumulate")), training.accumulate);
  same("--table-optimizer", members.required("table_optimizer").string(),
       std::string(training.has_states() ? "adagrad" : "sgd"));
  const bool is_stale = members.required("stale").boolean();
  const int every = count(members.required("every"));
  // Batches are looked up before updates, but not across a save.
  if (is_stale && job.program.is_stale && job.saves) {
    same("--checkpoint-every", every, job.saves->every);
  }
  InputState state;
  state.epoch = count(members.required("epoch"));
  state.batch = count(members.required("batch"));
  if (state.batch > 0 && !job.cut && state.epoch < job.epochs) {
    refuse(
        "is within an epoch, and a program from a file runs whole ones; give the pipeline "
        "by its name");
  }
  for (auto& [name, numbers] :
       {std::pair("losses", &state.losses), std::pair("evaluations", &state.evaluations)}) {
    for (const JsonCursor& item : members.required(name).array()) {
      // Null if the training diverged.
      numbers->push_back(item.is_null() ? std::numeric_limits<double>::quiet_NaN() : item.number());
    }
  }
  return state;
}

std::vector<SavedArray> saved_arrays(const RecommendationTraining& training, int rank,
                                     ShardedTables& tables, DenseNumbers& parameters) {
  std::vector<SavedArray> arrays;
  const auto add = [&](ShardedTables::Part& part) {
    const TablePiece& piece = part.piece;
    const EmbeddingTable& spec = training.model.tables[static_cast<std::size_t>(piece.table)];
    if (part.weights.empty()) return;
    arrays.push_back({fmt::format("tables.{}.weight", piece.table), spec.rows * spec.width,
                      numbers_of(piece, spec), slice_of(part.weights.data(), part.weights.size())});
    if (part.state.empty()) return;
    arrays.push_back({state_key(piece.table, {piece.column_begin, piece.column_end}, spec),
                      spec.rows, rows_of(piece, spec),
                      slice_of(part.state.data(), part.state.size())});
  };
  for (ShardedTables::Part& part : tables.exchanged()) add(part);
  if (rank != 0) return arrays;
  for (ShardedTables::Part& part : tables.copies()) add(part);
  for (const auto& [key, numbers] :
       {std::pair("dense.bottom", &parameters.bottom), std::pair("dense.top", &parameters.top)}) {
    const auto size = static_cast<std::int64_t>(numbers->size());
    arrays.push_back({key, size, Numbers::all(size), slice_of(numbers->data(), numbers->size())});
  }
  return arrays;
}

void load(const CheckpointReader& checkpoint, const RecommendationTraining& training,
          ShardedTables& tables, DenseNumbers& parameters) {
  for (auto* parts : {&tables.exchanged(), &tables.copies()}) {
    for (ShardedTables::Part& part : *parts) {
      const EmbeddingTable& spec =
          training.model.tables[static_cast<std::size_t>(part.piece.table)];
      if (part.weights.empty()) continue;
      checkpoint.read(fmt::format("tables.{}.weight", part.piece.table),
                      numbers_of(part.piece, spec), part.weights.data());
      if (!part.state.empty()) load_state(checkpoint, spec, part);
    }
  }
  for (const auto& [key, numbers] :
       {std::pair("dense.bottom", &parameters.bottom), std::pair("dense.top", &parameters.top)}) {
    checkpoint.read(key, Numbers::all(static_cast<std::int64_t>(numbers->size())), numbers->data());
  }
}

}  // namespace pipesim::exec
