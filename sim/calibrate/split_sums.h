// Divides a run's sums for stages and ranks among layers or stages.
//
// Plain values; const functions from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/calibrate/sums.h"
#include "sim/cost/costs.h"
#include "sim/schedule/placement.h"
#include "traces/recorded_run.h"

namespace pipesim {

// The placement of a run's stages.
Placement placement_of(const RecordedRun& run);

// The layers of each stage, or the stages themselves: [first, second).
std::vector<std::pair<std::size_t, std::size_t>> entries_of_stages(const RunDescription& about,
                                                                   bool by_layer);

// The parameters of a run's layers; empty if its model is not known.
std::vector<double> parameters_of(const RunDescription& about);

// All layers of a kind, such as "block 3" and "block 4", have the same; every
// stage is a kind of its own.
class Dealer {
 public:
  // What decides when the sums do not.
  enum class By : std::uint8_t {
    time,        // of forwards
    parameters,  // of a known model's layers, else the time
  };

  // Of entries whose times are known.
  Dealer(const RunDescription& about, bool by_layer, const std::vector<StageCosts>& entries);

  std::size_t kinds() const { return kinds_; }
  bool knows_parameters() const { return knows_parameters_; }
  // Whether the sums alone determine all kinds.
  bool determined_by(const std::vector<PartsSum>& sums) const;

  // The sums of a run, whose description must outlive them.
  class Sums {
   public:
    PartsSum of_stage(std::size_t stage, double sum) const;
    PartsSum of_rank(std::size_t rank, double sum) const;

   private:
    friend Dealer;
    using Kinds = std::map<std::size_t, double>;  // how many entries of each

    explicit Sums(const Dealer& dealer) : dealer_(dealer) {}
    void count(std::size_t stage, Kinds& kinds) const;

    const Dealer& dealer_;
    std::vector<std::pair<std::size_t, std::size_t>> entries_;  // of each stage
    std::vector<std::vector<std::size_t>> stages_;              // of each rank
  };
  Sums sums_of(const RunDescription& about) const;

  void deal(const std::vector<PartsSum>& sums, By by, std::int64_t StageCosts::*field,
            std::vector<StageCosts>& entries) const;

 private:
  bool by_layer_;
  std::vector<std::size_t> kind_of_;  // of each entry
  std::size_t kinds_ = 0;
  std::vector<double> times_, parameters_;  // of a kind's entry, on average
  bool knows_parameters_ = false;
};

}  // namespace pipesim
