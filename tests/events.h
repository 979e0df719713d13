// An event trace by hand.
#pragma once

#include "traces/read/event_trace.h"

namespace pipesim::gui::testing {

// A parent with two children on one track, a kernel on another, which the second child
// launches, and counters of one process and of none.
inline EventTrace events() {
  EventTrace trace;
  trace.name = "events";
  trace.texts = {"",        "cpu",     "gpu",    "step",
                 "layer 1", "layer 2", "kernel", "stream: 7\ngrid: [1, 2: 3]"};
  trace.tracks = {{"python 1", "thread 7", 0, 0, 2}, {"gpu 0", "stream 7", 1, 0, 1}};
  trace.slices = {{1000, 9000, 3, 0, 0, 1, 0},
                  {1500, 3000, 4, 0, 0, 1, 1},
                  {4000, 8000, 5, 0, 0, 1, 1},
                  {6000, 20000, 6, 1, 7, 2, 0}};
  trace.counters = {{"bytes held", 1, {{2000, 10.0}, {3000, 20.4}}}, {"load", 2, {{500, 1.0}}}};
  trace.arrows = {{2, 3}};
  trace.events = 7;
  return trace;
}

}  // namespace pipesim::gui::testing
