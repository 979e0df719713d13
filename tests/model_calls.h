// Calls of pipesim with a model's costs, and what to expect of them.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/words.h"

namespace pipesim::testing {

using Json = nlohmann::json;

// Of words without blanks.
inline Outcome call(const std::string& line, const std::vector<std::string>& environment = {}) {
  return pipesim(words(line), environment);
}

inline std::string output_of(const std::string& line,
                             const std::vector<std::string>& environment = {}) {
  const Outcome outcome = call(line, environment);
  EXPECT_EQ(outcome.status, 0) << line << "\n" << outcome.err;
  EXPECT_EQ(outcome.err, "") << line;
  return outcome.out;
}

inline Json json_of(const std::string& line) { return Json::parse(output_of(line + " --json")); }

// The report on one line, so that it may wrap anywhere.
inline std::string unwrapped(const std::string& text) {
  std::string out;
  for (const std::string& word : words(text)) out += (out.empty() ? "" : " ") + word;
  return out;
}

inline void expect_refused(const std::string& line, int status, const std::string& part) {
  expect_one_sentence(call(line), "pipesim", line, status, part);
}

inline const std::string schedule = "--schedule 1f1b --stages 4 --microbatches 8";
inline const std::string small = schedule + " --model gpt2-small --cluster dgx-a100";
// 175 billion parameters on 64 devices; it does not fit.
inline const std::string large =
    "--schedule 1f1b --stages 8 --microbatches 64 --tensor-parallel 8 --model gpt3-175b "
    "--cluster dgx-a100";

inline constexpr double peak_of_a100 = 312e12;

// 72BLsh^2(1+s/6h+V/12hL), of so many sequences.
inline double gpt_flops(double sequences, double s, double h, double blocks, double vocabulary) {
  return 72 * sequences * blocks * s * h * h * (1 + s / (6 * h) + vocabulary / (12 * h * blocks));
}

}  // namespace pipesim::testing
