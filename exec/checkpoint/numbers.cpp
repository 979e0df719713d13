#include "exec/checkpoint/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

bool has_whole_rows(const Shard& shard) { return shard.row_size() == shard.width; }

// Visits the runs of those numbers within a window of the whole: (index in the whole, index among
// its own, count).
template <typename Visit>
void for_each_run(const Numbers& numbers, const Range& window, const Visit& visit) {
  const Shard& shard = numbers.shard;
  // `own` is a run of the shard's numbers, which begins at `in_whole`.
  const auto clip = [&](std::int64_t in_whole, const Range& own) {
    const Range mine = common(own, numbers.range);
    const std::int64_t shift = in_whole - own.begin;
    const Range seen = common({mine.begin + shift, mine.end + shift}, window);
    if (seen.size() == 0) return;
    visit(seen.begin, seen.begin - shift - numbers.range.begin, seen.size());
  };
  if (has_whole_rows(shard)) {
    clip(shard.rows.begin * shard.width, {0, shard.size()});
    return;
  }
  const std::int64_t row_size = shard.row_size();
  const Range held{shard.rows.begin + numbers.range.begin / row_size,
                   shard.rows.begin + (numbers.range.end + row_size - 1) / row_size};
  const Range rows =
      common(common(shard.rows, held),
             {window.begin / shard.width, (window.end + shard.width - 1) / shard.width});
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    std::int64_t own = (row - shard.rows.begin) * row_size;
    for (const Range& columns : shard.columns) {
      clip(row * shard.width + columns.begin, {own, own + columns.size()});
      own += columns.size();
    }
  }
}

constexpr Range everything{0, std::numeric_limits<std::int64_t>::max() / 2};

template <typename Put>
std::int64_t put_common(const Numbers& from, const float* source, const Numbers& to,
                        float* destination, const Put& put) {
  std::int64_t sum = 0;
  for_each_run(to, everything, [&](std::int64_t there, std::int64_t place, std::int64_t size) {
    for_each_run(from, {there, there + size},
                 [&](std::int64_t found, std::int64_t own, std::int64_t count) {
                   put(source + own, destination + place + (found - there), count);
                   sum += count;
                 });
  });
  return sum;
}

std::string text_of(const Range& range) { return fmt::format("{}:{}", range.begin, range.end); }

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  constexpr std::int64_t most = std::int64_t{1} << 50;
  if (value < 0 || value > most || text.front() == '-') return {};
  return value;
}

// A non-empty range.
std::optional<Range> range_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {};
  const auto begin = number_of(text.substr(0, colon));
  const auto end = number_of(text.substr(colon + 1));
  if (!begin || !end || *begin >= *end) return {};
  return Range{*begin, *end};
}

}  // namespace

Numbers Numbers::of(const Parameter& parameter, const Range& range) {
  Numbers numbers = all(parameter.whole_size);
  if (parameter.shard) numbers.shard = *parameter.shard;
  numbers.range = range;
  return numbers;
}

std::optional<Range> Numbers::in_whole() const {
  if (!has_whole_rows(shard)) return {};
  const std::int64_t begin = shard.rows.begin * shard.width;
  return Range{begin + range.begin, begin + range.end};
}

std::vector<Range> Numbers::runs_in_whole() const {
  std::vector<Range> runs;
  for_each_run(*this, everything, [&](std::int64_t at, std::int64_t /*own*/, std::int64_t count) {
    runs.push_back({at, at + count});
  });
  return runs;
}

std::string to_text(const Numbers& numbers) {
  if (const auto range = numbers.in_whole()) return fmt::format("[{}]", text_of(*range));
  std::string columns;
  for (const Range& range : numbers.shard.columns) {
    if (!columns.empty()) columns += ',';
    columns += text_of(range);
  }
  return fmt::format("[{};{};{};{}]", numbers.shard.width, text_of(numbers.shard.rows), columns,
                     text_of(numbers.range));
}

std::optional<Numbers> parse_numbers(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return {};
  const auto fields = split(text.substr(1, text.size() - 2), ';');
  if (fields.size() == 1) {
    const auto range = range_of(fields[0]);
    if (!range) return {};
    Numbers numbers = Numbers::all(range->end);
    numbers.range = *range;
    return numbers;
  }
  if (fields.size() != 4) return {};
  const auto width = number_of(fields[0]);
  const auto rows = range_of(fields[1]);
  const auto range = range_of(fields[3]);
  if (!width || !rows || !range) return {};
  Numbers numbers{{*width, *rows, {}}, *range};
  for (const std::string_view field : split(fields[2], ',')) {
    const auto columns = range_of(field);
    const std::int64_t least = numbers.shard.columns.empty() ? 0 : numbers.shard.columns.back().end;
    if (!columns || columns->begin < least || columns->end > *width) return {};
    numbers.shard.columns.push_back(*columns);
  }
  constexpr std::int64_t most = std::int64_t{1} << 50;
  if (*width > most / rows->end) return {};
  if (range->end > numbers.shard.size()) return {};
  return numbers;
}

std::int64_t copy_common(const Numbers& from, const float* source, const Numbers& to,
                         float* destination) {
  return put_common(from, source, to, destination,
                    [](const float* own, float* there, std::int64_t count) {
                      std::memcpy(there, own, static_cast<std::size_t>(count) * sizeof(float));
                    });
}

std::int64_t add_common(const Numbers& from, const float* source, const Numbers& to,
                        float* destination) {
  return put_common(from, source, to, destination,
                    [](const float* own, float* there, std::int64_t count) {
                      for (std::int64_t i = 0; i < count; ++i) there[i] += own[i];
                    });
}

}  // namespace pipesim::exec
