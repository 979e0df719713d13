// The data the page draws: what each rank did when, on both sides, as JSON.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "sim/compare/comparison.h"

namespace pipesim {

struct ComparisonPicture {
  std::string json;      // one line, ASCII; see picture.cpp
  std::string left_out;  // in sentences; empty if everything is shown
};

// Keeps below some 5 MB: of more than 20,000 operations shows some ranks, if
// need be without transfers, and then blocks of neighbouring operations.
ComparisonPicture comparison_picture(const RecordedRun& predicted, const RecordedRun& measured,
                                     const Comparison& comparison);

// All, or if there are many, shown_ranks() and those of the worst causes.
std::vector<int> pictured_ranks(const Comparison& comparison);
// Of an input pipeline: as many of them as have that many streams together, at least one.
std::vector<int> few_ranks(const Comparison& comparison, std::size_t streams);

}  // namespace pipesim
