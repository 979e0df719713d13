#include "sim/report/event_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string_view>

#include "traces/base/text.h"
#include "traces/base/utf8.h"
#include "traces/flame/event_usage.h"
#include "traces/print/columns.h"
#include "traces/print/tables.h"

namespace pipesim {
namespace {

constexpr std::size_t max_names = 20;
constexpr std::size_t min_name = 24;  // bytes of a name, else columns before it are omitted

// At most `most` bytes: longer text loses its middle.
std::string shortened(const std::string& text, std::size_t most) {
  constexpr std::string_view gap = "...";
  if (text.size() <= most) return text;
  if (most <= gap.size()) return std::string(utf8_prefix(text, most));
  const std::size_t kept = most - gap.size();
  std::size_t tail = text.size() - kept / 2;
  while (tail < text.size() && (static_cast<unsigned char>(text[tail]) & 0xc0U) == 0x80U) ++tail;
  return std::string(utf8_prefix(text, kept - kept / 2)) + std::string(gap) + text.substr(tail);
}

std::string label_of(const std::string& name, std::size_t most) {
  return name.empty() ? "(no name)" : shortened(printable(name), most);
}

std::string percent(std::int64_t part_ns, std::int64_t whole_ns) {
  if (whole_ns == 0) return "-";
  return fmt::format("{:.1f}", 100 * static_cast<double>(part_ns) / static_cast<double>(whole_ns));
}

// Known ranks come in their order.
std::string rank_columns(const std::vector<const EventTrace*>& traces, std::size_t width) {
  std::vector<const EventTrace*> ordered = traces;
  std::ranges::stable_sort(ordered, {},
                           [](const EventTrace* trace) { return trace->rank.value_or(max_count); });
  std::vector<RankUsage> ranks;
  for (const EventTrace* trace : ordered) {
    for (RankUsage& rank : rank_usage(*trace)) {
      if (traces.size() > 1 && !trace->rank) {
        rank.name = std::filesystem::path(trace->name).filename().string() + " " + rank.name;
      }
      ranks.push_back(std::move(rank));
    }
  }
  if (ranks.empty()) return {};
  constexpr std::size_t widest_group = 30;  // of those below
  const std::size_t label = width > widest_group + 8 ? width - widest_group : 8;
  const TableUnit unit = table_unit(std::ranges::max(ranks, {}, &RankUsage::span_ns).span_ns);
  std::vector<std::string> labels{std::string(unit.name)};
  Column span{"span", {}};
  ColumnGroup busy{"", {{"busy", {}}, {"%", {}}}};
  ColumnGroup idle{"", {{"idle", {}}, {"%", {}}}};
  ColumnGroup communication{"communication", {{"all", {}}, {"hidden", {}}, {"exposed", {}}}};
  for (const RankUsage& rank : ranks) {
    labels.push_back(label_of(rank.name, label));
    span.cells.push_back(unit.text(rank.span_ns));
    busy.columns[0].cells.push_back(unit.text(rank.busy_ns));
    busy.columns[1].cells.push_back(percent(rank.busy_ns, rank.span_ns));
    idle.columns[0].cells.push_back(unit.text(rank.idle_ns()));
    idle.columns[1].cells.push_back(percent(rank.idle_ns(), rank.span_ns));
    communication.columns[0].cells.push_back(unit.text(rank.communication_ns()));
    communication.columns[1].cells.push_back(unit.text(rank.hidden_ns));
    communication.columns[2].cells.push_back(unit.text(rank.exposed_ns));
  }
  return table(labels, {{"", {span}}, busy, idle, communication}, width) + "\n";
}

// The times of one name in all traces.
struct NameSum {
  std::string_view name;
  std::int64_t count = 0, total_ns = 0, self_ns = 0;
};

std::vector<NameSum> sums_by_name(const std::vector<const EventTrace*>& traces) {
  std::vector<NameSum> sums;
  std::map<std::string_view, std::size_t> places;
  for (const EventTrace* trace : traces) {
    for (const NameTimes& times : name_times(*trace)) {
      const std::string_view name = trace->text(times.name);
      const auto [entry, fresh] = places.try_emplace(name, sums.size());
      if (fresh) sums.push_back({name});
      NameSum& sum = sums[entry->second];
      sum.count += times.count;
      sum.total_ns += times.total_ns;
      sum.self_ns += times.self_ns;
    }
  }
  std::ranges::stable_sort(sums, std::greater(), &NameSum::self_ns);
  return sums;
}

std::string name_columns(const std::vector<const EventTrace*>& traces, std::size_t width) {
  std::vector<NameSum> sums = sums_by_name(traces);
  if (sums.empty()) return {};
  const std::size_t all = sums.size();
  std::int64_t whole_ns = 0;
  for (const NameSum& sum : sums) whole_ns += sum.self_ns;
  if (all > max_names) sums.resize(max_names);
  const TableUnit unit = table_unit(std::ranges::max(sums, {}, &NameSum::total_ns).total_ns);
  std::vector<Column> columns{
      {fmt::format("self, {}", unit.name), {}}, {"total", {}}, {"count", {}}, {"self %", {}}};
  for (const NameSum& sum : sums) {
    columns[0].cells.push_back(unit.text(sum.self_ns));
    columns[1].cells.push_back(unit.text(sum.total_ns));
    columns[2].cells.push_back(format_count(sum.count));
    columns[3].cells.push_back(percent(sum.self_ns, whole_ns));
  }
  std::vector<std::size_t> widths;
  std::size_t used = 0;
  for (const Column& column : columns) {
    widths.push_back(column.name.size());
    for (const std::string& cell : column.cells) {
      widths.back() = std::max(widths.back(), cell.size());
    }
    used += widths.back() + 2;
  }
  while (columns.size() > 1 && used + min_name > width) {
    used -= widths.back() + 2;
    widths.pop_back();
    columns.pop_back();
  }
  const std::size_t room = width > used ? width - used : 1;
  std::string out;
  for (std::size_t row = 0; row <= sums.size(); ++row) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string& cell = row == 0 ? columns[i].name : columns[i].cells[row - 1];
      out += fmt::format("{:>{}}  ", cell, widths[i]);
    }
    out += (row == 0 ? "name" : label_of(std::string(sums[row - 1].name), room)) + "\n";
  }
  if (all > sums.size()) {
    out += fmt::format("and {} more\n", format_count(static_cast<std::int64_t>(all - sums.size())));
  }
  return out;
}

}  // namespace

std::int64_t length_ns(const EventTrace& events) {
  if (events.slices.empty()) return 0;
  const auto first = std::ranges::min_element(events.slices, {}, &Slice::start_ns);
  const auto last = std::ranges::max_element(events.slices, {}, &Slice::end_ns);
  return last->end_ns - first->start_ns;
}

std::string event_verdict(const std::vector<const EventTrace*>& traces) {
  std::int64_t slices = 0;
  std::int64_t tracks = 0;
  std::int64_t longest_ns = 0;
  for (const EventTrace* trace : traces) {
    slices += std::ssize(trace->slices);
    tracks += std::ssize(trace->tracks);
    longest_ns = std::max(longest_ns, length_ns(*trace));
  }
  return fmt::format("{} on {}, {}; no pipeline is known in {}.", plural(slices, "slice"),
                     plural(tracks, "track"), format_time(longest_ns),
                     traces.size() == 1 ? "it" : "them");
}

std::string event_report(const std::vector<const EventTrace*>& traces, const Terminal& terminal) {
  const auto width = static_cast<std::size_t>(std::max(terminal.width, 1));
  return bold(wrap(event_verdict(traces), terminal.width), terminal.colour) + "\n\n" +
         rank_columns(traces, width) + name_columns(traces, width);
}

}  // namespace pipesim
