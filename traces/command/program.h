// What main() of every program of ours is: parse, work, and say what failed.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "traces/base/error.h"

namespace pipesim {

// What a command does, once its flags are read.
using Work = std::function<void()>;

// Parses the command line with `app`, whose name is the program's and whose
// callbacks leave in `chosen` the work of the command that was given; does it,
// and returns the exit status. Errors go to standard error as one sentence
// after the program's name; unknown flags and subcommands with the nearest
// names known. To be called once, by main. A program of several processes
// speaks on one of them: the others print nothing, hand their errors to
// `elsewhere` and end with status 0, so that a launcher waits for the one that
// has more to say.
int run_program(CLI::App& app, int argc, char** argv, const Work& chosen,
                const std::function<void(const Error&)>& elsewhere = {});

}  // namespace pipesim
