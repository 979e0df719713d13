#include "traces/print/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "traces/print/terminal.h"

namespace pipesim {
namespace {

// Before a group; between its columns there is one blank.
constexpr std::size_t wide_gap = 2;
constexpr std::size_t narrow_gap = 1;

std::size_t width_of(const Column& column) {
  std::size_t width = column.name.size();
  for (const std::string& cell : column.cells) width = std::max(width, cell.size());
  return width;
}

std::size_t width_of(const ColumnGroup& group, std::size_t gap) {
  std::size_t width = gap - 1;
  for (const Column& column : group.columns) width += 1 + width_of(column);
  return std::max(width, group.title.empty() ? 0 : gap + group.title.size() + 4);
}

bool has_value(std::span<const ColumnGroup> groups, std::size_t row) {
  return std::ranges::any_of(groups, [&](const ColumnGroup& group) {
    return std::ranges::any_of(group.columns, [&](const Column& column) {
      return !column.cells[row].empty() && column.cells[row] != "-";
    });
  });
}

std::string title_of(const ColumnGroup& group, std::size_t gap) {
  const std::size_t inner = width_of(group, gap) - gap;
  if (group.title.empty()) return std::string(inner, ' ');
  return fmt::format("{:-^{}}", " " + group.title + " ", inner);
}

// Wrapped behind a margin that something else fills in the first line; below that, where little
// room is left.
std::string hanging(const std::string& text, std::size_t margin, std::size_t width) {
  constexpr std::size_t least = 30;
  constexpr std::size_t min_margin = 6;
  const bool is_beside = text.empty() || width >= margin + least;
  if (!is_beside) margin = min_margin;
  std::string wrapped = (is_beside ? "" : "\n") + wrap(text, static_cast<int>(width - margin));
  for (std::size_t at = 0; (at = wrapped.find('\n', at)) != std::string::npos; at += margin) {
    wrapped.insert(++at, margin, ' ');
  }
  return wrapped;
}

// Groups side by side.
std::string page(const std::vector<std::string>& labels, std::span<const ColumnGroup> groups,
                 std::size_t margin, std::size_t gap, const ProseColumn& prose, std::size_t width) {
  std::string titles(margin, ' ');
  std::vector<std::string> lines;
  for (const std::string& label : labels) lines.push_back(fmt::format("{:<{}}", label, margin));
  for (const ColumnGroup& group : groups) {
    titles += std::string(gap, ' ') + title_of(group, gap);
    // The first column gets the rest of a wide title.
    std::size_t wide = width_of(group, gap);
    for (const Column& column : group.columns) wide -= 1 + width_of(column);
    for (const Column& column : group.columns) {
      wide += 1 + width_of(column);
      const auto put = [&](std::string& line, const std::string& cell) {
        const std::size_t own = column.to_the_left ? width_of(column) : cell.size();
        line += fmt::format("{:>{}}", fmt::format("{:<{}}", cell, own), wide);
      };
      put(lines[0], column.name);
      for (std::size_t row = 0; row < column.cells.size(); ++row) {
        put(lines[row + 1], column.cells[row]);
      }
      wide = 0;
    }
  }
  std::string out;
  const auto trimmed = [](std::string line) {
    line.resize(line.find_last_not_of(' ') + 1);
    return line;
  };
  const auto add = [&](const std::string& line) {
    if (const std::string own = trimmed(line); !own.empty()) out += own + "\n";
  };
  add(titles);
  if (prose.cells.empty()) {
    add(lines[0]);
    for (std::size_t row = 0; row + 1 < lines.size(); ++row) {
      if (has_value(groups, row)) add(lines[row + 1]);
    }
    return out;
  }
  const std::string between(wide_gap, ' ');
  add(lines[0] + between + prose.name);
  for (std::size_t row = 0; row + 1 < lines.size(); ++row) {
    if (!has_value(groups, row) && prose.cells[row].empty()) continue;
    const std::string& line = lines[row + 1];
    const std::string own = hanging(prose.cells[row], line.size() + wide_gap, width);
    add(own.starts_with('\n') ? trimmed(line) + own : line + between + own);
  }
  return out;
}

}  // namespace

std::string table(const std::vector<std::string>& labels, const std::vector<ColumnGroup>& groups,
                  std::size_t width, const ProseColumn& prose) {
  std::size_t margin = labels.front().size();
  for (std::size_t row = 0; row + 1 < labels.size(); ++row) {
    if (!prose.cells.empty() || has_value(groups, row))
      margin = std::max(margin, labels[row + 1].size());
  }
  const auto width_with = [&](std::size_t gap) {
    std::size_t used = margin;
    for (const ColumnGroup& group : groups) used += width_of(group, gap);
    return used;
  };
  const bool fits_narrow = width_with(wide_gap) > width && width_with(narrow_gap) <= width;
  const std::size_t gap = fits_narrow ? narrow_gap : wide_gap;
  std::string out;
  for (std::size_t first = 0; first < groups.size();) {
    std::size_t last = first;
    for (std::size_t used = margin; last < groups.size(); ++last) {
      used += width_of(groups[last], gap);
      if (last > first && used > width) break;
    }
    out += (out.empty() ? "" : "\n") + page(labels, std::span(groups).subspan(first, last - first),
                                            margin, gap,
                                            last == groups.size() ? prose : ProseColumn{}, width);
    first = last;
  }
  return out;
}

}  // namespace pipesim
