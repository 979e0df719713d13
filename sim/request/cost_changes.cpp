#include "sim/request/cost_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::string_view time_forms =
    "give KIND@stageS=FACTOR, KIND@rankR=FACTOR, stageS=FACTOR, rankR=FACTOR or KIND=FACTOR, such "
    "as B@stage2=0.8: a B of stage 2 takes 0.8 times as long";
constexpr std::string_view link_forms =
    "give A-B=SPEED, such as 0-1=2x: messages between ranks 0 and 1 travel twice as fast";

std::optional<int> index_of(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// "0.8", "0.8x" or "x0.8".
std::optional<double> factor_of(std::string_view text) {
  if (text.ends_with('x')) {
    text.remove_suffix(1);
  } else if (text.starts_with('x')) {
    text.remove_prefix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto most = static_cast<double>(max_slowdown);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 1 / most) ||
      value > most) {
    return std::nullopt;
  }
  return value;
}

[[noreturn]] void refuse(std::string_view flag, std::string_view text, std::string_view why,
                         std::string_view forms) {
  throw input_error(fmt::format("{} {}: {}; {}", flag, quote(text), why, forms));
}

struct Assignment {
  std::string_view where;
  double factor = 1;
};

// Parses one of several separated by commas.
Assignment assignment_of(std::string_view flag, std::string_view text, std::string_view forms) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) refuse(flag, text, "there is no '='", forms);
  const std::string_view value = text.substr(equals + 1);
  const std::optional<double> factor = factor_of(value);
  if (!factor) {
    refuse(flag, text,
           fmt::format("{} is not a factor from 0.01 to {}", quote(value), max_slowdown), forms);
  }
  return {text.substr(0, equals), *factor};
}

// Changes the compute times of a stage, by kind.
void change_times(StageCosts& stage, const TimeChange& change) {
  const auto scaled = [&](std::int64_t ns) {
    return std::llround(static_cast<double>(ns) * change.factor);
  };
  const auto is_of = [&](Kind kind) { return !change.kind || *change.kind == kind; };
  const std::int64_t before_ns = stage.forward_ns + stage.backward_ns();
  if (is_of(Kind::F)) stage.forward_ns = scaled(stage.forward_ns);
  if (is_of(Kind::I) || change.kind == Kind::B) {
    stage.backward_input_ns = scaled(stage.backward_input_ns);
  }
  if (is_of(Kind::W) || change.kind == Kind::B) {
    stage.backward_weight_ns = scaled(stage.backward_weight_ns);
  }
  // An overlapped cell changes as the sum of its parts does.
  if (stage.overlap_ns && before_ns > 0) {
    const double all = static_cast<double>(stage.forward_ns + stage.backward_ns()) /
                       static_cast<double>(before_ns);
    stage.overlap_ns = std::llround(static_cast<double>(*stage.overlap_ns) * all);
  }
}

bool are_neighbours(const Placement& placement, const LinkChange& change) {
  for (int stage = 1; stage < placement.stages(); ++stage) {
    for (int copy = 0; copy < placement.copies(); ++copy) {
      const std::pair ends(placement.rank_of(stage - 1, copy), placement.rank_of(stage, copy));
      if (ends == std::pair(change.one, change.other) ||
          ends == std::pair(change.other, change.one)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::vector<TimeChange> parse_time_changes(std::string_view text) {
  std::vector<TimeChange> changes;
  for (const std::string_view part : split(text, ',')) {
    const auto [where, factor] = assignment_of("--scale", part, time_forms);
    TimeChange change;
    change.factor = factor;
    const std::size_t at = where.find('@');
    std::string_view kind = where;
    std::string_view place;
    if (at != std::string_view::npos) {
      kind = where.substr(0, at);
      place = where.substr(at + 1);
    } else if (where.starts_with("stage") || where.starts_with("rank")) {
      std::swap(kind, place);
    }
    if (!kind.empty() || place.empty()) {
      change.kind = parse_kind(kind);
      if (!change.kind || !is_compute(*change.kind)) {
        refuse("--scale", part, fmt::format("{} is not F, I, W or B", quote(kind)), time_forms);
      }
    }
    if (place.starts_with("stage")) {
      change.stage = index_of(place.substr(5));
    } else if (place.starts_with("rank")) {
      change.rank = index_of(place.substr(4));
    }
    if (!place.empty() && !change.stage && !change.rank) {
      refuse("--scale", part, fmt::format("{} is neither a stage nor a rank", quote(place)),
             time_forms);
    }
    changes.push_back(change);
  }
  return changes;
}

std::vector<TimeChange> parse_slow_ranks(std::string_view text) {
  constexpr std::string_view forms =
      "give RANK:FACTOR, such as 3:1.2: rank 3 takes 1.2 times as long for all that it computes";
  std::vector<TimeChange> changes;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos) refuse("--slow-rank", part, "there is no ':'", forms);
    TimeChange change;
    change.flag = "--slow-rank";
    change.rank = index_of(part.substr(0, colon));
    const std::optional<double> factor = factor_of(part.substr(colon + 1));
    if (!change.rank) {
      refuse("--slow-rank", part, fmt::format("{} is not a rank", quote(part.substr(0, colon))),
             forms);
    }
    if (!factor) {
      refuse("--slow-rank", part,
             fmt::format("{} is not a factor from 0.01 to {}", quote(part.substr(colon + 1)),
                         max_slowdown),
             forms);
    }
    change.factor = *factor;
    changes.push_back(change);
  }
  return changes;
}

std::vector<LinkChange> parse_link_changes(std::string_view text) {
  std::vector<LinkChange> changes;
  for (const std::string_view part : split(text, ',')) {
    const auto [where, speed] = assignment_of("--link", part, link_forms);
    const std::size_t dash = where.find('-');
    const auto one = index_of(where.substr(0, dash));
    const auto other =
        dash == std::string_view::npos ? std::nullopt : index_of(where.substr(dash + 1));
    if (!one || !other) {
      refuse("--link", part, fmt::format("{} are not two ranks", quote(where)), link_forms);
    }
    changes.push_back({*one, *other, speed});
  }
  return changes;
}

void apply(const TimeChange& change, const Placement& placement, Costs& costs) {
  const auto check = [&](std::optional<int> index, int count, std::string_view what) {
    if (!index || *index < count) return;
    throw input_error(fmt::format("{}: there is no {} {}; there are {}, from 0 on", change.flag,
                                  what, *index, plural(count, what)));
  };
  check(change.stage, placement.stages(), "stage");
  check(change.rank, placement.ranks(), "rank");
  const int stages = placement.stages();
  // With one rank given, only one copy changes.
  if (change.rank && placement.copies() > 1 && std::ssize(costs.stages) == stages) {
    const std::vector<StageCosts> first = costs.stages;
    costs.stages.insert(costs.stages.end(), first.begin(), first.end());
  }
  for (int entry = 0; entry < std::ssize(costs.stages); ++entry) {
    const int stage = entry % stages;
    const int home = placement.rank_of(stage, entry / stages);
    if (change.stage.value_or(stage) != stage || change.rank.value_or(home) != home) continue;
    change_times(costs.stages[static_cast<std::size_t>(entry)], change);
  }
}

void apply(const LinkChange& change, const Placement& placement, Costs& costs) {
  if (change.one == change.other || !are_neighbours(placement, change)) {
    throw input_error(fmt::format(
        "--link: ranks {} and {} exchange no messages; name two that hold stages next to each "
        "other",
        change.one, change.other));
  }
  for (const auto& [from, to] :
       {std::pair(change.one, change.other), std::pair(change.other, change.one)}) {
    Link link = costs.link(from, to);
    link.latency_ns = std::llround(static_cast<double>(link.latency_ns) / change.speed);
    if (link.bytes_per_second) {
      const double rate = static_cast<double>(*link.bytes_per_second) * change.speed;
      link.bytes_per_second = std::clamp<std::int64_t>(std::llround(rate), 1, max_bytes_per_second);
    }
    costs.edges[{from, to}] = std::move(link);
  }
}

}  // namespace pipesim
