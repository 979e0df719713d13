#include "sim/cli/fit_next.h"

#include <array>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "traces/base/error.h"

namespace pipesim::cli {
namespace {

// Powers of two that numbers of a run are multiplied by.
struct ShapeMove {
  int tensor = 0, stages = 0, replicas = 0, batch = 0;
};

// Moves of one number, then of two.
std::vector<ShapeMove> shape_moves() {
  constexpr std::array fields{&ShapeMove::tensor, &ShapeMove::stages, &ShapeMove::replicas,
                              &ShapeMove::batch};
  std::vector<ShapeMove> moves;
  for (const auto field : fields) {
    for (const int power : {1, -1}) {
      ShapeMove move;
      move.*field = power;
      moves.push_back(move);
    }
  }
  for (std::size_t a = 0; a < fields.size(); ++a) {
    for (std::size_t b = a + 1; b < fields.size(); ++b) {
      for (const auto& [first, second] : {std::pair(1, -1), {-1, 1}, {1, 1}, {-1, -1}}) {
        ShapeMove move;
        move.*fields[a] = first;
        move.*fields[b] = second;
        moves.push_back(move);
      }
    }
  }
  return moves;
}

// Halves or doubles the number; false if it can't be halved.
bool move_number(int power, std::int64_t& number) {
  if (power > 0) number *= 2;
  if (power < 0) {
    if (number % 2 != 0) return false;
    number /= 2;
  }
  return true;
}

struct RunShape {
  std::int64_t tensor, stages, replicas, batch, microbatches;

  std::int64_t devices() const { return tensor * stages * replicas; }
};

RunShape shape_of(const MeasuredIteration& run) {
  const auto& request = std::get<TrainingRequest>(run.request.costs.costs);
  const int stages = run.request.schedule.schedule.ranks();
  return {request.training.tensor_parallel, stages, request.replicas(stages),
          request.training.micro_batch_size, run.request.schedule.schedule.microbatches};
}

std::optional<RunShape> moved(RunShape shape, const ShapeMove& move) {
  const std::int64_t devices = shape.devices();
  const std::int64_t sequences = shape.replicas * shape.batch * shape.microbatches;
  if (!move_number(move.tensor, shape.tensor) || !move_number(move.stages, shape.stages) ||
      !move_number(move.replicas, shape.replicas) || !move_number(move.batch, shape.batch)) {
    return std::nullopt;
  }
  const std::int64_t at_once = shape.replicas * shape.batch;
  if (sequences % at_once != 0) return std::nullopt;
  shape.microbatches = sequences / at_once;
  if (shape.devices() > 2 * devices || 2 * shape.devices() < devices) return std::nullopt;
  return shape;
}

RunCells cells_with(RunCells cells, const RunShape& shape, bool has_sequence_parallel) {
  for (const char* other :
       {"global_batch", "devices", "seconds", "peak_bytes", "peak_gib", "peak_gb", "trace"}) {
    cells.erase(other);
  }
  cells["stages"] = std::to_string(shape.stages);
  cells["microbatches"] = std::to_string(shape.microbatches);
  const auto put = [&](const char* column, std::int64_t value) {
    cells.erase(column);
    if (value > 1) cells[column] = std::to_string(value);
  };
  put("micro_batch_size", shape.batch);
  put("tensor_parallel", shape.tensor);
  put("data_parallel", shape.replicas);
  cells.erase("sequence_parallel");
  if (shape.tensor > 1 && has_sequence_parallel) cells["sequence_parallel"] = "true";
  if (shape.tensor == 1) cells.erase("tensor_overlap");
  if (shape.replicas == 1) {
    for (const char* column : {"zero", "bucket_bytes", "shard_over", "gather", "overlap_gather"}) {
      cells.erase(column);
    }
  }
  return cells;
}

bool is_true_somewhere(const RunTable& table, const std::string& column) {
  for (const RunRow& row : table.rows) {
    const auto found = row.cells.find(column);
    if (found != row.cells.end() && found->second != "false" && found->second != "0" &&
        found->second != "False") {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<NextRun> next_run(const RunTable& table, const std::vector<MeasuredIteration>& runs,
                                const FitStart& start, const FittedCluster& fitted,
                                const Cluster& cluster) {
  constexpr int max_tried = 48;
  const bool has_sequence_parallel = is_true_somewhere(table, "sequence_parallel");
  const Cluster after = fitted.on(cluster);
  std::set<RunCells> seen;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    seen.insert(cells_with(table.rows[i].cells, shape_of(runs[i]), has_sequence_parallel));
  }
  std::optional<NextRun> best;
  int tried = 0;
  for (const ShapeMove& move : shape_moves()) {
    for (std::size_t i = 0; i < runs.size() && tried < max_tried; ++i) {
      const std::optional<RunShape> shape = moved(shape_of(runs[i]), move);
      if (!shape || shape->tensor > cluster.devices_per_node) continue;
      RunCells cells = cells_with(table.rows[i].cells, *shape, has_sequence_parallel);
      if (!seen.insert(cells).second) continue;
      try {
        const PredictionRequest request = run_request(cells, start);
        const PredictedRun predicted = predict_on(after, request);
        if (predicted.peak_bytes > after.device.memory_bytes) continue;
        const Promise promise = promise_of(request, fitted, cluster);
        ++tried;
        if (!best || promise.spread > best->promise.spread) best = {std::move(cells), promise, 0};
      } catch (const Error&) {
        continue;  // an impossible one
      }
    }
  }
  if (best) best->tried = tried;
  return best;
}

}  // namespace pipesim::cli
