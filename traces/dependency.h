// What an action waits for, and who waits for it, stated once for schedules, simulator,
// executor and viewer.
//
//                needs                     its result goes to
//   F            F of the stage before     F of the stage after
//   I, B         B of the stage after      B of the stage before
//   W            its stage's I             nobody
//   SEND         the producer of its data  its RECV
//   RECV         its SEND                  what needs it
//
// all of the same microbatch and iteration. I and B of the last stage
// need its own F. B here stands for I, too: a stage and
// microbatch has one or the other. The order of a rank's list takes care of what an action
// needs from its own rank and stage. Plain functions; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "traces/action.h"

namespace pipesim {

// For an F, I or B: the stage that its input comes from, and the one that its result goes to.
// None if that is -1, or the number of stages.
constexpr std::int32_t input_stage(const Action& compute) {
  return compute.kind == Kind::F ? compute.stage - 1 : compute.stage + 1;
}
constexpr std::int32_t output_stage(const Action& compute) {
  return compute.kind == Kind::F ? compute.stage + 1 : compute.stage - 1;
}
constexpr bool makes_result(Kind kind) { return kind == Kind::F || is_backward(kind); }

// For an F, I or B whose neighbours are on other ranks: the transfers of its input and of
// its result.
constexpr Action receive_for(const Action& compute) {
  const Kind kind = compute.kind == Kind::F ? Kind::RECV_F : Kind::RECV_B;
  return make_action(compute.stage, kind, compute.microbatch);
}
constexpr Action send_of(const Action& compute) {
  const Kind kind = compute.kind == Kind::F ? Kind::SEND_F : Kind::SEND_B;
  return make_action(compute.stage, kind, compute.microbatch);
}
// The F or B at this end of a transfer: the one whose result a SEND sends, or that a RECV is for.
constexpr Action compute_at(const Action& transfer) {
  const bool forward = transfer.kind == Kind::SEND_F || transfer.kind == Kind::RECV_F;
  return make_action(transfer.stage, forward ? Kind::F : Kind::B, transfer.microbatch);
}

// Whether an action is the one named here.
constexpr bool is_named(const Action& action, const Action& name) {
  return action.stage == name.stage && action.microbatch == name.microbatch &&
         (action.kind == name.kind || (action.kind == Kind::I && name.kind == Kind::B));
}

// What an action needs; nothing if it needs none, or has no microbatch.
constexpr std::optional<Action> producer_of(const Action& action, int stages) {
  const auto of = [&](std::int32_t stage, Kind kind) {
    return make_action(stage, kind, action.microbatch);
  };
  switch (action.kind) {
    case Kind::F:
      if (action.stage == 0) return std::nullopt;
      return of(action.stage - 1, Kind::F);
    case Kind::I:
    case Kind::B:
      if (action.stage + 1 == stages) return of(action.stage, Kind::F);
      return of(action.stage + 1, Kind::B);
    case Kind::W: return of(action.stage, Kind::I);
    case Kind::SEND_F:
    case Kind::SEND_B: return compute_at(action);
    case Kind::RECV_F:
    case Kind::RECV_B: return peer_of(action);
    default: return std::nullopt;
  }
}

// What needs its result; if several, the one on another stage.
constexpr std::optional<Action> consumer_of(const Action& action, int stages) {
  const auto of = [&](std::int32_t stage, Kind kind) {
    return make_action(stage, kind, action.microbatch);
  };
  switch (action.kind) {
    case Kind::F:
      if (action.stage + 1 == stages) return of(action.stage, Kind::B);
      return of(action.stage + 1, Kind::F);
    case Kind::I:
      if (action.stage == 0) return of(0, Kind::W);
      return of(action.stage - 1, Kind::B);
    case Kind::B:
      if (action.stage == 0) return std::nullopt;
      return of(action.stage - 1, Kind::B);
    case Kind::SEND_F:
    case Kind::SEND_B: return peer_of(action);
    case Kind::RECV_F:
    case Kind::RECV_B: return compute_at(action);
    default: return std::nullopt;
  }
}

}  // namespace pipesim
