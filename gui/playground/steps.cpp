#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "gui/playground/playground.h"
#include "traces/base/text.h"
#include "traces/dependency.h"
#include "traces/joining.h"

namespace pipesim::gui {
namespace {

// One iteration of a run, action by action.
class Walk {
 public:
  Walk(const RecordedRun& run, int trace)
      : trace_(trace),
        stages_(static_cast<int>(run.chunk_of_stage.size())),
        iteration_(run.iterations[run.median_iteration()]),
        spans_(run.spans_of(iteration_)),
        index_(spans_),
        before_(spans_.size(), nothing) {
    // Each rank's last action, and the one before its current cell.
    struct Rank {
      std::size_t last = nothing, before_cell = nothing;
      bool in_cell = false;
    };
    std::vector<Rank> ranks(static_cast<std::size_t>(run.ranks));
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      if (is_communication(spans_[i].action)) continue;
      Rank& rank = ranks[static_cast<std::size_t>(spans_[i].rank)];
      before_[i] = rank.in_cell ? rank.before_cell : rank.last;
      rank.before_cell = before_[i];
      rank.in_cell = spans_[i].action.joined;
      rank.last = i;
    }
  }

  std::vector<Step> steps_of(int microbatch) const {
    std::vector<Step> steps;
    std::int64_t first_ns = 0;
    std::int64_t last_ns = 0;
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      const Span& span = spans_[i];
      if (!is_compute(span.action.kind) || span.action.microbatch != microbatch) continue;
      if (steps.empty()) first_ns = span.start_ns;
      last_ns = std::max(last_ns, span.end_ns);
      steps.push_back(step_of(i));
    }
    if (!steps.empty()) {
      steps.back().text +=
          fmt::format(". Microbatch {} is finished at {}, {} after its first start", microbatch,
                      time_text(last_ns), format_time(last_ns - first_ns));
    }
    return steps;
  }

 private:
  static constexpr std::size_t nothing = static_cast<std::size_t>(-1);

  // What an action waited for: its input, and its rank's previous action.
  struct Input {
    std::size_t producer = nothing;
    std::size_t transfer = nothing;  // the RECV
    std::int64_t there_ns = 0;
    bool travels() const { return transfer != nothing; }
    bool known() const { return producer != nothing || travels(); }
  };

  Input input_of(const Span& span) const {
    Input input;
    const auto wanted = producer_of(span.action, stages_);
    if (const auto found = wanted ? index_.find_either(*wanted) : std::nullopt) {
      input.producer = *found;
      input.there_ns = spans_[*found].end_ns;
    }
    if (!makes_result(span.action.kind)) return input;
    if (const auto receive = index_.find(receive_for(span.action))) {
      input.transfer = *receive;
      input.there_ns = spans_[*receive].end_ns;
    }
    return input;
  }

  Step step_of(std::size_t place) const {
    const Span& span = spans_[place];
    const Input input = input_of(span);
    const std::size_t before = before_[place];
    Step step;
    step.action = pick_of(place);
    for (const std::size_t need : {input.producer, input.transfer, before}) {
      if (need == nothing) continue;
      const Pick pick = pick_of(need);
      if (std::ranges::find(step.needs, pick) == step.needs.end()) step.needs.push_back(pick);
    }
    const bool after_rank = before != nothing;
    const std::int64_t free_ns = after_rank ? spans_[before].end_ns : iteration_.start_ns;
    if (after_rank && (!input.known() || free_ns >= input.there_ns)) {
      step.decided_by = pick_of(before);
    } else if (input.known()) {
      step.decided_by = pick_of(input.travels() ? input.transfer : input.producer);
    }
    step.text = fmt::format("{} starts at {}{}", to_text(span.action), time_text(span.start_ns),
                            reason(span, input, before, free_ns));
    return step;
  }

  // Why it starts then: ", when 2F2 ends; its input was there at 4.00 ms".
  std::string reason(const Span& span, const Input& input, std::size_t before,
                     std::int64_t free_ns) const {
    const std::string rank = fmt::format("rank {}", span.rank);
    const std::string previous = before == nothing ? "" : to_text(spans_[before].action);
    if (!input.known()) {
      if (before == nothing) return fmt::format(": it needs nothing, and {} is free", rank);
      return after(span.start_ns - free_ns) + previous + " ends; it needs no input";
    }
    const bool is_before = input.producer == before;
    const std::string from = input.producer == nothing
                                 ? std::string("its input")
                                 : "the result of " + to_text(spans_[input.producer].action);
    const std::string arrives = input.travels() ? " arrives" : " is there";
    if (is_before) return after(span.start_ns - free_ns) + previous + " ends, which it needs";
    if (before == nothing) {
      return after(span.start_ns - input.there_ns) + from + arrives + "; " + rank +
             " did nothing before";
    }
    if (free_ns == input.there_ns) {
      return after(span.start_ns - free_ns) + previous + " ends and " + from + arrives;
    }
    if (free_ns > input.there_ns) {
      return after(span.start_ns - free_ns) + previous + " ends; " + from + " was there at " +
             time_text(input.there_ns);
    }
    return after(span.start_ns - input.there_ns) + from + arrives + "; " + rank +
           " was free from " + time_text(free_ns);
  }

  // A measured start may be later than it could be, and, where clocks differ, earlier.
  static std::string after(std::int64_t late_ns) {
    if (late_ns == 0) return ", when ";
    return fmt::format(", {} {} ", format_time(std::abs(late_ns)),
                       late_ns > 0 ? "after" : "before");
  }

  std::string time_text(std::int64_t time_ns) const {
    return format_time(time_ns - iteration_.start_ns);
  }
  Pick pick_of(std::size_t place) const {
    return {trace_, static_cast<Ref>(iteration_.begin + place)};
  }

  int trace_;
  int stages_;
  RecordedIteration iteration_;
  std::span<const Span> spans_;
  SpanIndex index_;
  std::vector<std::size_t> before_;  // by span, its rank's previous one
};

}  // namespace

std::vector<Step> steps_of(const OpenTrace& trace, int trace_index, int microbatch) {
  if (!trace.run || trace.run->iterations.empty()) return {};
  return Walk(*trace.run, trace_index).steps_of(microbatch);
}

}  // namespace pipesim::gui
