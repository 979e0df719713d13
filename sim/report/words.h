// Texts of a comparison, the same on the terminal and in the page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/compare/comparison.h"
#include "traces/print/report_table.h"

namespace pipesim {

// Describes the noise, as a phrase.
std::string noise_text(const Comparison& comparison);
// One sentence: whether the prediction holds, and by how much.
std::string verdict_of(const Comparison& comparison);
// Describes how actions were identified.
std::string_view identified_name(Identified identified);
// The meaning of a term of the gap.
std::string_view meaning_of(Term term);
// Whether it is worth a line: without replicas no exchange is, and so on.
bool concerns(Term term, const Comparison& comparison);
// A row's kind: "F", "OVERLAP_F_B", or for the host's calls "CALL".
std::string_view label_of(const StageKind& row);
// "measured minus predicted", by the sources of both sides.
std::string minus_of(const Comparison& comparison);
// Whether the prediction's durations are off throughout, and its costs are not calibrated.
bool is_uncalibrated(const Comparison& comparison);
// Causes worth a line: of 0.5 % of the measured iteration or more, or, if there are none, one that
// is half of the difference.
struct ShownCauses {
  std::vector<std::size_t> places;  // among the root causes
  std::int64_t others = 0;          // how many more there are,
  std::int64_t others_ns = 0;       // and their total effect
  // Noise stands before the first of `places` with a smaller effect; if none is, after them.
  std::optional<std::size_t> noise_before;

  // The row of a cause, by its index in `places`.
  std::size_t row_of(std::size_t i) const {
    return i + (noise_before && i >= *noise_before ? 1 : 0);
  }
  std::string others_text() const;  // "3 others"
};
ShownCauses shown_causes(const Comparison& comparison, std::size_t most);
// The sentence for when no cause is named.
std::string_view without_causes(const Comparison& comparison);
// Where the critical paths diverge, as a sentence.
std::string parting_of(const Comparison& comparison);

// For how many messages of a side time on the wire can't be told from waiting; empty if for none.
std::string wire_in_words(const Comparison& comparison, Side side);

// What tables don't show: order, matches, iterations, memory, clocks.
struct Fact {
  std::string_view about;  // at most nine letters
  std::string text;
};
std::vector<Fact> facts_of(const RecordedRun& predicted, const RecordedRun& measured,
                           const Comparison& comparison);

}  // namespace pipesim
