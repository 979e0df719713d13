// Why input pipelines differ: what was made longer is found, and what it costs.
#include "sim/input_pipeline/predict/input_causes.h"

#include <gtest/gtest.h>

#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/predict/simulate_input.h"

namespace pipesim {
namespace {

InputCosts even_costs(int ranks) {
  InputCosts costs;
  costs.work.resize(static_cast<std::size_t>(ranks));
  for (auto& kinds : costs.work) {
    for (const Kind kind : input_kinds) {
      InputWork& work = kinds[static_cast<std::size_t>(kind)];
      work.duration_ns = 10'000 + 1'000 * static_cast<std::int64_t>(input_index(kind));
      if (!is_of_host(kind)) work.host_ns = 500;
    }
  }
  return costs;
}

TEST(InputCauses, WhatWasMadeLongerIsFoundWithItsRank) {
  for (const InputFamily& family : all_input_families()) {
    for (const Kind kind : {Kind::TOP_BACKWARD, Kind::UPDATE, Kind::OUTPUT}) {
      const InputProgram program = make_input_program({std::string(family.name), 3, 12});
      const InputCosts costs = even_costs(3);
      InputCosts slower = costs;
      slower.of(1, kind).duration_ns += 200'000;
      const InputRun predicted = simulate_input(program, costs);
      InputRun measured = simulate_input(program, slower);
      const InputCauses causes = find_input_causes(predicted, measured);
      SCOPED_TRACE(std::string(family.name) + " " + std::string(kind_name(kind)));
      EXPECT_EQ(causes.unexplained_ns(), 0);
      EXPECT_EQ(causes.predicted_ns, measure(predicted).steady_iteration_ns);
      ASSERT_GE(causes.causes.size(), 2U);  // that kind, and that kind on that rank
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(causes.causes[i].kind, kind);
        EXPECT_EQ(causes.causes[i].effect_ns, causes.measured_ns - causes.predicted_ns);
      }
      EXPECT_EQ(causes.causes[0].rank, std::nullopt);
      EXPECT_EQ(causes.causes[1].rank, 1);
      for (std::size_t i = 2; i < causes.causes.size(); ++i) {
        EXPECT_NE(causes.causes[i].kind, kind);
      }
    }
  }
}

TEST(InputCauses, RunsThatAreAlikeHaveNone) {
  const InputProgram program = make_input_program({"sparse-dist", 2, 8});
  const InputRun run = simulate_input(program, even_costs(2));
  const InputCauses causes = find_input_causes(run, run);
  EXPECT_TRUE(causes.causes.empty());
  EXPECT_EQ(causes.measured_ns, causes.replayed_ns);
}

TEST(InputCauses, TheHostIsACauseOfItsOwn) {
  const InputProgram program = make_input_program({"sparse-dist", 2, 12});
  const InputCosts costs = even_costs(2);
  InputCosts slower = costs;
  for (int rank = 0; rank < 2; ++rank) {
    for (const Kind kind : input_kinds) {
      InputWork& work = slower.of(rank, kind);
      if (work.host_ns > 0) work.host_ns = 30'000;
    }
  }
  const InputCauses causes =
      find_input_causes(simulate_input(program, costs), simulate_input(program, slower));
  ASSERT_FALSE(causes.causes.empty());
  EXPECT_EQ(causes.causes[0].kind, std::nullopt);
  EXPECT_EQ(causes.causes[0].effect_ns, causes.measured_ns - causes.predicted_ns);
}

}  // namespace
}  // namespace pipesim
