// The layouts a model can be trained with on a number of devices: every combination of a value
// from each axis, and the rules that make a combination impossible.
//
// A point is known by its index, in the order of the axes below, the last one fastest. A cell is
// all points that differ only in their schedule and replica settings: one microbatch costs
// the same in a layer for all of them. Plain values; reading is const and thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "sim/request/training_request.h"
#include "sim/schedule/family.h"

namespace pipesim {

struct PlanSchedule {
  const Family* family = nullptr;
  int chunks = 1;  // per rank
};

// What data-parallel replicas shard, and when they exchange it.
struct PlanReplicas {
  int zero = 0;
  bool within_node = false;  // states are split over the replicas of a node alone
  std::optional<Gather> gather = {};
  std::optional<std::int64_t> bucket_bytes = {};  // absent: gradients are reduced at once, at last
  bool gathers_ahead = false;

  bool operator==(const PlanReplicas&) const = default;
};

// Over how many ranks layers, sequences, a block's experts and each expert are split.
struct PlanSplit {
  int tensor_parallel = 1;
  int context_parallel = 1;
  int expert_parallel = 1;
  int expert_tensor_parallel = 1;  // as tensor_parallel without experts

  bool operator==(const PlanSplit&) const = default;
};

struct PlanPoint : PlanSplit {
  int stages = 1;  // pipeline ranks
  std::int64_t micro_batch_size = 1;
  bool sequence_parallel = false;
  Recompute recompute;
  PlanSchedule schedule;
  PlanReplicas replicas;
};

// "25MB", or "off".
std::string bucket_text(const PlanReplicas& replicas);

struct PlanTrainer;

struct PlanAxes {
  std::vector<PlanSplit> splits;
  std::vector<int> stages;
  std::vector<std::int64_t> micro_batch_size;
  std::vector<bool> sequence_parallel;
  std::vector<Recompute> recompute;
  std::vector<PlanSchedule> schedules;
  std::vector<PlanReplicas> replicas;

  std::int64_t size() const;
  std::int64_t cell_size() const { return std::ssize(schedules) * std::ssize(replicas); }
  PlanPoint at(std::int64_t index) const;
  // The same for points that split work alike: layers, sequences and experts, stages, micro-batch,
  // and, where there is a pipeline, schedule.
  std::int64_t split_of(std::int64_t index) const;
};

// Why a point cannot be.
enum class PlanRule : std::uint8_t {
  tensor_parallel,    // heads, vocabulary or a node can't be split over so many
  context_parallel,   // heads or tokens can't be split over so many
  devices,            // tensor x context x pipeline does not divide the devices
  data_parallel,      // as many replicas are not among those asked for
  global_batch,       // replicas x micro-batch does not divide the sequences
  sequence_parallel,  // so many can't split tokens
  expert_parallel,    // experts can't be spread over so many of the ranks
  recompute,          // the model has no such part
  replicas,           // a node's replicas do not divide all
  stages,             // fewer blocks than virtual stages
  schedule,           // the family has no such shape, or its ranks would wait for each other
  trainer,            // the one that it is for can't do it
};
inline constexpr int plan_rule_count = 12;
// "tensor x pipeline parallelism divides the devices"
std::string_view plan_rule_text(PlanRule rule);

// The planning problem.
struct PlanQuestion {
  TrainingRequest training;  // model, cluster and all that the axes do not vary
  int devices = 1;
  std::int64_t global_batch = 1;  // sequences
};

// The axes with all values that could be for the question; every --only narrows one.
class PlanSpace {
 public:
  // Throws where the question can't be asked.
  explicit PlanSpace(PlanQuestion question);

  // Adds a value to an axis that may have others than those usually tried: "virtual-stages",
  // "bucket-bytes", "recompute" of some blocks. No effect on others, and where it is there.
  void allow(std::string_view axis, std::string_view value);

  // Keeps those values of an axis that a text names, such as "tensor-parallel=4,8". Takes "tp",
  // "pp", "vpp", "dp", "mbs" and "sp" for axes, too, and, the first time, what allow() adds.
  // "data-parallel" is no axis of its own, but a rule that points with other numbers of
  // replicas break. Throws for an unknown axis, and for a value that it does not have, in the words
  // of the flag; of an empty one, the axis is itself the flag.
  void narrow(std::string_view axis_and_values, std::string_view flag = "--only");

  // Keeps what a trainer can do. Throws if nothing of an axis is left. The trainer outlives it.
  void restrict_to(const PlanTrainer& trainer);

  const PlanQuestion& question() const { return question_; }
  const PlanAxes& axes() const { return axes_; }

  // The first rule that a point breaks.
  std::optional<PlanRule> broken_rule(const PlanPoint& point) const;
  // As above, of all points of a cell alike.
  std::optional<PlanRule> broken_rule_of_cell(const PlanPoint& cell) const;
  std::optional<PlanRule> broken_rule(const PlanPoint& cell, const PlanSchedule& schedule) const;
  std::optional<PlanRule> broken_rule(const PlanPoint& cell, const PlanReplicas& replicas) const;

  // Whether another choice of the axes stands for it: it has the same effect, or none; or it orders
  // microbatches without a pipeline, where 1F1B is tried. Expects that it breaks no rule.
  bool repeats(const PlanPoint& cell) const;  // by its sequence parallelism
  bool repeats(const PlanPoint& cell, const PlanSchedule& schedule) const;
  bool repeats(const PlanPoint& cell, const PlanReplicas& replicas) const;

  // For a point that breaks no rule.
  int data_parallel(const PlanPoint& point) const;
  // Ranks that hold the same weights, routed experts' aside.
  int replicas(const PlanPoint& point) const {
    return data_parallel(point) * point.context_parallel;
  }
  int microbatches(const PlanPoint& point) const;
  std::optional<int> shard_over(const PlanPoint& point) const;
  TrainingRequest training(const PlanPoint& point) const;
  ScheduleRequest schedule(const PlanPoint& point) const;
  // Its flags, but for those of model, cluster and devices: "--schedule 1f1b --stages 8 ...".
  std::vector<std::string> flags(const PlanPoint& point) const;

 private:
  // Which shapes wait for themselves, as far as it is known; copies of a space share it.
  struct Waits {
    std::mutex guard;
    std::map<std::tuple<const Family*, int, int, int>, bool> known;
  };

  void add_splits(int context_parallel);
  bool splits_sequences(const PlanSplit& split) const;
  void add_chunks(int chunks);
  void add_bucket(std::int64_t bytes);
  void add_recompute(const Recompute& recompute);
  bool waits_for_itself(const Family& family, const Shape& shape) const;
  bool splits_tensors(const PlanSplit& split, bool sequence_parallel) const;

  PlanQuestion question_;
  PlanAxes axes_;
  std::vector<int> data_parallel_;               // empty: any
  std::set<std::string, std::less<>> narrowed_;  // axes
  const PlanTrainer* trainer_ = nullptr;         // null: any
  std::vector<int> whole_tensors_;               // degrees that can be
  std::vector<PlanSplit> contexts_;              // splits of sequences that can be, and those
  std::vector<PlanSplit> tokens_;                // that can be with sequence parallelism
  std::vector<Recompute> recomputes_;            // that the model has
  std::shared_ptr<Waits> waits_ = std::make_shared<Waits>();
};

}  // namespace pipesim
