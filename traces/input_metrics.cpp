#include <algorithm>
#include <optional>
#include <utility>

#include "traces/base/error.h"
#include "traces/input_releases.h"

namespace pipesim {
namespace {

// Accounts for all time of one rank's compute stream. A step of a walk goes to an earlier call, and
// all but the last of a walk begin within the wait that it explains: all walks together take at
// most one step per call, plus one each.
class ComputeAccount {
 public:
  // Tells waits, too, if they are wanted.
  ComputeAccount(const InputCalls& calls, const std::vector<InputSpan>& spans,
                 std::vector<InputWait>* waits = nullptr)
      : calls_(calls), spans_(spans), releases_(calls, spans), waits_(waits) {}

  InputMetrics::Rank run(std::int64_t makespan_ns) {
    std::int64_t now = 0;
    bool is_first = true;
    for (std::uint32_t place = 0; place < calls_.size(); ++place) {
      const Kind kind = calls_[place].action.kind;
      const InputSpan& span = spans_[place];
      const auto index = static_cast<std::size_t>(kind);
      account_.total[index] += span.end_ns - span.start_ns;
      if (calls_[place].stream != InputStream::compute) continue;
      // Measured times may overlap by a little.
      const std::int64_t start = std::clamp(span.start_ns, now, makespan_ns);
      const std::int64_t end = std::clamp(span.end_ns, start, makespan_ns);
      explain(place, now, start);
      if (std::exchange(is_first, false)) account_.warmup_ns = start - moved_ns();
      if (is_meeting(kind)) {
        account_.exposed[index] += end - start;
      } else {
        account_.busy_by_kind[index] += end - start;
        account_.busy_ns += end - start;
      }
      now = end;
    }
    account_.drain_ns = makespan_ns - now;
    if (waits_ != nullptr && account_.drain_ns > 0) {
      waits_->push_back({now, makespan_ns, "drain", {}});
    }
    return account_;
  }

 private:
  static constexpr std::uint32_t none = InputPlaces::none;

  // Exposed so far by what moves data.
  std::int64_t moved_ns() const {
    std::int64_t sum = 0;
    for (const Kind kind : input_kinds) {
      if (moves_data(kind)) sum += account_.exposed[static_cast<std::size_t>(kind)];
    }
    return sum;
  }

  // Attributes the rest of the wait from `time` on to `part`, which is called `what`.
  void back_to(std::int64_t time, std::int64_t& part, std::string_view what,
               std::optional<Kind> kind = {}) {
    const std::int64_t to = std::max(time, begin_);
    if (to >= at_) return;
    part += at_ - to;
    if (waits_ != nullptr) waits_->push_back({to, at_, what, kind});
    at_ = to;
  }
  void back_to_host(std::int64_t time) { back_to(time, account_.host_ns, "host"); }

  void explain(std::uint32_t place, std::int64_t begin, std::int64_t end) {
    const std::size_t told = waits_ == nullptr ? 0 : waits_->size();
    walk_back(place, begin, end);
    if (waits_ != nullptr) {
      std::reverse(waits_->begin() + static_cast<std::ptrdiff_t>(told), waits_->end());
    }
  }
  void walk_back(std::uint32_t place, std::int64_t begin, std::int64_t end) {
    begin_ = begin;
    at_ = end;
    while (at_ > begin_) {
      const bool waits_for_ranks = is_meeting(calls_[place].action.kind);
      if (waits_for_ranks) {
        back_to(spans_[place].ready_ns, account_.skew_ns, "other ranks");
      } else {
        back_to(spans_[place].ready_ns, account_.other_ns, "unexplained");
      }
      InputRelease release = releases_.of(place);
      back_to(release.time_ns, account_.other_ns, "unexplained");
      if (release.is_host()) {
        release.place = blocked_host_before(place);
        if (release.place == none) return;
      }
      place = release.place;
      const Kind kind = calls_[place].action.kind;
      back_to(spans_[place].start_ns, account_.exposed[static_cast<std::size_t>(kind)],
              kind_name(kind), kind);
    }
  }

  // Walks back from a call over the host's earlier calls to the last action that the host did
  // itself. `none` if the wait is fully explained.
  std::uint32_t blocked_host_before(std::uint32_t place) {
    back_to_host(spans_[place].called_ns);
    while (at_ > begin_ && place > 0) {
      --place;
      if (calls_[place].stream == InputStream::host) {
        back_to_host(spans_[place].end_ns);
        return place;
      }
      back_to_host(spans_[place].called_ns);
    }
    back_to_host(begin_);  // the host had not begun
    return none;
  }

  const InputCalls& calls_;
  const std::vector<InputSpan>& spans_;
  const InputReleases releases_;
  std::vector<InputWait>* waits_;
  InputMetrics::Rank account_;
  std::int64_t begin_ = 0, at_ = 0;  // the unexplained rest of the current wait
};

// From the start of COPY to the end of UPDATE and BOTTOM_BACKWARD, whichever is later.
int most_in_flight(const InputCalls& calls, const std::vector<InputSpan>& spans, int batches) {
  const InputPlaces places(calls, batches);
  std::vector<std::pair<std::int64_t, int>> changes;  // when, and by how many
  for (std::int32_t batch = 0; batch < batches; ++batch) {
    const std::uint32_t copy = places.of(Kind::COPY, batch);
    if (copy == InputPlaces::none) continue;
    std::int64_t end = spans[copy].start_ns;
    for (const Kind kind : {Kind::UPDATE, Kind::BOTTOM_BACKWARD}) {
      const std::uint32_t place = places.of(kind, batch);
      if (place != InputPlaces::none) end = std::max(end, spans[place].end_ns);
    }
    changes.emplace_back(spans[copy].start_ns, 1);
    changes.emplace_back(end, -1);
  }
  std::ranges::sort(changes);  // at one instant ends come first
  int now = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return most;
}

std::int64_t steady_iteration(const InputRun& run, std::int64_t makespan_ns) {
  const int batches = run.program.batches;
  if (batches <= 1) return makespan_ns;
  std::vector<std::int64_t> ends(static_cast<std::size_t>(batches), 0);
  for (std::size_t rank = 0; rank < run.spans.size(); ++rank) {
    for (std::size_t place = 0; place < run.spans[rank].size(); ++place) {
      const auto batch = static_cast<std::size_t>(run.program.calls[rank][place].action.microbatch);
      ends[batch] = std::max(ends[batch], run.spans[rank][place].end_ns);
    }
  }
  const int first = batches / 4;
  int count = batches - 1 - 2 * first;
  if (count > run.program.accumulate) count -= count % run.program.accumulate;
  // A batch has ended once all earlier ones have.
  const auto over = [&](int batch) {
    return *std::max_element(ends.begin(), ends.begin() + batch + 1);
  };
  return (over(first + count) - over(first)) / count;
}

}  // namespace

void check_sums(const InputRun& run, const std::string& where) {
  const auto ranks = static_cast<std::int64_t>(std::max<std::size_t>(run.spans.size(), 1));
  const std::int64_t latest_ns = max_input_ns / ranks;
  std::int64_t left_ns = max_input_ns;
  for (const auto& spans : run.spans) {
    for (const InputSpan& span : spans) {
      for (const std::int64_t ns : {span.end_ns - span.start_ns, span.issued_ns - span.called_ns}) {
        if (ns <= left_ns && std::max(span.issued_ns, span.end_ns) <= latest_ns) {
          left_ns -= ns;
          continue;
        }
        throw input_error(where +
                          ": its ranks take more than 146 years together; times of traces "
                          "are microseconds, of costs nanoseconds");
      }
    }
  }
}

std::int64_t makespan_of(const InputRun& run) {
  std::int64_t makespan_ns = 0;
  for (const auto& spans : run.spans) {
    for (const InputSpan& span : spans) {
      makespan_ns = std::max({makespan_ns, span.issued_ns, span.end_ns});
    }
  }
  return makespan_ns;
}

std::vector<InputWait> waits_of(const InputRun& run, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  std::vector<InputWait> waits;
  ComputeAccount(run.program.calls[at], run.spans[at], &waits).run(makespan_of(run));
  return waits;
}

InputMetrics measure(const InputRun& run) {
  InputMetrics metrics;
  metrics.makespan_ns = makespan_of(run);
  metrics.steady_iteration_ns = steady_iteration(run, metrics.makespan_ns);
  if (metrics.steady_iteration_ns > 0) {
    metrics.samples_per_second = static_cast<double>(run.batch_size) * run.program.ranks() * 1e9 /
                                 static_cast<double>(metrics.steady_iteration_ns);
  }
  for (std::size_t rank = 0; rank < run.spans.size(); ++rank) {
    const InputCalls& calls = run.program.calls[rank];
    metrics.ranks.push_back(ComputeAccount(calls, run.spans[rank]).run(metrics.makespan_ns));
    metrics.ranks.back().batches_in_flight =
        most_in_flight(calls, run.spans[rank], run.program.batches);
  }
  return metrics;
}

}  // namespace pipesim
