// Costs from recorded input pipelines, and what changes of them would do.
#include "sim/input_pipeline/predict/what_if_input.h"

#include <gtest/gtest.h>

#include <random>

#include "sim/input_pipeline/calibrate_input.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/predict/simulate_input.h"
#include "tests/errors.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::pick;

InputCosts random_costs_without_links(std::mt19937_64& random, int ranks) {
  InputCosts costs;
  costs.work.resize(static_cast<std::size_t>(ranks));
  for (auto& kinds : costs.work) {
    for (const Kind kind : input_kinds) {
      InputWork& work = kinds[static_cast<std::size_t>(kind)];
      work.duration_ns = pick(random, 1'000, 90'000);
      if (!is_of_host(kind)) work.host_ns = pick(random, 0, 2'000);
    }
  }
  costs.batch_size = 64;
  return costs;
}

TEST(CalibrateInput, CostsOfASimulatedRunAreItsOwn) {
  std::mt19937_64 random(5);
  for (const InputFamily& family : all_input_families()) {
    InputCosts costs = random_costs_without_links(random, 3);
    const InputRun run =
        simulate_input(make_input_program({std::string(family.name), 3, 7}), costs);
    const InputCalibration calibration = calibrate_input(run);
    const bool prefetches = family.name == "prefetch";
    for (int rank = 0; rank < 3; ++rank) {
      costs.of(rank, Kind::PREPARE) = {};
      if (!prefetches) costs.of(rank, Kind::PREFETCH) = {};
    }
    EXPECT_EQ(calibration.costs.work, costs.work) << family.name;
    EXPECT_EQ(calibration.costs.batch_size, 64);
    EXPECT_EQ(calibration.notes,
              std::vector<std::string>{
                  prefetches
                      ? "PREPARE did not run, and counts as nothing for programs that have it"
                      : "PREFETCH and PREPARE did not run, and counts as nothing for programs that "
                        "have it"});
  }
}

TEST(CalibrateInput, TheFirstBatchesDontCount) {
  std::mt19937_64 random(6);
  const InputCosts costs = random_costs_without_links(random, 1);
  InputRun run = simulate_input(make_input_program({"base", 1, 6}), costs);
  for (std::size_t place = 0; place < run.spans[0].size(); ++place) {
    if (run.program.calls[0][place].action.microbatch < 2) run.spans[0][place].end_ns += 1'000'000;
  }
  EXPECT_EQ(calibrate_input(run).costs.of(0, Kind::TOP), costs.of(0, Kind::TOP));
}

TEST(WhatIfInput, ChangesAndOtherProgramsAreSimulated) {
  std::mt19937_64 random(8);
  const InputCosts costs = random_costs_without_links(random, 2);
  const auto steady = [&](const std::string& name, const InputCosts& with) {
    return measure(simulate_input(make_input_program({name, 2, 9}), with)).steady_iteration_ns;
  };
  const InputRun run = simulate_input(make_input_program({"base", 2, 9}), costs);
  const InputBasis basis(run);
  EXPECT_EQ(basis.as_it_ran().steady_ns, steady("base", costs));
  EXPECT_EQ(basis.as_it_ran().predicted_ns, steady("base", costs));

  InputWhatIf question;
  question.times = parse_input_changes("IDS=0.5, LOOKUP@rank1=3", "--scale");
  InputCosts changed = costs;
  for (int rank = 0; rank < 2; ++rank) {
    InputWork& ids = changed.of(rank, Kind::IDS);
    ids.duration_ns = (ids.duration_ns + 1) / 2;
  }
  changed.of(1, Kind::LOOKUP).duration_ns *= 3;
  EXPECT_EQ(basis.answer(question).steady_ns, steady("base", changed));

  InputWhatIf other;
  other.program = "sparse-dist";
  EXPECT_EQ(basis.answer(other).steady_ns, steady("sparse-dist", costs));
  EXPECT_LE(basis.answer(other).steady_ns, basis.as_it_ran().steady_ns);
}

// A run that takes a tenth longer than its parts: so do all answers.
TEST(WhatIfInput, WhatARunLosesToNoCostsIsLostByAnswersToo) {
  std::mt19937_64 random(9);
  const InputCosts costs = random_costs_without_links(random, 1);
  InputRun run = simulate_input(make_input_program({"base", 1, 9}), costs);
  const std::int64_t was = measure(run).steady_iteration_ns;
  const std::int64_t lost = was / 10;
  for (std::size_t place = 0; place < run.spans[0].size(); ++place) {
    const std::int64_t late = run.program.calls[0][place].action.microbatch * lost;
    InputSpan& span = run.spans[0][place];
    for (std::int64_t* time :
         {&span.called_ns, &span.issued_ns, &span.ready_ns, &span.start_ns, &span.end_ns}) {
      *time += late;
    }
  }
  const InputBasis basis(run);
  EXPECT_EQ(basis.as_it_ran().steady_ns, was + lost);
  EXPECT_EQ(basis.as_it_ran().predicted_ns, was);
  InputWhatIf same;
  same.program = "base";
  EXPECT_NEAR(static_cast<double>(basis.answer(same).steady_ns), static_cast<double>(was + lost),
              2);
}

TEST(WhatIfInput, WrongChangesAreRefused) {
  const auto refused = [](const char* text) {
    return testing::input_error_of([&] { parse_input_changes(text, "--scale"); });
  };
  const std::string form =
      "; a change is a kind, a rank or both, and a factor: IDS=0.5, LOOKUP@rank1=2, rank0=1.1";
  EXPECT_EQ(refused("IDS"), "--scale: 'IDS': it has no factor" + form);
  EXPECT_EQ(refused("IDS=fast"),
            "--scale: 'IDS=fast': the factor is not a number from 0 to 1000" + form);
  EXPECT_EQ(refused("IDS=-1"),
            "--scale: 'IDS=-1': the factor is not a number from 0 to 1000" + form);
  EXPECT_EQ(refused("F@stage2=2"),
            "--scale: 'F@stage2=2': 'F' is neither a kind of action nor a rank" + form);
  std::mt19937_64 random(1);
  const InputBasis basis(
      simulate_input(make_input_program({"base", 1, 3}), random_costs_without_links(random, 1)));
  EXPECT_EQ(testing::input_error_of([&] {
              basis.answer({parse_input_changes("rank1=2", "--scale"), {}});
            }),
            "--scale: there is no rank 1 among 1 rank; give one from 0 to 0");
}

}  // namespace
}  // namespace pipesim
