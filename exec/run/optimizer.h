// The end of an iteration: tied gradients are summed, the global norm is computed, and AdamW steps,
// each an action. Gradients are sums over tokens until here; they are divided, once, by the number
// of tokens of the iteration. The norm is a sum over parameters, or the parts of them that ranks
// step, in the order of the model, computed on rank 0, so that it has the same bits for any
// partition. If each tensor-parallel rank has a parameter whole, the first one's counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "exec/run/rank_groups.h"
#include "exec/run/recorder.h"
#include "exec/run/replicas.h"
#include "exec/run/stage.h"
#include "exec/run/training.h"
#include "exec/run/workload.h"

namespace pipesim::exec {

// AdamW's step at the end of a step's last pass, for gradients of that norm.
AdamStep adam_step(const TrainingJob& training, const TrainingJob::Pass& pass,
                   double gradient_norm);
// Steps all of a rank's pieces.
void step_all(Device& device, const std::vector<Piece>& pieces, AdamStep step);
// The mean of tokens' losses, summed in double in their order.
double mean_loss(const std::vector<float>& losses);

// The sums of squares of float32, in their order. Computed on the device; only read() waits for it.
class SumsOfSquares {
 public:
  SumsOfSquares(Device& device, Pool& pool, const std::vector<Slice>& numbers);
  std::vector<double> read() const;

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(count_ * sizeof(double)); }

  Device* device_;
  std::size_t count_;
  Tensor there_;
};

class Optimizer {
 public:
  Optimizer(const TrainingJob& training, Device& device, RankGroups& groups, Pool& pool,
            std::vector<std::unique_ptr<Stage>>& stages, Replicas& replicas, Recorder& recorder);

  // Computes a stage's part of the norm, without tied gradients and without waiting for the device.
  // If a stage is reduced again the last time counts. If stages have copies, reduces all of the
  // rank: the gradients of both copies are summed first.
  void reduce(const Stage& stage);
  // Sums the tied gradients, with the rank at the other end.
  void reduce_tied(int stage);
  // Computes norm and loss, with all ranks. `losses` of all tokens of the step, on the rank that
  // holds the head. All ranks learn whether any stops.
  Outcome find_norm(int stage, const TrainingJob::Pass& pass, const std::vector<float>& losses,
                    bool stops);
  // Updates the weights, with gradients of that norm.
  void step(int stage, const TrainingJob::Pass& pass, double gradient_norm);

 private:
  // A rank's contribution to the outcome: the sum of squares of a piece of gradients, or, at layer
  // -1, the loss of a replica, whose number is in place of the parameter.
  struct Part {
    std::int32_t layer = 0;
    std::int32_t parameter = 0;
    std::int32_t shard = 0;  // the tensor-parallel rank
    std::int64_t begin = 0;  // of the piece
    double value = 0;
  };
  static constexpr std::int32_t loss_part = -1;
  static constexpr std::int32_t stop_part = -2;  // from a rank that stops
  struct Reduced {
    std::vector<Part> parts;  // without their values
    SumsOfSquares squares;
  };

  bool is_tied(const Piece& piece) const;
  // A stage's pieces that count in the norm, without tied ones: those whose gradients are partial,
  // or those whose are not.
  std::vector<Piece> counted(const Stage& stage, bool partial) const;
  // Ranks with the same part of a stage have the same sums: whether this rank's count.
  bool counts(int stage) const;
  // Adds the gradients of the other copies of the rank's stages, and tied ones.
  void add_copies();
  void add_tied(const std::vector<Piece>& table, const std::vector<Piece>& matrix);
  // Sums gradients of which tensor-parallel ranks have partial sums.
  void add_up_partial();
  // This rank's pieces of the shared matrix at that end; empty if another rank has it.
  std::vector<Piece> tied_pieces(int layer) const;
  Reduced reduced(const std::vector<Piece>& pieces);
  static void add_parts(const Reduced& reduced, std::vector<Part>& parts);
  // Calls `work` and records it as an action of the rank.
  template <typename Work>
  void record(int stage, Kind kind, const Work& work);
  // The other rank's gradients of those pieces, one after the other.
  Tensor exchange_gradients(const std::vector<Piece>& own, int other);
  Outcome outcome_of(const TrainingJob::Pass& pass, std::vector<Part> parts);

  const TrainingJob& training_;
  Device& device_;
  RankGroups& groups_;
  Pool& pool_;
  std::vector<std::unique_ptr<Stage>>& stages_;
  Replicas& replicas_;
  Recorder& recorder_;
  std::map<int, Reduced> reduced_;  // by stage, of this iteration
};

}  // namespace pipesim::exec
