// Every family against its closed forms, confirmed by the brute-force oracle.
#include "tests/families.h"

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
      for (const int v : testing::chunk_counts(family)) {
        for (int m = 1; m <= 13; ++m) {
          for (const int group : {0, 1, p + 1, m}) {
            if (group > 0 && !family.takes_group) continue;
            ScheduleRequest request{std::string(family.name), p, m, v, {}, {}};
            if (group > 0) request.group = group;
            for (const bool overlap_experts : {false, true}) {
              request.overlap_experts = overlap_experts;
              Shape shape;
              try {
                shape = resolve_shape(family, request);
              } catch (const Error&) {
                continue;  // rounds of unequal size, too few microbatches, no such order
              }
              use(family, shape);
            }
          }
        }
      }
    }
  }
}

std::string describe(const Family& family, const Shape& s, const UniformTimes& t) {
  return fmt::format("{} p{} v{} m{}{} F{} I{} W{} c{}", family.name, s.ranks, s.chunks,
                     s.microbatches, s.overlap_experts ? " overlapped experts" : "", t.forward_ns,
                     t.input_ns, t.weight_ns, t.hop_ns);
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

// The bubble of the widest rank.
std::int64_t widest_bubble(const std::string& name, int p, int m, const UniformTimes& t) {
  const Schedule schedule = generate({name, p, m});
  const auto truth = oracle::run(schedule, uniform(schedule.stages(), t));
  const auto widest = std::ranges::max_element(
      truth->ranks, {}, [](const oracle::Rank& r) { return r.last_end - r.first_start; });
  return widest->last_end - widest->first_start - widest->busy;
}

std::optional<std::int64_t> closed_bubble(const std::string& name, int p, int m,
                                          const UniformTimes& t) {
  const Family& known = family(name);
  const auto form = known.closed_form(resolve_shape(known, {name, p, m}), t);
  return form ? std::optional(form->bubble_ns) : std::nullopt;
}

// V-Half's and V-Min's hold at other depths, too.
TEST(Families, ClosedFormsOfMadeOrdersHoldAtAnyDepth) {
  for (const char* name : {"v-half", "v-min"}) {
    for (int p = 7; p <= 16; ++p) {
      for (const int m : {p + 2, p + 3, 2 * p, 3 * p + 1}) {
        const UniformTimes t{5, 5, 5, 0};
        EXPECT_EQ(closed_bubble(name, p, m, t), widest_bubble(name, p, m, t))
            << name << " p" << p << " m" << m;
      }
    }
  }
}

// Just outside each condition nothing is claimed, and what is claimed inside would be wrong.
TEST(Families, ConditionsOfVShapesAreNeeded) {
  struct Outside {
    const char* name;
    int p, m;
    UniformTimes t;
    std::int64_t would_be;
  };
  for (const auto& [name, p, m, t, would_be] : {
           Outside{"zb-v", 3, 4, {1, 1, 1, 0}, 0},        // m < 2p-1
           Outside{"zb-v", 3, 5, {7, 5, 3, 0}, 2 * 4},    // F > I
           Outside{"zb-v", 3, 5, {2, 1, 3, 0}, 0},        // W > I
           Outside{"zb-v", 3, 5, {1, 1, 1, 1}, 0},        // a latency
           Outside{"dualpipe-v", 3, 6, {1, 2, 1, 0}, 6},  // I > F
           Outside{"dualpipe-v", 3, 6, {2, 1, 2, 0}, 6},  // W > I
           Outside{"dualpipe-v", 3, 6, {1, 1, 1, 1}, 4},  // a latency
           Outside{"v-half", 6, 7, {1, 1, 1, 0}, 11},     // m < p+2
           Outside{"v-half", 2, 4, {1, 1, 1, 0}, -1},     // p < 3
           Outside{"v-half", 4, 8, {1, 2, 1, 0}, 5},      // F != I
           Outside{"v-min", 3, 3, {1, 1, 1, 0}, 5},       // m <= p
           Outside{"v-min", 1, 4, {1, 1, 1, 0}, -1},      // p < 2
           Outside{"v-min", 4, 8, {1, 1, 2, 0}, 11},      // I != W
       }) {
    EXPECT_EQ(closed_bubble(name, p, m, t), std::nullopt) << name << " p" << p << " m" << m;
    EXPECT_NE(widest_bubble(name, p, m, t), would_be) << name << " p" << p << " m" << m;
  }
}

}  // namespace
}  // namespace pipesim
