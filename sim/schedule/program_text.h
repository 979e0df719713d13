// Programs as text, stream by stream: each rank's compute, and its sends and receives,
// each in its own order.
//
// Actions of one stream follow each other; between streams they wait for what they need
// (traces/dependency.h), for the program's extra dependencies (`0F3 after 1B0`), and for nothing
// else. So an action can be moved within its stream, or a whole stream moved, without regard to the
// others. Read strictly: an error names file, line, column and the rule broken. The grammar is in
// traces/FORMAT.md.
#pragma once

#include <string>
#include <string_view>

#include "sim/schedule/schedule.h"

namespace pipesim {

// Whether a text begins like a program.
bool is_program_text(std::string_view text);

// Reads and checks (find_fault) a program; `file` is its name in errors and the schedule's
// name. Each rank's streams become one list: compute in its order, a RECV right before what needs
// it, a SEND as soon as its stream allows.
Schedule parse_program(std::string_view text, const std::string& file);

// The streams and dependencies of a program whose transfers are on such streams, in lines of at
// most 100 columns.
std::string to_program_text(const Schedule& program, TransferLane lane);

// A file in either form, program or CSV.
Schedule parse_schedule(std::string_view text, const std::string& file);
Schedule read_schedule(const std::string& path);

}  // namespace pipesim
