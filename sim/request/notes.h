// Notes on common mistakes in a prediction: what each costs, and the lesson to
// read in sim/LESSONS.md.
//
// A mistake is noted if the same work without it, also predicted, takes at least 2 %
// less. A shape without mistakes costs no simulation. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/request/request.h"

namespace pipesim {

struct Note {
  std::string key;           // is kept: "few-microbatches"
  std::int64_t gain_ns = 0;  // what as much work takes less without the mistake
  std::string text;          // one line or two, for people
  std::string lesson;        // the section of sim/LESSONS.md
};

// `prediction`: what `prepared` predicts; `request`: of a family's schedule what it was generated
// from. Of shapes that is_small() refuses there are none.
std::vector<Note> find_notes(const PreparedPrediction& prepared, const Prediction& prediction,
                             const std::optional<ScheduleRequest>& request);

}  // namespace pipesim
