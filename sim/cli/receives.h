// `pipesim schedule receives`, and the flags that say where RECVs go.
#pragma once

#include <optional>
#include <string>

#include "sim/schedule/receives.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct ReceiveFlags {
  Flag where, buffers;
};

// `meaning` is what --receives chooses, for its help.
void add_receive_flags(CommandLine& command, ReceiveFlags& flags, const std::string& meaning);
// Describes each choice, for the end of a help text.
extern const char* const receives_help;

// The choice asked for, or nothing.
std::optional<Receives> asked_receives(const ReceiveFlags& flags);
// For the choice, if one was made: they apply only to `early`.
std::optional<int> asked_buffers(const ReceiveFlags& flags, std::optional<Receives> where);

// The file of a program with placed receives.
std::string file_text_of(const Schedule& program);

// Adds the verb to `pipesim schedule`.
void add_schedule_receives(CommandLine& schedule);

}  // namespace pipesim::cli
