#include "gui/scene/shading.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace pipesim::gui {
namespace {

constexpr std::array<Shade, 16> shade_of_kind{0,
                                              1,
                                              2,
                                              3,
                                              forward_transfer_shade,
                                              forward_transfer_shade,
                                              backward_transfer_shade,
                                              backward_transfer_shade,
                                              closing_shade,
                                              closing_shade,
                                              closing_shade,
                                              closing_shade,
                                              closing_shade,
                                              closing_shade,
                                              other_shade,
                                              closing_shade};  // IDLE: the host's calls

}  // namespace

Shade shade_of(Kind kind) {
  if (is_of_input(kind)) return shade_of(input_group_of(kind));
  return shade_of_kind[static_cast<std::size_t>(kind)];
}

Shade shade_of(Kind kind, int chunk, int chunks) {
  const Shade full = shade_of(kind);
  if (full > 3 || chunk <= 0 || chunks <= 1) return full;
  const int last = chunks - 1;
  const int step = (2 * lighter_steps * std::min(chunk, last) + last) / (2 * last);
  return static_cast<Shade>(first_lighter_shade + 4 * (std::max(step, 1) - 1) + full);
}

Shade shade_of(InputGroup group) {
  switch (group) {
    case InputGroup::compute: return 0;
    case InputGroup::rows: return 1;
    case InputGroup::exchange: return 2;
    case InputGroup::copy: return other_shade;
    case InputGroup::host: return closing_shade;
  }
  return other_shade;
}

// FNV-1a without digits: "block 3" and "block 4" are alike.
Shade shade_of_name(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char letter : name) {
    if (letter >= '0' && letter <= '9') continue;
    hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  }
  return static_cast<Shade>((hash ^ hash >> 15) % 8);
}

Shade shade_of_error(std::int64_t predicted_ns, std::int64_t measured_ns) {
  const std::int64_t difference = measured_ns - predicted_ns;
  const auto beyond = [&](std::int64_t percent) {
    return std::abs(difference) > predicted_ns / 100 * percent + predicted_ns % 100 * percent / 100;
  };
  const int steps = (beyond(3) ? 1 : 0) + (beyond(10) ? 1 : 0) + (beyond(30) ? 1 : 0);
  return static_cast<Shade>(difference < 0 ? exact_shade - steps : exact_shade + steps);
}

Shading::Shading(const Document& document, int trace, Colouring colouring)
    : trace_(*document.traces[static_cast<std::size_t>(trace)]), colouring_(colouring) {
  if (trace_.events && !trace_.input) {
    of_text_.reserve(trace_.events->texts.size());
    for (const std::string& text : trace_.events->texts) of_text_.push_back(shade_of_name(text));
  }
  if (trace_.run && !trace_.run->chunk_of_stage.empty()) {
    chunks_ = 1 + std::ranges::max(trace_.run->chunk_of_stage);
  }
  const auto side = document.side_of(trace);
  if (colouring != Colouring::error || !side) return;
  pair_ = document.pair.get();
  side_ = *side;
  const Operations& operations = pair_->comparison.operations;
  of_operation_.resize(operations.size(), unmatched_shade);
  in_cell_.resize(operations.size());
  for (OperationId id = 0; id < operations.size(); ++id) {
    if (!operations.matched(id) || operations.opens_cell[id]) continue;
    of_operation_[id] = shade_of_error(operations.sides[predicted_side][id].duration_ns(),
                                       operations.sides[measured_side][id].duration_ns());
  }
  // Of a cell the backward is all the work.
  for (const auto& [forward, backward] : operations.backward_of) {
    of_operation_[forward] = of_operation_[backward];
    in_cell_[forward] = in_cell_[backward] = true;
  }
}

Shade Shading::of(Ref ref) const {
  if (trace_.input) return input_shade_of(ref);
  if (trace_.events) return of_text_[trace_.events->slices[ref].name];
  const Action& action = trace_.run->spans[ref].action;
  switch (colouring_) {
    case Colouring::kind: return kind_of(action);
    case Colouring::microbatch:
      return takes_microbatch(action.kind) ? static_cast<Shade>(action.microbatch % 8)
                                           : other_shade;
    default: return error_of(ref);
  }
}

Shade Shading::kind_of(const Action& action) const {
  if (chunks_ == 1 || !takes_microbatch(action.kind)) return shade_of(action.kind);
  const auto stage = static_cast<std::size_t>(action.stage);
  return shade_of(action.kind, trace_.run->chunk_of_stage[stage], chunks_);
}

Shade Shading::input_shade_of(Ref ref) const {
  const InputSlice& slice = trace_.input->slices[ref];
  if (slice.role == InputRole::wait) return wait_shade;
  if (colouring_ == Colouring::error) {
    const OperationId id = pair_ == nullptr ? no_operation : pair_->find(side_, ref);
    return id == no_operation ? unmatched_shade : of_operation_[id];
  }
  const Action& action = trace_.input->called_by(slice).action;
  if (colouring_ == Colouring::microbatch) return static_cast<Shade>(action.microbatch % 8);
  return shade_of(slice.role == InputRole::call ? InputGroup::host : input_group_of(action.kind));
}

Shade Shading::error_of(Ref ref) const {
  if (pair_ == nullptr) return unmatched_shade;
  const OperationId compared = pair_->find(side_, ref);
  if (compared != no_operation) return of_operation_[compared];
  // Of another iteration. How long a SEND holds its rank is no operation's time, and
  // what of a cell's is whose is not known.
  const Span& span = trace_.run->spans[ref];
  const Operations& operations = pair_->comparison.operations;
  const Action& action = span.action;
  const OperationId id = operations.find(is_receive(action.kind) ? peer_of(action) : action);
  if (id == no_operation || is_send(action.kind) || in_cell_[id]) return unmatched_shade;
  const Occurrence& predicted = operations.sides[predicted_side][id];
  if (!predicted.exists()) return unmatched_shade;
  if (side_ == predicted_side) return of_operation_[id];
  return shade_of_error(predicted.duration_ns(), span.end_ns - span.start_ns);
}

}  // namespace pipesim::gui
