// One unit of work of one rank: a kind, a stage and a microbatch.
//
// The vocabulary shared by schedules, simulator, executor and viewer. Kinds
// are those of PyTorch's pipeline runtime plus the optimizer step. The text
// form is `2F0`: stage, kind, microbatch; from UNSHARD on kinds take no microbatch
// (`1UNSHARD`). Those of input pipelines are `COPY3`: their stage is the rank, and not named. Kind,
// stage and microbatch, with the number of a collective (a stage may have several per iteration),
// are the identity that joins a prediction and a measurement (action_key.h); what waits for what is
// in dependency.h. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipesim {

enum class Kind : std::uint8_t {
  F,            // forward
  I,            // input gradient
  W,            // weight gradient
  B,            // full backward, I and W in one
  SEND_F,       // activations to the next stage
  RECV_F,       // activations from the previous stage
  SEND_B,       // gradients to the previous stage
  RECV_B,       // gradients from the next stage
  UNSHARD,      // gather a stage's parameters
  RESHARD,      // release them again
  REDUCE_GRAD,  // reduce a stage's gradients over data-parallel replicas
  REDUCE_TIED,  // add up the gradients of a matrix that first and last stage share
  GRAD_NORM,    // find the norm of all gradients
  OPTIMIZER,    // a rank's optimizer step
  SAVE,         // a rank's part of a checkpoint, as far as training waits for it
  IDLE,         // an empty cell of a schedule file
  // Of input pipelines, by batch; see input_action.h.
  NEXT,             // host: takes the next batch from its source
  COPY,             // a batch to the device
  PREPARE,          // computes on it before its ids travel
  SPLITS,           // exchange: how many ids each rank will get
  READ,             // host: blocks until it has read those
  IDS,              // exchange: lengths and ids, to the ranks that own the tables
  PREFETCH,         // rows that the batch needs into a cache
  LOOKUP,           // reads and pools rows of the tables that the rank owns
  OUTPUT,           // exchange: pooled rows back to the ranks of their samples
  ZERO_GRAD,        // clears dense gradients
  BOTTOM,           // forward of the layers over dense features
  TOP,              // interaction, the layers above it, the loss
  TOP_BACKWARD,     // their backward
  OUTPUT_BACKWARD,  // exchange: gradients of pooled rows, to the owners of the tables
  UPDATE,           // of the rows looked up
  BOTTOM_BACKWARD,  // backward of the layers over dense features
  REDUCE_TOP,       // sum over ranks of the gradients of the layers above the interaction
  REDUCE_BOTTOM,    // and of those over dense features
  DENSE_STEP,       // the dense part's step; its name is OPTIMIZER
};
inline constexpr int kind_count = 35;

constexpr bool is_compute(Kind kind) { return kind <= Kind::B; }
constexpr bool is_backward(Kind kind) { return kind == Kind::I || kind == Kind::B; }
constexpr bool is_transfer(Kind kind) { return kind >= Kind::SEND_F && kind <= Kind::RECV_B; }
constexpr bool is_send(Kind kind) { return kind == Kind::SEND_F || kind == Kind::SEND_B; }
constexpr bool is_receive(Kind kind) { return kind == Kind::RECV_F || kind == Kind::RECV_B; }
constexpr bool is_of_input(Kind kind) { return kind > Kind::IDLE; }
// What an input pipeline calls a batch counts as one.
constexpr bool takes_microbatch(Kind kind) { return kind <= Kind::RECV_B || is_of_input(kind); }
// Whether PyTorch's runtime has it; the others are in no file of its form.
constexpr bool is_of_pytorch(Kind kind) { return kind <= Kind::REDUCE_GRAD; }
// A stage's collectives over replicas: UNSHARD, RESHARD, REDUCE_GRAD.
constexpr bool is_of_replicas(Kind kind) {
  return kind >= Kind::UNSHARD && kind <= Kind::REDUCE_GRAD;
}

// A collective over pipeline ranks: it begins when the last rank of its group arrives, and no rank
// continues before its end.
constexpr bool is_blocking_collective(Kind kind) {
  return kind == Kind::REDUCE_TIED || kind == Kind::GRAD_NORM;
}

std::string_view kind_name(Kind kind);
// Of those of pipelines: nothing if none has this name; IDLE has no name in a file.
std::optional<Kind> parse_kind(std::string_view name);

inline constexpr std::int32_t no_microbatch = -1;
inline constexpr std::uint16_t no_number = 0xffff;

// The largest virtual stage or microbatch index in the text form.
inline constexpr std::int32_t max_index = 999'999'999;

struct Action {
  std::int32_t stage = 0;
  std::int32_t microbatch = no_microbatch;
  Kind kind = Kind::IDLE;
  // One cell with the action after it: a forward joined with a backward is
  // PyTorch's OVERLAP_F_B, joined transfers are its BATCH_P2P.
  bool joined = false;
  // For a recorded collective or a SAVE's background writing: its index among its stage's of
  // that kind, from 0.
  std::uint16_t number = no_number;

  bool operator==(const Action&) const = default;
};
static_assert(sizeof(Action) == 12);

constexpr Action make_action(std::int32_t stage, Kind kind,
                             std::int32_t microbatch = no_microbatch) {
  return {stage, microbatch, kind, false, no_number};
}
// Below no_number.
constexpr Action make_collective(std::int32_t stage, Kind kind, std::int32_t number) {
  return {stage, no_microbatch, kind, false, static_cast<std::uint16_t>(number)};
}

// Whether it is an exchange with a stage's replicas, or the release of its result, that runs
// while its rank computes; a list's action is not one yet.
constexpr bool is_collective(const Action& action) {
  return is_of_replicas(action.kind) && action.number != no_number;
}
// Whether it is the background writing of a checkpoint; the SAVE without a number is the part
// its rank waited for.
constexpr bool is_save_beside(const Action& action) {
  return action.kind == Kind::SAVE && action.number != no_number;
}
// Whether it moves results, weights, gradients or states while its rank computes.
constexpr bool is_communication(const Action& action) {
  return is_transfer(action.kind) || is_collective(action) || is_save_beside(action);
}
// Whether it occupies its rank, after its compute.
constexpr bool is_closing(const Action& action) {
  return action.kind == Kind::OPTIMIZER || (action.kind == Kind::SAVE && !is_save_beside(action)) ||
         is_blocking_collective(action.kind) ||
         (action.kind == Kind::REDUCE_GRAD && !is_collective(action));
}

// The other end of a transfer: 0SEND_F1 <-> 1RECV_F1, 1SEND_B1 <-> 0RECV_B1.
constexpr Action peer_of(Action transfer) {
  switch (transfer.kind) {
    case Kind::SEND_F: return make_action(transfer.stage + 1, Kind::RECV_F, transfer.microbatch);
    case Kind::RECV_F: return make_action(transfer.stage - 1, Kind::SEND_F, transfer.microbatch);
    case Kind::SEND_B: return make_action(transfer.stage - 1, Kind::RECV_B, transfer.microbatch);
    default: return make_action(transfer.stage + 1, Kind::SEND_B, transfer.microbatch);
  }
}

// Appends the text form of one action; IDLE appends nothing.
void append_text(std::string& text, const Action& action);
std::string to_text(const Action& action);

// Appends the text form of a cell of `size` actions, the first at `cell`:
// `2F0`, or `(0F7;7B3)OVERLAP_F_B`, or `(0SEND_F0;2RECV_F0)BATCH_P2P`.
void append_cell(std::string& text, const Action* cell, std::size_t size);

// The number of actions in the cell that starts at `begin`, 1 for most.
inline std::size_t cell_size(const Action* begin, const Action* end) {
  const Action* last = begin;
  while (last->joined && last + 1 != end) ++last;
  return static_cast<std::size_t>(last - begin) + 1;
}

// Reads exactly one action; nothing if `text` is not one. Older files have
// `BW` for a full backward: it is read as B, and `is_bw` says so.
std::optional<Action> parse_action(std::string_view text, bool* is_bw = nullptr);

}  // namespace pipesim
