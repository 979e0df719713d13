// Notes on common mistakes in a prediction: what each costs, and the lesson to
// read in sim/LESSONS.md.
//
// A mistake is noted if the same work without it, also predicted, takes at least 2 %
// less; a risk that no prediction shows, if measured runs of the software had it. A
// shape without mistakes costs no simulation. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/request/request.h"

namespace pipesim {

struct Note {
  std::string key;           // stable: "few-microbatches"
  std::int64_t gain_ns = 0;  // the time saved for the same work without the mistake
  std::string text;          // one line or two of text
  std::string lesson;        // the section of sim/LESSONS.md
};

// `prediction`: what `prepared` predicts; `request`: for a family's schedule, what it was generated
// from. No notes for shapes that is_small() refuses.
std::vector<Note> find_notes(const PreparedPrediction& prepared, const Prediction& prediction,
                             const std::optional<ScheduleRequest>& request);

}  // namespace pipesim
