// Notes on common mistakes, as text.
#pragma once

#include <string>
#include <vector>

#include "sim/request/notes.h"

namespace pipesim::cli {

// In lines of at most `width`; empty if there are none.
std::string notes_report(const std::vector<Note>& notes, int width);

}  // namespace pipesim::cli
