// Schedule files: PyTorch's CSV, one row per rank, read strictly.
//
// Read: the current dialect, the one of 2024 (B = input gradient only, BW =
// full backward; told by any BW, or by W without I), and the proposed
// BATCH_P2P cells; LF or CRLF. Written: the current dialect with CRLF. The
// grammar is in traces/FORMAT.md. Errors name
// file, line, column and the rule broken.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/schedule/schedule.h"

namespace pipesim {

// Reads and checks (find_fault) a schedule; `file` is its name in errors and
// the schedule's name. Stages, microbatches and placement follow from the rows.
Schedule parse_csv(std::string_view text, const std::string& file);
Schedule read_csv(const std::string& path);

inline constexpr const char* csv_line_end = "\r\n";

// Throws if a schedule has what CSV cannot express: dependencies.
void check_fits_csv(const Schedule& schedule);

// One rank's row, without a line end and without what PyTorch does not know.
std::string csv_row(std::span<const Action> actions);
// Checked to fit.
std::string to_csv(const Schedule& schedule);

}  // namespace pipesim
