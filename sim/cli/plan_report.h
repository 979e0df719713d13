// What `pipesim plan` prints.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/answer.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

// All that there is to say; refers to what its caller holds.
struct PlanView {
  const PlanSpace& space;
  const PlanAnswer& answer;
  std::int64_t memory_cap_bytes;
  // Of the command that predicts a layout, before the layout's own: "--model gpt3-175b", ...
  const std::vector<std::string>& flags;
};

// The best, and the command that predicts it.
std::string plan_summary(const PlanView& view, const Terminal& terminal);
std::string plan_report(const PlanView& view, const Terminal& terminal);
std::string plan_json(const PlanView& view);
// Everything that was evaluated, a line each.
std::string plan_csv(const PlanView& view);

// The command that predicts a layout, on one line.
std::string plan_command(const PlanView& view, const PlanPoint& point);

// What a layout ends as, in words.
std::string plan_certificate_report(const PlanView& view, const PlanPoint& point,
                                    const PlanCertificate& certificate);

}  // namespace pipesim::cli
