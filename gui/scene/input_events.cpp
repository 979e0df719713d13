#include "gui/scene/input_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "traces/input_releases.h"
#include "traces/read/event_rows.h"
#include "traces/read/event_texts.h"

namespace pipesim::gui {
namespace {

class InputEventsMaker {
 public:
  InputEventsMaker(InputRun run, const std::string& name) {
    made_.input.run = std::move(run);
    made_.events.name = name;
    made_.events.warnings = made_.input.run.warnings;
  }

  InputEvents make() {
    // Categories come first, so that their places are small.
    for (int i = 0; i < input_group_count; ++i) {
      texts_.place_of(input_group_name(static_cast<InputGroup>(i)));
    }
    find_streams();
    const InputRun& run = made_.input.run;
    for (int rank = 0; rank < run.program.ranks(); ++rank) add_rank(rank);
    made_.events.texts = texts_.take();
    made_.events.events = std::ssize(made_.events.slices);
    find_slices();
    for (int rank = 0; rank < run.program.ranks(); ++rank) add_arrows(rank);
    std::ranges::stable_sort(made_.events.arrows, {}, [&](const EventArrow& arrow) {
      return made_.events.slices[arrow.from].end_ns;
    });
    return std::move(made_);
  }

 private:
  const InputCalls& calls_of(int rank) const {
    return made_.input.run.program.calls[static_cast<std::size_t>(rank)];
  }

  void find_streams() {
    std::array<bool, input_stream_count> used{true};  // the host's always
    for (const InputCalls& calls : made_.input.run.program.calls) {
      for (const InputCall& call : calls) used[static_cast<std::size_t>(call.stream)] = true;
    }
    for (int i = 0; i < input_stream_count; ++i) {
      if (used[static_cast<std::size_t>(i)]) streams_.push_back(static_cast<InputStream>(i));
    }
  }

  void add_rank(int rank) {
    std::array<LargeVector<Slice>, input_stream_count> slices;
    const InputCalls& calls = calls_of(rank);
    for (std::uint32_t place = 0; place < calls.size(); ++place) {
      const InputCall& call = calls[place];
      const InputSpan& span = made_.input.run.span(rank, place);
      const std::string name = to_text(call.action);
      const bool on_host = call.stream == InputStream::host;
      const auto add = [&](InputStream stream, InputRole role, std::int64_t start_ns,
                           std::int64_t end_ns, const std::string& text, InputGroup group) {
        Slice slice;
        slice.start_ns = start_ns;
        slice.end_ns = std::max(start_ns, end_ns);
        slice.name = texts_.place_of(text);
        slice.category = static_cast<std::uint16_t>(texts_.place_of(input_group_name(group)));
        // Till slices have their places.
        slice.arguments = static_cast<std::uint32_t>(made_.input.slices.size());
        made_.input.slices.push_back({role, rank, place});
        slices[static_cast<std::size_t>(stream)].push_back(slice);
      };
      const std::int64_t since_ns = on_host ? span.called_ns : span.ready_ns;
      // A compute stream's waits are bubbles.
      const bool tells_waits =
          on_host || (is_meeting(call.action.kind) && call.stream != InputStream::compute);
      if (tells_waits && since_ns < span.start_ns) {
        add(call.stream, InputRole::wait, since_ns, span.start_ns, name + " waits",
            input_group_of(call.action.kind));
      }
      if (!on_host && span.called_ns < span.issued_ns) {
        add(InputStream::host, InputRole::call, span.called_ns, span.issued_ns, "call " + name,
            InputGroup::host);
      }
      add(call.stream, InputRole::action, span.start_ns, span.end_ns, name,
          input_group_of(call.action.kind));
    }
    for (const InputStream stream : streams_) {
      add_track(rank, stream, std::move(slices[static_cast<std::size_t>(stream)]));
    }
  }

  // Slices of a stream follow each other, those of no length aside; what a measured run has at
  // once stands on rows of its own.
  void add_track(int rank, InputStream stream, LargeVector<Slice> slices) {
    EventTrack track;
    track.process = fmt::format("rank {}", rank);
    track.process_order = rank;
    track.name = input_stream_name(stream);
    track.order = static_cast<std::int64_t>(stream);
    const auto number = static_cast<std::uint32_t>(made_.events.tracks.size());
    for (Slice& slice : slices) slice.track = number;
    std::ranges::sort(slices, {}, [](const Slice& slice) {
      return std::tuple(slice.start_ns, slice.end_ns, slice.arguments);
    });
    const auto overlap = std::ranges::adjacent_find(
        slices, [](const Slice& a, const Slice& b) { return a.end_ns > b.start_ns; });
    if (overlap != slices.end()) {
      LargeVector<Slice> rest;  // beyond thousands of rows, which no clock makes
      track.rows = lay_out(slices, rest);
    }
    sort_by_row(slices, track.rows, made_.events.slices);
    made_.events.tracks.push_back(std::move(track));
  }

  void find_slices() {
    OpenInput& input = made_.input;
    for (int rank = 0; rank < input.run.program.ranks(); ++rank) {
      input.slice_of.emplace_back(calls_of(rank).size(), no_ref);
      input.call_of.emplace_back(calls_of(rank).size(), no_ref);
    }
    std::vector<InputSlice> ordered;
    ordered.reserve(input.slices.size());
    for (Slice& slice : made_.events.slices) {
      const InputSlice& own = input.slices[std::exchange(slice.arguments, 0)];
      const auto ref = static_cast<Ref>(ordered.size());
      const auto rank = static_cast<std::size_t>(own.rank);
      if (own.role == InputRole::action) input.slice_of[rank][own.place] = ref;
      if (own.role == InputRole::call) input.call_of[rank][own.place] = ref;
      ordered.push_back(own);
    }
    input.slices = std::move(ordered);
  }

  void add_arrows(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const InputCalls& calls = calls_of(rank);
    const InputReleases releases(calls, made_.input.run.spans[at]);
    const auto& slice_of = made_.input.slice_of[at];
    Ref on_host = no_ref;  // what the host did last
    for (std::uint32_t place = 0; place < calls.size(); ++place) {
      const Ref call = made_.input.call_of[at][place];
      if (call != no_ref) on_host = call;
      const InputRelease release = releases.of(place);
      const bool is_of_host = calls[place].stream == InputStream::host;
      if (is_of_host && release.is_host()) {
        on_host = slice_of[place];
        continue;
      }
      const Ref from = release.is_host() ? on_host : slice_of[release.place];
      if (is_of_host) on_host = slice_of[place];
      const bool stays = !release.is_host() && calls[release.place].stream == calls[place].stream;
      if (from == no_ref || slice_of[place] == no_ref || stays) continue;
      made_.events.arrows.push_back({from, slice_of[place]});
    }
  }

  InputEvents made_;
  EventTexts texts_;
  std::vector<InputStream> streams_;  // that are shown
};

}  // namespace

Ref OpenInput::find(std::int32_t rank, const Action& action) const {
  if (rank < 0 || rank >= run.program.ranks()) return no_ref;
  const auto at = static_cast<std::size_t>(rank);
  const InputCalls& calls = run.program.calls[at];
  const auto found = std::ranges::find(calls, action, &InputCall::action);
  return found == calls.end() ? no_ref
                              : slice_of[at][static_cast<std::size_t>(found - calls.begin())];
}

std::vector<Ref> OpenInput::slices_of(const Operations& operations) const {
  std::vector<InputPlaces> places;
  for (const InputCalls& calls : run.program.calls) {
    places.emplace_back(calls, run.program.batches);
  }
  std::vector<Ref> refs;
  for (const Action& action : operations.actions) {
    const auto rank = static_cast<std::size_t>(action.stage);
    const bool is_call = is_host_call(action);
    const Kind kind = is_call ? input_kinds[action.number] : action.kind;
    const std::uint32_t place = places[rank].of(kind, action.microbatch);
    refs.push_back((is_call ? call_of : slice_of)[rank][place]);
  }
  return refs;
}

InputEvents events_of(InputRun run, const std::string& name) {
  return InputEventsMaker(std::move(run), name).make();
}

}  // namespace pipesim::gui
