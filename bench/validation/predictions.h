// What the cost model says of the published rows, and by how much it errs.
//
// Pure functions; any thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/validation/rows.h"
#include "sim/cost/hardware/cluster.h"

namespace pipesim::validation {

struct Predicted {
  double seconds = 0;
  double mfu = 0;               // of iterations
  std::int64_t peak_bytes = 0;  // of iterations: what the fullest rank holds
};

// Iterations run 1F1B, interleaved where a rank holds several chunks.
Predicted predict_row(const Row& row, const Cluster& cluster);

// By name, each read once.
using Clusters = std::map<std::string, Cluster, std::less<>>;
Clusters clusters_of(const std::vector<Row>& rows);

struct Outcome {
  const Row* row = nullptr;  // not owned
  Predicted predicted;

  double error() const { return predicted.seconds / row->published_s - 1; }
  // Where a peak is published.
  double peak_error() const {
    return static_cast<double>(predicted.peak_bytes) / *row->published_peak_bytes - 1;
  }
};

// Of the rows that `wanted` holds for, in their order; `rows` must outlive them.
std::vector<Outcome> predict_rows(const std::vector<Row>& rows, const Clusters& clusters,
                                  const std::function<bool(const Row&)>& wanted);

std::vector<Outcome> select(const std::vector<Outcome>& outcomes,
                            const std::function<bool(const Outcome&)>& wanted);

// Absolute errors but for the first, as fractions.
struct ErrorSummary {
  std::size_t rows = 0;
  double signed_mean = 0;
  double mean = 0;
  double median = 0;  // of an even number, the mean of the two in the middle
  double worst = 0;
  std::string worst_name;
};

struct NamedError {
  std::string_view name;
  double error = 0;
};

ErrorSummary summarise(const std::vector<NamedError>& errors);
ErrorSummary summarise(const std::vector<Outcome>& outcomes);
// Of those whose peaks of memory are published.
ErrorSummary summarise_peaks(const std::vector<Outcome>& outcomes);

}  // namespace pipesim::validation
