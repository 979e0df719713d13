// What share of its time a job trains that saves checkpoints and is hit by failures, expected
// over a long run, and how often it should save.
//
// Failures come at a rate of 1/M, whatever the job does at the moment. A segment is `tau` of
// training and what its save holds up, D; each failure costs a restart R, which failures may
// hit, too, and all since the last save that is complete. The expected time to complete a
// segment is then
//
//   M e^(R/M) (e^((tau + D)/M) - 1)
//
// (J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
// Future Generation Computer Systems 22, 2006), and goodput is tau over that.
//
// A save that is asynchronous holds training up for a copy, D, and is written beside the next
// segment for a time w, at most tau; until then a failure falls back to the save before. Be A a
// segment whose start is saved, and B one whose start is still being written. Either is
// completed with p = e^(-(tau + D)/M), and a B follows, one segment further. Else it takes a
// restart to an A: of the same segment, or, where a failure hits a B within the first w, of the
// one before. In the long run a share p of all is B, so that on average each makes
// p - p (1 - e^(-w/M)) = p e^(-w/M) segments of progress, in a time of M (1 - p) e^(R/M),
// restarts included. Over each other, the expected time a segment is
//
//   M e^((R + w)/M) (e^((tau + D)/M) - 1)
//
// A failure costs w more, that is, and the best interval depends on D and M alone where it is
// no less than w. Where w is 0 a save is synchronous.
//
// Pure functions, by arithmetic that is the same on every machine; any thread.
#pragma once

#include <cstdint>

namespace pipesim {

struct Checkpointing {
  std::int64_t mtbf_ns = 0;    // of the whole job; more than 0
  std::int64_t hold_ns = 0;    // for how long a save holds training up
  std::int64_t beside_ns = 0;  // for how long it is written beside training afterwards
  std::int64_t restart_ns = 0;
};

// Of all time; they sum to 1.
struct TimeShares {
  double goodput = 0;     // training that lasts
  double saving = 0;      // training is held up by saves, also those that a failure cuts off
  double repeating = 0;   // training that a failure undoes
  double restarting = 0;  // from failures until training again
};

// With a save after so much training, more than 0 and no less than `beside_ns`.
TimeShares expected_shares(const Checkpointing& job, std::int64_t interval_ns);

// sqrt(2 D M): J. W. Young, "A first order approximation to the optimum checkpoint interval",
// Communications of the ACM 17, 1974.
std::int64_t young_interval_ns(const Checkpointing& job);

// Daly's higher order estimate, sqrt(2 D M) [1 + sqrt(D / 2M) / 3 + (D / 2M) / 9] - D, or M
// where D is 2 M or more.
std::int64_t daly_interval_ns(const Checkpointing& job);

// After how many iterations to save so that goodput is largest, exactly.
std::int64_t best_interval(const Checkpointing& job, std::int64_t iteration_ns);

// The least interval, in iterations, that saves can follow each other at.
std::int64_t least_interval(const Checkpointing& job, std::int64_t iteration_ns);

}  // namespace pipesim
