#include "sim/input_pipeline/predict/input_causes.h"

#include <algorithm>
#include <cstdlib>

#include "sim/input_pipeline/predict/simulate_input.h"

namespace pipesim {
namespace {

constexpr std::int64_t most_calls = 50'000'000;
constexpr std::size_t kinds_by_rank = 4;  // analyzed by rank
constexpr std::size_t most_input_causes = 12;

using RunTimes = std::vector<std::vector<InputCallTime>>;

RunTimes times_of(const InputRun& run) {
  RunTimes times;
  for (std::size_t rank = 0; rank < run.spans.size(); ++rank) {
    auto& own = times.emplace_back();
    for (std::size_t place = 0; place < run.spans[rank].size(); ++place) {
      const InputSpan& span = run.spans[rank][place];
      const bool is_host = run.program.calls[rank][place].stream == InputStream::host;
      own.push_back({is_host ? 0 : span.issued_ns - span.called_ns, span.end_ns - span.start_ns});
    }
  }
  return times;
}

class CauseSearch {
 public:
  CauseSearch(const InputRun& predicted, const InputRun& measured)
      : program_(measured.program), predicted_(times_of(predicted)), measured_(times_of(measured)) {
    causes_.predicted_ns = measure(predicted).steady_iteration_ns;
    causes_.measured_ns = measure(measured).steady_iteration_ns;
    causes_.replayed_ns = replayed(measured_);
  }

  InputCauses run() {
    std::vector<InputCause> kinds;
    kinds.push_back(cause(std::nullopt, std::nullopt));
    for (const Kind kind : input_kinds) {
      kinds.push_back(cause(kind, std::nullopt));
    }
    sort(kinds);
    std::vector<InputCause> all = kinds;
    const std::int64_t left =
        most_calls / std::max<std::int64_t>(program_.size(), 1) - input_kind_count;
    if (program_.ranks() > 1 && left >= std::int64_t{kinds_by_rank} * program_.ranks()) {
      for (std::size_t i = 0; i < kinds_by_rank; ++i) {
        if (kinds[i].effect_ns == 0) break;
        for (int rank = 0; rank < program_.ranks(); ++rank) {
          all.push_back(cause(kinds[i].kind, rank));
        }
      }
    }
    sort(all);
    std::erase_if(all, [](const InputCause& one) { return one.effect_ns == 0; });
    if (all.size() > most_input_causes) all.resize(most_input_causes);
    causes_.causes = std::move(all);
    return std::move(causes_);
  }

 private:
  static void sort(std::vector<InputCause>& causes) {
    std::ranges::stable_sort(causes, std::greater(),
                             [](const InputCause& one) { return std::abs(one.effect_ns); });
  }

  std::int64_t replayed(const RunTimes& times) const {
    return measure(replay_input(program_, times)).steady_iteration_ns;
  }

  // With the predicted times of that kind, or of the host's calls.
  InputCause cause(std::optional<Kind> kind, std::optional<int> rank) const {
    RunTimes times = measured_;
    bool differs = false;
    for (std::size_t at = 0; at < times.size(); ++at) {
      if (rank && static_cast<std::size_t>(*rank) != at) continue;
      for (std::size_t place = 0; place < times[at].size(); ++place) {
        InputCallTime& own = times[at][place];
        const InputCallTime& other = predicted_[at][place];
        if (!kind) {
          differs = differs || own.host_ns != other.host_ns;
          own.host_ns = other.host_ns;
        } else if (program_.calls[at][place].action.kind == *kind) {
          differs = differs || own.duration_ns != other.duration_ns;
          own.duration_ns = other.duration_ns;
        }
      }
    }
    return {kind, rank, differs ? causes_.replayed_ns - replayed(times) : 0};
  }

  const InputProgram& program_;
  RunTimes predicted_, measured_;
  InputCauses causes_;
};

}  // namespace

InputCauses find_input_causes(const InputRun& predicted, const InputRun& measured) {
  return CauseSearch(predicted, measured).run();
}

}  // namespace pipesim
