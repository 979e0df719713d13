// Any lines as what `pipesim plan` is asked for: numbers of devices, sequences and looks at the
// clock, memory, and values of axes. An Error, or an answer as good as the looks allow.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "sim/plan/answer.h"
#include "sim/plan/nearest.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace {

using namespace pipesim;

void require(bool holds) {
  if (!holds) std::abort();
}

void plan(std::string_view text) {
  PlanQuestion question;
  question.training.model = find_model("gpt2-small");
  question.training.cluster = find_cluster("dgx-a100");
  question.training.training.attention = Attention::fused;
  PlanSearch how;
  how.memory_cap_bytes = question.training.cluster.device.memory_bytes;
  how.top = 3;
  int looks = 100;
  std::vector<std::string_view> narrowings;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string_view name = line.substr(0, equals);
    const std::string_view value = line.substr(std::min(equals + 1, line.size()));
    if (name == "devices") {
      question.devices = parse_count(value, name);
    } else if (name == "global-batch") {
      question.global_batch = parse_count(value, name);
    } else if (name == "blocks") {
      question.training.model.blocks = parse_count(value, name);
    } else if (name == "memory") {
      how.memory_cap_bytes = parse_bytes(value, name);
    } else if (name == "looks") {
      constexpr int most = 2'000;
      looks = std::min(most, parse_count(value, name));
    } else if (!line.empty()) {
      narrowings.push_back(line);
    }
  }
  const SpaceOf space_of = [&](const PlanQuestion& other) {
    PlanSpace space(other);
    for (const std::string_view one : narrowings) space.narrow(one);
    return std::optional(std::move(space));
  };
  const PlanSpace space = *space_of(question);
  int looked = 0;
  const Budget budget([&] { return looked++ >= looks; });
  const PlanLimits limits{.budget = &budget, .max_actions = 1 << 14};
  LayoutPlanner planner(space, limits);
  const PlanResult found = planner.best(how);
  require(found.counts.sum() == space.axes().size());
  if (found.best.empty()) {
    nearest_possible(question, space_of, limits);
    return;
  }
  const PlanAnswer answer = answer_plan(planner, space, found, how, limits);
  require(answer.top.size() == found.best.size());
  for (const Finalist& one : answer.top) {
    require(one.outcome.memory_bytes <= how.memory_cap_bytes);
    require(one.outcome.time_ns <= one.even_ns);
    require(!space.broken_rule(space.axes().at(one.outcome.index)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    plan(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const pipesim::Error&) {
  }
  return 0;
}
