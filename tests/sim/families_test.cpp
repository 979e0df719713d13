// Every family against its closed forms, confirmed by the brute-force oracle.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/engine/prediction.h"
#include "sim/schedule/deadlock.h"
#include "tests/oracle.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

Costs uniform(int stages, const UniformTimes& t) {
  StageCosts stage;
  stage.forward_ns = t.forward_ns;
  stage.backward_input_ns = t.input_ns;
  stage.backward_weight_ns = t.weight_ns;
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(stages), stage);
  costs.p2p.latency_ns = t.hop_ns;
  return costs;
}

std::vector<UniformTimes> time_grid() {
  std::vector<UniformTimes> grid;
  for (const auto& [f, i, w] : std::vector<std::array<std::int64_t, 3>>{{1, 1, 1},
                                                                        {1, 2, 0},
                                                                        {2, 1, 3},
                                                                        {7, 5, 3},
                                                                        {10, 11, 10},
                                                                        {3, 9, 2},
                                                                        {20, 1, 1},
                                                                        {1, 20, 19}}) {
    for (const std::int64_t hop : {0, 1, 2, 5, 30}) grid.push_back({f, i, w, hop});
  }
  return grid;
}

// Calls use(family, shape) for all small shapes that the family takes.
template <typename Use>
void for_each_shape(Use use) {
  for (const Family& family : all_families()) {
    for (int p = 1; p <= 6; ++p) {
      for (int v = 1; v <= (family.many_chunks ? 3 : 1); ++v) {
        for (int m = 1; m <= 13; ++m) {
          for (const int group : {0, 1, p + 1, m}) {
            if (group > 0 && !family.takes_group) continue;
            ScheduleRequest request{std::string(family.name), p, m, v, {}, {}};
            if (group > 0) request.group = group;
            Shape shape;
            try {
              shape = resolve_shape(family, request);
            } catch (const Error&) {
              continue;  // rounds of unequal size
            }
            use(family, shape);
          }
        }
      }
    }
  }
}

std::string describe(const Family& family, const Shape& s, const UniformTimes& t) {
  return fmt::format("{} p{} v{} m{} F{} I{} W{} c{}", family.name, s.ranks, s.chunks,
                     s.microbatches, t.forward_ns, t.input_ns, t.weight_ns, t.hop_ns);
}

TEST(Families, ClosedFormsHoldWhereverTheyAreClaimed) {
  std::map<std::string_view, int> confirmed;
  for_each_shape([&](const Family& family, const Shape& shape) {
    if (family.closed_form == nullptr) return;
    const Schedule schedule = generate(family, shape);
    for (const UniformTimes& t : time_grid()) {
      const auto form = family.closed_form(shape, t);
      if (!form) continue;
      const auto truth = oracle::run(schedule, uniform(schedule.stages(), t));
      ASSERT_TRUE(truth) << describe(family, shape, t);
      const double work = static_cast<double>(shape.microbatches) * shape.chunks *
                          static_cast<double>(t.forward_ns + t.backward_ns());
      const double fraction =
          static_cast<double>(form->bubble_ns) / (work + static_cast<double>(form->bubble_ns));
      const double simulated =
          form->metric == BubbleMetric::global ? truth->global_bubble() : truth->span_bubble();
      ASSERT_NEAR(fraction, simulated, 1e-12) << describe(family, shape, t) << " " << form->formula;
      ++confirmed[family.name];
    }
  });
  for (const Family& family : all_families()) {
    if (family.closed_form == nullptr) continue;
    EXPECT_GT(confirmed[family.name], 20) << family.name;
  }
}
}  // namespace
}  // namespace pipesim
