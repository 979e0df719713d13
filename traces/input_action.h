// One unit of work of one rank on a batch of input: a kind, and one of its streams.
//
// The vocabulary of overlapped input pipelines, shared by simulator, executor and viewer: a
// batch is copied to the device, its sparse ids go to the ranks that own the tables, rows are
// looked up and pooled, pooled rows go back, and the dense part of the model is trained. The
// text form is the kind and the batch, from 0: `COPY3`. Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "traces/action.h"

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

// Those of input pipelines, in the order in which a batch needs them.
inline constexpr auto input_kinds = [] {
  std::array<Kind, 19> kinds{};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    kinds[i] = static_cast<Kind>(static_cast<std::size_t>(Kind::NEXT) + i);
  }
  return kinds;
}();
inline constexpr int input_kind_count = static_cast<int>(input_kinds.size());
constexpr std::size_t input_index(Kind kind) {
  return static_cast<std::size_t>(kind) - static_cast<std::size_t>(Kind::NEXT);
}
constexpr Action input_action(Kind kind, std::int32_t batch) { return make_action(0, kind, batch); }

// Whether it is a collective: it begins once the last rank arrives.
constexpr bool is_meeting(Kind kind) {
  return kind == Kind::SPLITS || kind == Kind::IDS || kind == Kind::OUTPUT ||
         kind == Kind::OUTPUT_BACKWARD || kind == Kind::REDUCE_TOP || kind == Kind::REDUCE_BOTTOM;
}
// Whether it is an exchange or a copy.
constexpr bool moves_data(Kind kind) {
  return is_meeting(kind) || kind == Kind::COPY || kind == Kind::PREFETCH;
}
// Whether it runs on the host, and only there.
constexpr bool is_of_host(Kind kind) { return kind == Kind::NEXT || kind == Kind::READ; }

// Coarse classes for display.
enum class InputGroup : std::uint8_t {
  compute,
  rows,      // of tables: looked up and updated
  exchange,  // collectives
  copy,
  host,
};
inline constexpr int input_group_count = 5;
InputGroup input_group_of(Kind kind);
std::string_view input_group_name(InputGroup group);

std::string_view input_stream_name(InputStream stream);
// Nothing if none has this name.
std::optional<Kind> parse_input_kind(std::string_view name);
std::optional<InputStream> parse_input_stream(std::string_view name);

// Reads exactly one action; nothing if `text` is not one. Batches are below 10^9.
std::optional<Action> parse_input_action(std::string_view text);

}  // namespace pipesim
