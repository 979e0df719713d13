// The shades of one trace's bars under a colouring.
//
// Refers to its document; const use is thread-safe.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "gui/scene/bars.h"
#include "gui/scene/document.h"
#include "traces/bubbles.h"

namespace pipesim::gui {

// By kind: 0 F, 1 I, 2 W, 3 B, then
inline constexpr Shade forward_transfer_shade = 4;
inline constexpr Shade backward_transfer_shade = 5;
inline constexpr Shade closing_shade = 6;  // optimizer, gradients, parameters
inline constexpr Shade other_shade = 7;    // by microbatch: work of none

// Of what an input pipeline does, by kind: 0 the dense part, 1 rows of tables, 2 exchanges, 6 the
// host, 7 copies; by batch: the batch modulo 8.
Shade shade_of(InputGroup group);

// By error: how much longer an operation took than predicted. From `exact_shade`, to 3 %
// either way, three steps lead to each side: to 10 %, to 30 %, beyond.
inline constexpr Shade exact_shade = 3;
inline constexpr Shade unmatched_shade = 7;
Shade shade_of_error(std::int64_t predicted_ns, std::int64_t measured_ns);

constexpr Shade shade_of(BubbleKind kind) {
  return static_cast<Shade>(first_bubble_shade + static_cast<Shade>(kind));
}

// By kind.
Shade shade_of(Kind kind);
// By kind and chunk: of F, I, W and B the last of a rank's chunks is the lightest, those between
// are as even as the steps allow.
Shade shade_of(Kind kind, int chunk, int chunks);
// Of what is called so in a trace without a pipeline: names that differ in digits are alike.
Shade shade_of_name(std::string_view name);

class Shading {
 public:
  Shading(const Document& document, int trace, Colouring colouring);

  // For a span or slice.
  Shade of(Ref ref) const;
  // The same, but bubbles stay what they are.
  Shade of(const Bar& bar) const { return is_bubble(bar.shade) ? bar.shade : of(bar.ref); }

 private:
  Shade kind_of(const Action& action) const;
  Shade error_of(Ref ref) const;
  Shade input_shade_of(Ref ref) const;

  const OpenTrace& trace_;
  Colouring colouring_;
  int chunks_ = 1;              // of a run, per rank
  const Pair* pair_ = nullptr;  // where the trace is one of its sides
  Side side_{};
  std::vector<Shade> of_operation_;  // by error
  std::vector<bool> in_cell_;        // by operation: an overlapped cell's backward
  std::vector<Shade> of_text_;       // of an event trace's names
};

}  // namespace pipesim::gui
