// One iteration of each of two runs, joined action by action.
//
// An operation is something that takes time: an F, I, W or B, a gradient
// reduction, an optimizer step, on one rank; or a transfer from rank to rank,
// which is named by its SEND. Its identity is (stage, kind, microbatch).
// A collective of replicas is not an operation, though it is joined by (stage, kind, number):
// what waits for it starts late, and records how long it waited. Plain
// values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "traces/input_action.h"
#include "traces/recorded_run.h"

namespace pipesim {

enum Side : std::uint8_t { predicted_side, measured_side };
inline constexpr std::array both_sides{predicted_side, measured_side};

using OperationId = std::uint32_t;
inline constexpr OperationId no_operation = 0xffffffff;

// One run's values of an operation. Times count from the iteration's start.
struct Occurrence {
  std::int32_t rank = -1;     // of a transfer the sender's; -1: the run does not have it
  std::int32_t to_rank = -1;  // of a transfer
  // Whose result it needs from another rank: a transfer, or, where none was
  // recorded, its producer; of a transfer always its producer.
  OperationId input = no_operation;
  bool has_one_end = false;  // of a transfer: one of SEND and RECV was recorded, not both
  // A transfer lasts from when both its ends were there to the arrival, by the
  // receiver's clock.
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t sent_ns = 0;  // of a transfer: when its SEND started, by the sender's clock
  // The waits for collectives of its rank, as for an input: since when, until when;
  // both 0 where it waits for none.
  std::int64_t collective_since_ns = 0;
  std::int64_t collective_arrival_ns = 0;
  Action collective = {};         // the last that it waits for
  std::int64_t preempted_ns = 0;  // for how long of it others had its processor

  bool exists() const { return rank >= 0; }
  bool awaits_collective() const { return collective_since_ns != 0 || collective_arrival_ns != 0; }
  std::int64_t duration_ns() const { return end_ns - start_ns; }
};

// Whether it is the host's part of an input pipeline's call; its number is the call's kind.
inline bool is_host_call(const Action& operation) { return operation.kind == Kind::IDLE; }
// Its action, or "call COPY3".
std::string operation_name(const Action& operation);

struct Operations {
  // For either run, sorted by (kind, stage, microbatch).
  std::vector<Action> actions;
  std::array<std::vector<Occurrence>, 2> sides;  // [side][operation]
  // Each rank's compute in the order of the starts; of an input pipeline a list for each stream of
  // each rank, by input_list().
  std::array<std::vector<std::vector<OperationId>>, 2> lists;
  // Whether times count from the end of the iteration before, not from the first start.
  std::array<bool, 2> follows{};
  // Of each rank that did something in the iteration before, when it ended that, by this one's
  // time; nothing where times do not count from its end.
  std::array<std::vector<std::optional<std::int64_t>>, 2> ended_before_ns;
  // When the first collective started, by the clocks as they are; nothing without any.
  std::array<std::optional<std::int64_t>, 2> first_collective_ns;
  // Of an input pipeline: what each waits for besides what its stream did before, by operation from
  // waits_begin[id] to waits_begin[id + 1]; and which collective it is a part of, or none.
  std::vector<std::uint32_t> waits_begin;
  std::vector<OperationId> waits;
  std::vector<std::int32_t> meeting_of;
  static constexpr std::int32_t no_meeting = -1;
  // Where an F and a backward share a cell in one run, and in the other, too, or
  // there follow each other: the F stands for the cell's inputs and takes no
  // time, the backward for all the work, and whoever needs the F's result waits
  // for the backward.
  std::vector<bool> opens_cell;
  std::map<OperationId, OperationId> backward_of;  // of an F that opens a cell

  std::size_t size() const { return actions.size(); }
  bool of_inputs() const { return !waits_begin.empty(); }
  bool transfers(OperationId id) const { return is_transfer(actions[id].kind); }
  // A transfer, a blocking collective, or what an input pipeline copies or exchanges.
  bool communicates(OperationId id) const {
    const Kind kind = actions[id].kind;
    return transfers(id) || is_blocking_collective(kind) || moves_data(kind);
  }
  // F, I, W or B; of an input pipeline what is neither moved nor the host's.
  bool computes(OperationId id) const {
    const Kind kind = actions[id].kind;
    return of_inputs() ? !moves_data(kind) && !is_of_host(kind) && kind != Kind::IDLE
                       : is_compute(kind);
  }
  static std::size_t input_list(std::int32_t rank, InputStream stream) {
    return static_cast<std::size_t>(rank * input_stream_count + static_cast<int>(stream));
  }
  std::int32_t rank_of_list(std::size_t list) const {
    return static_cast<std::int32_t>(of_inputs() ? list / input_stream_count : list);
  }
  // "rank 3", of an input pipeline "rank 3 lookup".
  std::string list_name(std::size_t list) const;
  bool matched(OperationId id) const {
    return sides[predicted_side][id].exists() && sides[measured_side][id].exists();
  }
  OperationId find(const Action& action) const;  // or no_operation
};

// Of how many spans, both ends of transfers included, the other run has the same,
// and has not.
struct MatchCounts {
  std::int64_t matched = 0;
  std::array<std::int64_t, 2> unmatched{};
};

struct Join {
  Operations operations;
  MatchCounts counts;
};

// Joins an iteration of each, of the run's own. Of what occurs twice in one, the first counts.
Join join(const RecordedRun& predicted, const RecordedIteration& predicted_iteration,
          const RecordedRun& measured, const RecordedIteration& measured_iteration);

}  // namespace pipesim
