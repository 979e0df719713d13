#include "exec/run/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "exec/device/random.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr std::string_view forms =
    "give KIND@stageS=xFACTOR, ACTION=xFACTOR, launch@rankR=TIME, pause@ACTION=TIME or "
    "jitter[@rankR]=PERCENT, such as B@stage2=x1.4, 2B5=x1.4, launch@rank1=300us, "
    "pause@2B5=20ms, jitter=5%";

[[noreturn]] void fail(std::string_view text, std::string_view why) {
  throw input_error(fmt::format("--faults {}: {}; {}", quote(text), why, forms));
}

// The number after a prefix, if nothing follows.
std::optional<std::int32_t> number_behind(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Approximately standard normal, as the sum of twelve uniform numbers.
double normal(const Action& action, int iteration) {
  double sum = -6;
  for (std::uint32_t block = 0; block < 3; ++block) {
    const RandomWords words = philox(
        {{block, static_cast<std::uint32_t>(action.kind), static_cast<std::uint32_t>(action.stage),
          static_cast<std::uint32_t>(action.microbatch)}},
        static_cast<std::uint32_t>(iteration), 0);
    for (const std::uint32_t word : words.word) sum += static_cast<double>(word) / 4294967296.0;
  }
  return sum;
}

}  // namespace

bool Faults::Fault::is_of(const Action& action, int on_rank) const {
  return (!kind || *kind == action.kind) && (!stage || *stage == action.stage) &&
         (!microbatch || *microbatch == action.microbatch) && (!rank || *rank == on_rank);
}

void Faults::add(std::string_view text, const Schedule& program) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) fail(text, "there is no '='");
  const std::string_view where = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  const std::size_t at = where.find('@');
  const std::string_view what = where.substr(0, at);
  const std::string_view place = at == std::string_view::npos ? "" : where.substr(at + 1);
  const std::string flag = fmt::format("--faults {}", where);
  Fault fault;
  fault.text = text;
  const auto take_action = [&](std::string_view name) {
    const auto action = parse_action(name);
    if (!action || !is_compute(action->kind))
      fail(text, fmt::format("{} is not F, I, W or B", quote(name)));
    fault.kind = action->kind;
    fault.stage = action->stage;
    fault.microbatch = action->microbatch;
  };
  const auto take_rank = [&] {
    fault.rank = number_behind(place, "rank");
    if (!fault.rank) fail(text, fmt::format("{} is not a rank", quote(place)));
  };
  if (what == "launch") {
    fault.what = What::launch;
    take_rank();
    fault.ns = parse_time_ns(value, flag);
  } else if (what == "pause") {
    fault.what = What::pause;
    take_action(place);
    fault.ns = parse_time_ns(value, flag);
  } else if (what == "jitter") {
    fault.what = What::jitter;
    if (!place.empty()) take_rank();
    fault.factor = static_cast<double>(parse_slowdown_ppm(value, flag)) * 1e-6;
  } else {
    fault.what = What::scale;
    if (at == std::string_view::npos) {
      take_action(what);
    } else {
      fault.kind = parse_kind(what);
      fault.stage = number_behind(place, "stage");
      if (!fault.kind || !is_compute(*fault.kind)) {
        fail(text, fmt::format("{} is not F, I, W or B", quote(what)));
      }
      if (!fault.stage) fail(text, fmt::format("{} is not a stage", quote(place)));
    }
    double factor = 0;
    const std::string_view digits = value.starts_with('x') ? value.substr(1) : "";
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), factor);
    if (error != std::errc() || end != digits.data() + digits.size() || !(factor >= 0) ||
        factor > static_cast<double>(max_slowdown)) {
      fail(text, fmt::format("{} is not a factor from x0 to x{}", quote(value), max_slowdown));
    }
    fault.factor = factor;
  }
  if (fault.stage && *fault.stage >= program.stages()) {
    fail(text, fmt::format("there are {}", plural(program.stages(), "virtual stage")));
  }
  if (fault.rank && *fault.rank >= program.ranks()) {
    fail(text, fmt::format("there are {}", plural(program.ranks(), "rank")));
  }
  const auto is_done = [&](const Action& action) {
    return is_compute(action.kind) && fault.is_of(action, program.placement.rank_of(action));
  };
  if (std::ranges::none_of(program.actions.all(), is_done)) {
    fail(text, "the schedule has no such action");
  }
  faults_.push_back(std::move(fault));
}

std::vector<std::string> Faults::texts() const {
  std::vector<std::string> all;
  for (const Fault& fault : faults_) all.push_back(fault.text);
  return all;
}

std::string Faults::shortening() const {
  const auto shortens = [](const Fault& fault) {
    return fault.what == What::scale && fault.factor < 1;
  };
  const auto found = std::ranges::find_if(faults_, shortens);
  return found == faults_.end() ? "" : found->text;
}

std::int64_t Faults::duration_ns(const Action& action, int iteration, int rank,
                                 std::int64_t duration_ns) const {
  double factor = 1;
  for (const Fault& fault : faults_) {
    if (!fault.is_of(action, rank)) continue;
    if (fault.what == What::scale) factor *= fault.factor;
    if (fault.what == What::jitter) {
      factor *= std::max(0.0, 1 + fault.factor * normal(action, iteration));
    }
  }
  return factor == 1 ? duration_ns : std::llround(static_cast<double>(duration_ns) * factor);
}

std::int64_t Faults::delay_ns(const Action& action, int rank) const {
  std::int64_t delay_ns = 0;
  for (const Fault& fault : faults_) {
    const bool delays = fault.what == What::launch || fault.what == What::pause;
    if (delays && fault.is_of(action, rank)) delay_ns += fault.ns;
  }
  return delay_ns;
}

}  // namespace pipesim::exec
