// The expected share of time that a job trains, over a long run with checkpoints and failures, and
// how often it should save. Failures occur at a rate of 1/M, whatever the job does at the moment. A
// segment is `tau` of training plus the wait for its save, D; each failure costs a restart R, which
// failures may hit, too, and all work since the last complete save. The expected time to complete a
// segment is then
//
//   M e^(R/M) (e^((tau + D)/M) - 1)
//
// (J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
// Future Generation Computer Systems 22, 2006), and goodput is tau over that.
// An asynchronous save delays training by a copy, D, and is written during the next segment for a
// time w, at most tau; until then a failure falls back to the previous save. Let A be a segment
// whose start is saved, and B one whose start is still being written. Either is completed with
// probability p = e^(-(tau + D)/M), and a B follows, one segment further. Else a restart leads to
// an A: of the same segment or, if a failure hits a B within the first w, of the previous one. In
// the long run a share p of all is B, so on average each makes p - p (1 - e^(-w/M)) = p e^(-w/M)
// segments of progress, in a time of M (1 - p) e^(R/M), restarts included. Their ratio, the
// expected time per segment, is
//
//   M e^((R + w)/M) (e^((tau + D)/M) - 1)
// That is, a failure costs w more, and the best interval depends only on D and M if it is no less
// than w. With w = 0 a save is synchronous. Pure functions, with the same arithmetic on every
// machine; any thread.
#pragma once

#include <cstdint>

namespace pipesim {

struct Checkpointing {
  std::int64_t mtbf_ns = 0;    // of the whole job; more than 0
  std::int64_t hold_ns = 0;    // for how long a save delays training
  std::int64_t beside_ns = 0;  // for how long it is then written while training
  std::int64_t restart_ns = 0;
};

// Shares of all time; they sum to 1.
struct TimeShares {
  double goodput = 0;     // training that lasts
  double saving = 0;      // training waits for saves, including those that a failure cuts off
  double repeating = 0;   // training undone by failures
  double restarting = 0;  // from failures until it trains again
};

// With a save after each `interval_ns` of training, more than 0 and no less than `beside_ns`.
TimeShares expected_shares(const Checkpointing& job, std::int64_t interval_ns);

// sqrt(2 D M): J. W. Young, "A first order approximation to the optimum checkpoint interval",
// Communications of the ACM 17, 1974.
std::int64_t young_interval_ns(const Checkpointing& job);

// Daly's higher order estimate, sqrt(2 D M) [1 + sqrt(D / 2M) / 3 + (D / 2M) / 9] - D, or M if D is
// 2 M or more.
std::int64_t daly_interval_ns(const Checkpointing& job);

// The number of iterations between saves with the largest goodput, exactly.
std::int64_t best_interval(const Checkpointing& job, std::int64_t iteration_ns);

// The least possible interval between saves, in iterations.
std::int64_t least_interval(const Checkpointing& job, std::int64_t iteration_ns);

}  // namespace pipesim
