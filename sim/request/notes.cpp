#include "sim/request/notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sim/advice/limits.h"
#include "sim/advice/ranking.h"
#include "sim/advice/receive_choices.h"
#include "sim/request/partition_request.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t min_part = 50;  // the least gain worth a note: a fiftieth of an iteration

// The time of a rank's F, I, W and B, without its closing actions.
std::int64_t compute_ns_of(const RankMetrics& rank) {
  std::int64_t closing_ns = 0;
  for (const Kind kind :
       {Kind::REDUCE_GRAD, Kind::REDUCE_TIED, Kind::GRAD_NORM, Kind::OPTIMIZER, Kind::SAVE}) {
    closing_ns += rank.closing.of(kind);
  }
  return rank.busy_ns - closing_ns;
}

// Bytes if known, else activations of chunks.
std::int64_t memory_of(const Prediction& prediction) {
  const std::int64_t bytes = prediction.peak_memory_bytes();
  return bytes > 0 ? bytes : prediction.metrics.peak_activation_chunks();
}

class NoteFinder {
 public:
  NoteFinder(const PreparedPrediction& prepared, const Prediction& prediction,
             const std::optional<ScheduleRequest>& request)
      : prepared_(prepared),
        schedule_(prepared.choice.schedule),
        request_(request),
        own_(prediction),
        own_ns_(prediction.metrics.makespan_ns),
        options_(prepared.options),
        trial_(trial_with(prepared.source, schedule_.placement)) {
    options_.iterations = prediction.accumulation.passes;
    options_.saves = {};
  }

  std::vector<Note> find() {
    if (request_) {
      note_few_microbatches();
      note_accumulation();
      note_split_backward();
    }
    try_to([&] { note_heavy_end(); });
    note_stalls();
    try_to([&] { note_receives(); });  // dependencies of a file may name its own
    return std::move(notes_);
  }

 private:
  // Skips advice that needs something impossible, such as an even layout.
  template <typename Look>
  static void try_to(Look look) {
    try {
      look();
    } catch (const Error&) {
    }
  }

  bool is_worth(std::int64_t gain_ns) const { return is_worth(gain_ns, own_ns_); }
  static bool is_worth(std::int64_t gain_ns, std::int64_t of_ns) {
    return gain_ns > 0 && gain_ns >= of_ns / min_part;
  }
  static std::string part(std::int64_t gain_ns, std::int64_t of_ns) {
    return fmt::format("{} ({})", format_time(gain_ns),
                       format_percent(static_cast<double>(gain_ns) / static_cast<double>(of_ns)));
  }

  // The same with another number of microbatches; nothing if the family has no such schedule, or it
  // is too large to try.
  std::optional<Prediction> with_microbatches(std::int64_t count,
                                              const SimulationOptions& options) const {
    if (count > max_slots_for_advice / schedule_.stages()) return std::nullopt;
    Proposal proposal{prepared_.choice.family, *request_};
    proposal.request.microbatches = static_cast<int>(count);
    try {
      const ScheduleChoice choice = make(proposal, trial_);
      if (!is_small(choice, prepared_.costs)) return std::nullopt;
      return pipesim::predict(choice.schedule, trial_.costs(choice.schedule), choice.family,
                              choice.shape, options);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // Nothing for a file, whose lists already have the exchanges of replicas.
  std::optional<ScheduleChoice> choice_without_replicas() const {
    if (!prepared_.source.replicas(schedule_.ranks())) return prepared_.choice;
    if (!request_) return std::nullopt;
    return choose_schedule(*request_);
  }

  // With fewer microbatches than stages some stage is idle at any time.
  void note_few_microbatches() {
    const int own = schedule_.microbatches;
    const int ranks = schedule_.ranks();
    if (own >= ranks) return;
    std::optional<std::int64_t> gain_ns;  // at the first possible number
    std::vector<std::string> others;
    for (const std::int64_t times : {1, 2, 4}) {
      const std::int64_t count = times * ranks;
      const auto other = with_microbatches(count, options_);
      if (!other) continue;
      const std::int64_t all_ns = other->metrics.makespan_ns;
      const std::int64_t same_work_ns = all_ns / count * own + all_ns % count * own / count;
      if (!gain_ns) gain_ns = own_ns_ - same_work_ns;
      others.push_back(
          fmt::format("{} with {}", format_percent(other->metrics.global_bubble()), count));
    }
    if (!gain_ns || !is_worth(*gain_ns)) return;
    notes_.push_back(
        {"few-microbatches", *gain_ns,
         fmt::format("{} on {} leave {} of the time to the bubble; it is {}.",
                     plural(own, "microbatch"), plural(ranks, "stage"),
                     format_percent(own_.metrics.global_bubble()), fmt::join(others, ", ")),
         "Fewer microbatches than stages"});
  }

  // The work between two steps is one batch: in one iteration the pipeline fills and drains only
  // once.
  void note_accumulation() {
    const int passes = own_.accumulation.passes;
    if (passes < 2 || schedule_.ranks() < 2) return;
    const std::int64_t step_ns =
        own_.metrics.iteration_ends_ns[static_cast<std::size_t>(passes) - 1];
    const std::int64_t count = std::int64_t{passes} * schedule_.microbatches;
    SimulationOptions options = options_;
    options.iterations = 1;
    options.accumulation = {};
    const auto once = with_microbatches(count, options);
    if (!once || memory_of(*once) > memory_of(own_)) return;
    const std::int64_t gain_ns = step_ns - once->metrics.makespan_ns;
    if (!is_worth(gain_ns, step_ns)) return;
    notes_.push_back(
        {"accumulation", gain_ns,
         fmt::format("A step of {} iterations fills and drains the pipeline {} times, in {}. "
                     "Microbatches accumulate by themselves: {} in one iteration take {} less, at "
                     "no more memory.",
                     passes, passes, format_time(step_ns), count, part(gain_ns, step_ns)),
         "Gradient accumulation counted twice"});
  }

  // A split backward makes the bubble smaller, at a price.
  void note_split_backward() {
    const Family& family = *prepared_.choice.family;
    if (!family.splits_backward) return;
    Sweep sweep{*request_, {schedule_.microbatches}, {}};
    if (request_->chunks) sweep.chunks.push_back(*request_->chunks);
    std::vector<Proposal> both = proposals(sweep);
    std::erase_if(both, [&](const Proposal& one) {
      return one.request.name != family.name && one.request.name != "1f1b";
    });
    const std::vector<Candidate> tried = try_all(both, trial_);
    const auto find = [&](std::string_view name) {
      return std::ranges::find_if(tried, [&](const Candidate& one) {
        return one.schedule == name && one.left_out.empty();
      });
    };
    const auto own = find(family.name);
    const auto plain = find("1f1b");
    if (own == tried.end() || plain == tried.end() || plain->memory > own->memory) return;
    const std::int64_t gain_ns = own->time_ns - plain->time_ns;
    if (!is_worth(gain_ns)) return;
    notes_.push_back(
        {"split-backward", gain_ns,
         fmt::format("1f1b takes {} at no more memory; what {} loses against it: {}.",
                     format_time(plain->time_ns), family.name, why_not(*own, *plain, std::nullopt)),
         "Zero bubble, and slower"});
  }

  // The rank of the last or first stage works longest.
  void note_heavy_end() {
    const Placement& placement = schedule_.placement;
    const std::vector<RankMetrics>& ranks = own_.metrics.ranks;
    if (ranks.size() < 2 || placement.copies() > 1) return;
    std::int64_t sum_ns = 0;
    for (const RankMetrics& rank : ranks) sum_ns += compute_ns_of(rank);
    const auto count = static_cast<std::int64_t>(ranks.size());
    const auto longest = std::ranges::max_element(ranks, {}, compute_ns_of);
    const std::int64_t excess_ns = compute_ns_of(*longest) - sum_ns / count;
    if (!is_worth(excess_ns)) return;
    const auto rank = static_cast<int>(longest - ranks.begin());
    const int last = placement.stages() - 1;
    const bool has_last = placement.rank_of(last) == rank;
    if (!has_last && placement.rank_of(0) != rank) return;
    const std::string what = fmt::format(
        "The {}{} stage takes {:.2f} times the mean of all",
        placement.virtual_stages() > 1 ? "rank of the " : "", has_last ? "last" : "first",
        static_cast<double>(compute_ns_of(*longest)) * static_cast<double>(count) /
            static_cast<double>(sum_ns));
    if (prepared_.source.by_layer()) {
      note_heavy_layer(has_last, what);
      return;
    }
    const std::int64_t even_ns =
        simulate(schedule_, with_even_stages(prepared_.costs), options_).makespan_ns;
    if (!is_worth(own_ns_ - even_ns)) return;
    notes_.push_back({"heavy-end", own_ns_ - even_ns,
                      fmt::format("{}; were all alike, an iteration would take {} less.", what,
                                  part(own_ns_ - even_ns, own_ns_)),
                      lesson_of_ends});
  }

  // A layer at that end takes longer than others: its stage needs fewer of them.
  void note_heavy_layer(bool at_last, const std::string& what) {
    constexpr std::int64_t max_steps = std::int64_t{1} << 22;
    std::vector<std::int64_t> times;
    for (const StageCosts& layer : prepared_.source.layers(schedule_)) {
      times.push_back(layer.forward_ns + layer.backward_ns());
    }
    const auto layers = std::ssize(times);
    if (layers < schedule_.stages() || layers * layers * schedule_.stages() > max_steps) return;
    const std::int64_t end_ns = at_last ? times.back() : times.front();
    std::ranges::nth_element(times, times.begin() + layers / 2);
    const std::int64_t usual_ns = times[static_cast<std::size_t>(layers / 2)];
    if (end_ns <= usual_ns) return;
    const std::optional<ScheduleChoice> choice = choice_without_replicas();
    if (!choice) return;
    const PartitionProblem problem = partition_problem(prepared_.source, *choice, "the layers");
    BottleneckProblem bottleneck = bottleneck_problem(problem, problem.costs(problem.even));
    if (const auto& cap = prepared_.memory_cap_bytes; cap && own_.peak_memory_bytes() <= *cap) {
      bottleneck.memory_caps.assign(
          static_cast<std::size_t>(schedule_.ranks()),
          std::max<std::int64_t>(0, *cap - prepared_.costs.reserved_bytes));
    }
    const auto found = find_bottleneck(bottleneck, Effort::small);
    const auto* better = std::get_if<Bottleneck>(&found);
    if (better == nullptr) return;
    const std::int64_t gain_ns =
        own_ns_ - simulate(schedule_, problem.costs(better->layout), options_).makespan_ns;
    if (!is_worth(gain_ns)) return;
    const bool has_blocks = prepared_.model && !prepared_.model->model().is_listed();
    const std::string layer =
        prepared_.model
            ? prepared_.model->model().layer_name(at_last ? static_cast<int>(layers) - 1 : 0)
            : fmt::format("{} layer", at_last ? "last" : "first");
    notes_.push_back(
        {"heavy-end", gain_ns,
         fmt::format("{}: the {} takes as long as {:.1f} {}. With --layout {} an iteration takes "
                     "{} less.",
                     what, layer, static_cast<double>(end_ns) / static_cast<double>(usual_ns),
                     has_blocks ? "blocks" : "others", fmt::join(better->layout, ","),
                     part(gain_ns, own_ns_)),
         lesson_of_ends});
  }

  // What measured pipelines over several nodes did, and no model of theirs explains.
  void note_stalls() {
    if (!prepared_.model) return;
    const Cluster& cluster = prepared_.model->cluster();
    const double part = cluster.device.software.stalls_over_nodes;
    const Training& training = prepared_.model->training();
    const bool is_far =
        training.pipeline_parallel > 1 && training.devices() > cluster.devices_per_node;
    if (part < 0.01 || !is_far) return;
    notes_.push_back(
        {"stalls", 0,
         fmt::format("Of measured pipelines of {} over several nodes, {:.0f} % stalled, and took "
                     "more than twice as long as predicted; neither time nor band has that.",
                     cluster.device.software.name, 100 * part),
         "Pipelines that stall over nodes"});
  }

  // A receive that blocks later actions should come no sooner than its message.
  void note_receives() {
    const P2p mode = own_.transfers.mode;
    if (mode != P2p::blocking && mode != P2p::fifo) return;
    constexpr std::int64_t max_slots = max_slots_for_advice / 8;  // it queues events
    if (!is_small(prepared_.choice, prepared_.costs, max_slots)) return;
    ReceiveQuestion question{{mode}, Receives::timed, own_.transfers.eager_limit_bytes, {}, {}, {}};
    question.complete = trial_.complete;
    const std::optional<ScheduleChoice> choice = choice_without_replicas();
    if (!choice) return;
    const std::vector<ReceiveChoice> choices =
        try_receives(choice->schedule, prepared_.costs, question);
    const ReceiveOutcome* own = choices.front().on(mode);
    const ReceiveOutcome* timed = choices.back().on(mode);
    if (own == nullptr || timed == nullptr || !own->makespan_ns || !timed->makespan_ns) return;
    const std::int64_t gain_ns = *own->makespan_ns - *timed->makespan_ns;
    if (!is_worth(gain_ns)) return;
    notes_.push_back(
        {"receives", gain_ns,
         fmt::format("Receives placed as {} hold ranks up; where their messages are sent, by "
                     "pipesim schedule receives --receives timed, an iteration takes {} less.",
                     choices.front().name(), part(gain_ns, *own->makespan_ns)),
         "Receives in the wrong place"});
  }

  static constexpr const char* lesson_of_ends = "A head heavier than a block";

  const PreparedPrediction& prepared_;
  const Schedule& schedule_;
  const std::optional<ScheduleRequest>& request_;
  const Prediction& own_;
  std::int64_t own_ns_;
  SimulationOptions options_;  // of whatever is tried instead
  Trial trial_;
  std::vector<Note> notes_;
};

}  // namespace

std::vector<Note> find_notes(const PreparedPrediction& prepared, const Prediction& prediction,
                             const std::optional<ScheduleRequest>& request) {
  if (!is_small(prepared.choice, prepared.costs)) return {};
  if (!prepared.options.saves.any()) return NoteFinder(prepared, prediction, request).find();
  return NoteFinder(prepared, prepared.predict_plain(), request).find();
}

}  // namespace pipesim
