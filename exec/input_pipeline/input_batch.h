// Batches of a recommendation model: dense features, labels, ids; and where they come from.
//
// A source has samples, numbered from 0, dealt to ranks in blocks: batch b of rank r is
// block b * ranks + r. What a source reads depends only on the samples' numbers, so
// any number of ranks that share a batch of the same size train on the same samples. Sources are
// immutable; any thread may read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input_pipeline/recommendation_model.h"

namespace pipesim::exec {

// Ids of samples for one table: how many of each sample, and all of them, sample by sample.
struct IdLists {
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> values;

  std::int64_t bytes() const {
    return static_cast<std::int64_t>((lengths.size() + values.size()) * sizeof(std::int64_t));
  }
  bool operator==(const IdLists&) const = default;
};

struct InputBatch {
  std::vector<float> dense;   // [samples x dense features]
  std::vector<float> labels;  // 0 or 1, one per sample
  std::vector<IdLists> ids;   // by table

  std::int64_t samples() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t bytes() const;
  bool operator==(const InputBatch&) const = default;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::string name() const = 0;
  // The number of samples; nothing if infinite.
  virtual std::optional<std::int64_t> samples() const = 0;
  // Samples first, first + 1 ..., which must exist.
  virtual InputBatch read(std::int64_t first, std::int64_t count) const = 0;
};

// A rank's batch b.
InputBatch read_batch(const BatchSource& source, std::int64_t batch, std::int64_t batch_size,
                      int rank, int ranks);

// How far a source goes when every rank takes as many batches as the one that gets fewest.
struct BatchShare {
  std::int64_t batches = 0;   // of each rank
  std::int64_t left_out = 0;  // samples at the end that no rank takes
};
// For a finite source. Throws an input error if that makes no batch.
BatchShare share_of(const BatchSource& source, std::int64_t batch_size, int ranks);
// "clicks.txt: the last 3 of 1,000 samples are left out: ...", or empty if none is.
std::string left_out_note(const BatchSource& source, std::int64_t batch_size, int ranks);

// Throws an input error if a source has too few batches for each rank.
void check_batches(const BatchSource& source, std::int64_t batches, std::int64_t batch_size,
                   int ranks);

// Infinite samples, by seed. Dense features are normal, ids are distributed as in the model's
// tables (id_distribution.h). A label is 1 if a hidden linear function of features and ids, plus
// some noise, is positive: something that training can learn.
std::unique_ptr<BatchSource> make_batch_generator(const RecommendationModel& model,
                                                  std::uint64_t seed);

// `pipesim-batches`, in traces/FORMAT.md: all samples of a file, for that model. Throws an input
// error that names file and line: for a file that is cut short or has other tables, or an id that
// is not in its table.
std::unique_ptr<BatchSource> parse_batches(std::string_view text, const std::string& file,
                                           const RecommendationModel& model);
std::unique_ptr<BatchSource> read_batches(const std::string& path,
                                          const RecommendationModel& model);
// Writes that format.
std::string batches_to_text(const InputBatch& samples, const RecommendationModel& model);

}  // namespace pipesim::exec
