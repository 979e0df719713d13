// How many layouts a second one core decides exactly: of cells of a plan's space, drawn at random,
// all points, each of which breaks a rule, is too large by its bound, or is evaluated as `pipesim`
// predicts it. GPT-3 175B on 4,096 A100, 2,304 sequences.
//
//   plan_bench [CELLS [AXIS=VALUES ...]]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>

#include "sim/plan/search.h"

namespace {

pipesim::PlanSpace space_of_gpt3() {
  pipesim::PlanQuestion question;
  question.training.model = pipesim::find_model("gpt3-175b");
  question.training.cluster = pipesim::find_cluster("dgx-a100");
  question.training.training.sequence_length = 2048;
  question.devices = 4096;
  question.global_batch = 2304;
  return pipesim::PlanSpace(std::move(question));
}

int run(int count, char** arguments) {
  pipesim::PlanSpace space = space_of_gpt3();
  const int cells = count > 1 ? std::atoi(arguments[1]) : 100;
  for (int i = 2; i < count; ++i) space.narrow(arguments[i]);
  const std::int64_t cap = space.question().training.cluster.device.memory_bytes;
  const std::int64_t cell_size = space.axes().cell_size();
  const auto all_cells = static_cast<std::uint64_t>(space.axes().size() / cell_size);
  std::mt19937_64 random(1);
  std::int64_t points = 0;
  std::int64_t impossible = 0;
  std::int64_t too_large = 0;
  std::int64_t fit = 0;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  pipesim::PointCertifier certifier(space);
  for (int drawn = 0; drawn < cells; ++drawn) {
    const std::int64_t first = static_cast<std::int64_t>(random() % all_cells) * cell_size;
    for (std::int64_t i = first; i < first + cell_size; ++i, ++points) {
      const pipesim::PlanCertificate found = certifier.certify(space.axes().at(i), cap);
      const bool fits = found.outcome && found.outcome->memory_bytes <= cap;
      impossible += found.rule.has_value() ? 1 : 0;
      too_large += !found.rule && !fits ? 1 : 0;
      fit += fits ? 1 : 0;
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print("{} of {} points: {} impossible, {} too large, {} fit\n", points, space.axes().size(),
             impossible, too_large, fit);
  fmt::print("{:.0f} a second, {:.0f} that fit\n", static_cast<double>(points) / seconds,
             static_cast<double>(fit) / seconds);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "plan_bench: {}\n", error.what());
    return 2;
  }
}
