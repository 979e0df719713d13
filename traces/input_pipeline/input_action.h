// One unit of work of one rank on a batch of input: a kind, and one of its streams.
//
// The vocabulary of overlapped input pipelines, shared by simulator, executor and viewer: a
// batch is copied to the device, its sparse ids go to the ranks that own the tables, rows are
// looked up and pooled, pooled rows go back, and the dense part of the model is trained. The
// text form is the kind and the batch, from 0: `COPY3`. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipesim {

// Streams run actions in order. An action runs after the earlier ones of its stream and
// after those it waits for. The thread that issues all others runs the host's.
enum class InputStream : std::uint8_t {
  host,
  memcpy,     // copies to the device
  prepare,    // computation on a batch before its ids travel
  data_dist,  // exchanges of ids
  prefetch,   // rows of tables brought into a cache
  lookup,     // for lookups that overlap the dense part
  compute,    // the device's default stream
  output,     // exchanges of pooled rows that the compute stream does not wait for at once
  reduction,  // sums of dense gradients over ranks
};
inline constexpr int input_stream_count = 9;

enum class InputKind : std::uint8_t {
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
  OPTIMIZER,        // the dense part's step
};
inline constexpr int input_kind_count = 19;

// Whether it is a collective: it begins once the last rank arrives.
constexpr bool is_collective(InputKind kind) {
  return kind == InputKind::SPLITS || kind == InputKind::IDS || kind == InputKind::OUTPUT ||
         kind == InputKind::OUTPUT_BACKWARD || kind == InputKind::REDUCE_TOP ||
         kind == InputKind::REDUCE_BOTTOM;
}
// Whether it runs on the host, and only there.
constexpr bool is_of_host(InputKind kind) {
  return kind == InputKind::NEXT || kind == InputKind::READ;
}
// Whether it moves bytes instead of computing.
constexpr bool is_transfer(InputKind kind) {
  return is_collective(kind) || kind == InputKind::COPY || kind == InputKind::PREFETCH;
}

// Coarse classes for display.
enum class InputGroup : std::uint8_t {
  compute,
  rows,      // of tables: looked up and updated
  exchange,  // collectives
  copy,
  host,
};
inline constexpr int input_group_count = 5;
InputGroup group_of(InputKind kind);
std::string_view input_group_name(InputGroup group);

struct InputAction {
  InputKind kind = InputKind::NEXT;
  std::int32_t batch = 0;

  bool operator==(const InputAction&) const = default;
};

std::string_view input_kind_name(InputKind kind);
std::string_view input_stream_name(InputStream stream);
// Nothing if none has this name.
std::optional<InputKind> parse_input_kind(std::string_view name);
std::optional<InputStream> parse_input_stream(std::string_view name);

std::string to_text(const InputAction& action);
// Reads exactly one action; nothing if `text` is not one. Batches are below 10^9.
std::optional<InputAction> parse_input_action(std::string_view text);

}  // namespace pipesim
