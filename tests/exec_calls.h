// Calls of the pipeexec of this build, of words without blanks.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/words.h"

namespace pipesim::testing {

inline std::vector<std::string> pipeexec_argv(const std::string& line) {
  std::vector<std::string> argv = words(line);
  argv.insert(argv.begin(), PIPEEXEC_COMMAND);
  return argv;
}

inline Outcome pipeexec(const std::string& line, const std::vector<std::string>& environment = {}) {
  return run_command(pipeexec_argv(line), environment);
}

inline nlohmann::json pipeexec_json(const std::string& line) {
  const Outcome outcome = pipeexec(line + " --json");
  EXPECT_EQ(outcome.status, 0) << line << "\n" << outcome.err;
  EXPECT_EQ(outcome.err, "") << line;
  return nlohmann::json::parse(outcome.out);
}

inline void expect_pipeexec_refuses(const std::string& line, int status, const std::string& part) {
  expect_one_sentence(pipeexec(line), "pipeexec", line, status, part);
}

}  // namespace pipesim::testing
