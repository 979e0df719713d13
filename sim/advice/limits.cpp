#include "sim/advice/limits.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "traces/base/error.h"

namespace pipesim {
namespace {

class LimitFinder {
 public:
  explicit LimitFinder(const LimitsQuestion& question)
      : question_(question),
        schedule_(question.choice.schedule),
        own_ns_(question.prediction.iteration_ns()) {
    options_.transfers = question.prediction.transfers;
    options_.accumulation = question.prediction.accumulation;
    options_.iterations = std::max(question.iterations, options_.accumulation.passes);
    if (question.iterations > 1) own_ns_ = question.prediction.steady_iteration_ns();
  }

  std::vector<Limit> find() {
    add_partition();
    add_transfers();
    if (question_.request) {
      add_filling();
      add_schedules();
    }
    std::erase_if(limits_, [](const Limit& limit) { return limit.gain_ns <= 0; });
    std::ranges::stable_sort(limits_, std::greater(), &Limit::gain_ns);
    return std::move(limits_);
  }

 private:
  static std::int64_t taken_by(const Schedule& schedule, const Costs& costs,
                               const SimulationOptions& options) {
    const Metrics metrics = simulate(schedule, costs, options);
    return options.iterations > 1 ? metrics.steady_iteration_ns(options.accumulation.passes)
                                  : metrics.makespan_ns;
  }
  std::int64_t makespan_with(const Costs& costs, const SimulationOptions& options) const {
    return taken_by(schedule_, costs, options);
  }

  void add_partition() {
    const Costs even = with_even_stages(question_.costs);
    const auto all_of = [](const StageCosts& stage) {
      return stage.forward_ns + stage.backward_ns();
    };
    Limit limit{.kind = LimitKind::partition, .candidate = {}};
    const auto longest = std::ranges::max_element(question_.costs.stages, {}, all_of);
    limit.stage = static_cast<int>(longest - question_.costs.stages.begin()) % schedule_.stages();
    limit.stage_ns = all_of(*longest);
    limit.mean_ns = all_of(even.stages.front());
    if (limit.stage_ns <= limit.mean_ns) return;
    limit.gain_ns = own_ns_ - makespan_with(even, options_);
    limits_.push_back(std::move(limit));
  }

  void add_transfers() {
    Costs free = question_.costs;
    free.p2p = {};
    free.edges.clear();
    free.compute_slowdown_ppm = 0;
    for (StageCosts& stage : free.stages) {
      stage.output_bytes = stage.forward_messages_ns = stage.backward_messages_ns = 0;
    }
    SimulationOptions options = options_;
    options.transfers = {};
    limits_.push_back({.kind = LimitKind::transfers,
                       .gain_ns = own_ns_ - makespan_with(free, options),
                       .candidate = {}});
  }

  // Twice as many microbatches take as much longer as so many take where the pipeline is full.
  void add_filling() {
    ScheduleRequest twice = *question_.request;
    if (twice.microbatches > max_index / 2) return;
    twice.microbatches *= 2;
    try {
      Schedule schedule = generate(twice);
      if (question_.trial.complete) schedule = question_.trial.complete(std::move(schedule));
      const Costs costs = question_.trial.costs(schedule);
      const std::int64_t both_ns = taken_by(schedule, costs, options_);
      limits_.push_back(
          {.kind = LimitKind::filling, .gain_ns = own_ns_ - (both_ns - own_ns_), .candidate = {}});
    } catch (const Error&) {
      return;  // the family refuses so many, or sums leave 64 bits
    }
  }

  void add_schedules() {
    const ScheduleRequest& request = *question_.request;
    Sweep sweep{request, {request.microbatches}, {}};
    if (request.chunks) sweep.chunks.push_back(*request.chunks);
    std::vector<Candidate> all = try_all(proposals(sweep), question_.trial);
    if (options_.iterations > 1) {
      for (Candidate& one : all) {
        if (one.left_out.empty()) one.time_ns = steady_ns(one.asked);
      }
    }
    const Family* family = question_.choice.family;
    const auto own = std::ranges::find_if(
        all, [&](const Candidate& one) { return one.schedule == family->name; });
    if (own == all.end() || !own->left_out.empty() || own->time_ns <= 0) return;
    const Candidate* same_memory = nullptr;
    const Candidate* fastest = nullptr;
    for (const Candidate& one : all) {
      if (!one.left_out.empty() || one.time_ns >= own->time_ns) continue;
      // What twice the parameters take must be known.
      if (one.asked.copies() > 1 && one.prediction.memory.front().states.weights == 0) continue;
      const auto is_better = [&](const Candidate* than) {
        return than == nullptr ||
               std::pair(one.time_ns, one.memory) < std::pair(than->time_ns, than->memory);
      };
      if (one.memory <= own->memory && is_better(same_memory)) same_memory = &one;
      if (is_better(fastest)) fastest = &one;
    }
    add_schedule(LimitKind::schedule, same_memory, *own);
    if (fastest != same_memory) add_schedule(LimitKind::memory, fastest, *own);
  }

  std::int64_t steady_ns(const Proposal& asked) const {
    const ScheduleChoice choice = make(asked, question_.trial);
    SimulationOptions options = options_;
    options.transfers = question_.trial.options(asked).transfers;
    return taken_by(choice.schedule, question_.trial.costs(choice.schedule), options);
  }

  void add_schedule(LimitKind kind, const Candidate* other, const Candidate& own) {
    if (other == nullptr) return;
    const double part =
        static_cast<double>(own.time_ns - other->time_ns) / static_cast<double>(own.time_ns);
    limits_.push_back({.kind = kind,
                       .gain_ns = std::llround(part * static_cast<double>(own_ns_)),
                       .candidate = *other,
                       .times_memory = own.memory > 0 ? other->memory / own.memory : 0});
  }

  const LimitsQuestion& question_;
  SimulationOptions options_;
  const Schedule& schedule_;
  std::int64_t own_ns_;
  std::vector<Limit> limits_;
};

}  // namespace

bool is_small(const ScheduleChoice& choice, const Costs& costs, std::int64_t max_slots) {
  std::vector<std::int64_t> edges_of_link(costs.shared_links.size(), 0);
  std::int64_t sharing = 1;
  for (const auto& [ranks, link] : costs.edges) {
    for (const int shared : link.through) {
      sharing = std::max(sharing, ++edges_of_link[static_cast<std::size_t>(shared)]);
    }
  }
  return std::int64_t{choice.schedule.stages()} * choice.schedule.microbatches <=
         max_slots / sharing;
}

Costs with_even_stages(Costs costs) {
  const auto count = static_cast<std::int64_t>(costs.stages.size());
  for (const auto field :
       {&StageCosts::forward_ns, &StageCosts::backward_input_ns, &StageCosts::backward_weight_ns}) {
    std::int64_t mean = 0;
    std::int64_t rest = 0;  // so that no sum leaves 64 bits
    for (const StageCosts& stage : costs.stages) {
      mean += stage.*field / count;
      rest += stage.*field % count;
    }
    mean += (rest + count - 1) / count;
    for (StageCosts& stage : costs.stages) stage.*field = mean;
  }
  for (StageCosts& stage : costs.stages) stage.overlap_ns.reset();
  return costs;
}

std::vector<Limit> find_limits(const LimitsQuestion& question) {
  return LimitFinder(question).find();
}

}  // namespace pipesim
