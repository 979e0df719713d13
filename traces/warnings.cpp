#include "traces/warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/base/text.h"

namespace pipesim {

void Warnings::add(std::string_view what, std::string_view place, std::int64_t count) {
  constexpr std::size_t max_kinds = 100;
  auto known = std::ranges::find(kinds_, what, &Kind::what);
  if (known == kinds_.end() && kinds_.size() >= max_kinds) {
    what = "other oddities";
    known = std::ranges::find(kinds_, what, &Kind::what);
  }
  if (known != kinds_.end()) {
    known->count += count;
  } else {
    kinds_.push_back({std::string(what), std::string(place), count});
  }
}

void Warnings::add(const Warnings& others) {
  for (const Kind& kind : others.kinds_) add(kind.what, kind.first_place, kind.count);
}

std::string Warnings::text() const {
  std::string text;
  for (const Kind& kind : kinds_) {
    text += fmt::format("{}: {}", kind.first_place, kind.what);
    if (kind.count > 1) text += fmt::format(" ({} in all)", format_count(kind.count));
    text += '\n';
  }
  return text;
}

}  // namespace pipesim
