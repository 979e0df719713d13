#include "traces/input_releases.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pipesim {

InputReleases::InputReleases(const InputCalls& calls, const std::vector<InputSpan>& spans)
    : calls_(calls), spans_(spans), before_(calls.size(), InputPlaces::none) {
  std::array<std::uint32_t, input_stream_count> last;
  last.fill(InputPlaces::none);
  for (std::uint32_t place = 0; place < calls.size(); ++place) {
    before_[place] = std::exchange(last[static_cast<std::size_t>(calls[place].stream)], place);
  }
}

InputRelease InputReleases::of(std::uint32_t place) const {
  const InputCall& call = calls_[place];
  const InputSpan& span = spans_[place];
  const bool is_of_host = call.stream == InputStream::host;
  InputRelease last;
  last.time_ns = std::min(is_of_host ? span.called_ns : span.issued_ns, span.ready_ns);
  const auto consider = [&](std::uint32_t other) {
    const std::int64_t time = std::min(spans_[other].end_ns, span.ready_ns);
    const bool is_later_call = last.is_host() || other > last.place;
    if (time > last.time_ns || (time == last.time_ns && is_later_call)) last = {other, time};
  };
  // The host reaches its own actions after the earlier ones.
  if (!is_of_host && before_[place] != InputPlaces::none) consider(before_[place]);
  for (const std::uint32_t awaited : call.after) consider(awaited);
  return last;
}

}  // namespace pipesim
