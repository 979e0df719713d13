#include "traces/print/layout_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim {
namespace {

using Range = LayoutGrid::Range;

// All of them, or if more than `most` the first, the omitted ones, and the last.
std::vector<Range> ranges(int count, int most) {
  std::vector<Range> all;
  if (count <= most) {
    for (int i = 0; i < count; ++i) all.push_back({i, i});
    return all;
  }
  const int shown = std::max(most - 1, 1);  // besides the omitted range
  const int before = (shown + 1) / 2;
  const int after = shown - before;
  for (int i = 0; i < before; ++i) all.push_back({i, i});
  all.push_back({before, count - after - 1});
  for (int i = count - after; i < count; ++i) all.push_back({i, i});
  return all;
}

// "rank 3", "ranks 3-5".
std::string numbered(std::string_view what, std::int64_t first, std::int64_t last) {
  if (first == last) return fmt::format("{} {}", what, first);
  return fmt::format("{}s {}-{}", what, first, last);
}

// "12.6 M".
std::string short_count(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e12) return fmt::format("{:.1f} T", value / 1e12);
  if (value >= 1e9) return fmt::format("{:.1f} B", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f} M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.0f} K", value / 1e3);
  return fmt::format("{}", count);
}

std::string state_words(const LaidStage& stage) {
  std::string text;
  if (stage.parameters) text = short_count(*stage.parameters) + " parameters";
  if (stage.weight_bytes > 0) {
    text += (text.empty() ? "weights " : ", ") + format_bytes(stage.weight_bytes);
  }
  return text;
}

// The common value, or the range from least to most.
template <typename Value, typename Format>
std::string between(Value least, Value most, Format format) {
  return least == most ? format(least) : format(least) + " - " + format(most);
}

// Of omitted stages.
std::vector<std::string> summary(const PipelineLayout& layout, std::vector<int> stages) {
  std::ranges::sort(stages);
  const auto stage = [&](int s) -> const LaidStage& {
    return layout.stages[static_cast<std::size_t>(s)];
  };
  const auto count = static_cast<int>(stages.size());
  const bool is_run = stages.back() - stages.front() + 1 == count;
  std::vector<std::string> lines{is_run ? numbered("stage", stages.front(), stages.back())
                                        : plural(count, "stage")};
  const auto [fewest, most] =
      std::ranges::minmax(stages, {}, [&](int s) { return stage(s).layers.value_or(0); });
  if (stage(fewest).layers) {
    const int least = *stage(fewest).layers;
    lines.push_back(fmt::format("{}{} each",
                                least == *stage(most).layers ? "" : fmt::format("{}-", least),
                                plural(*stage(most).layers, "layer")));
  }
  const auto [smallest, largest] =
      std::ranges::minmax(stages, {}, [&](int s) { return stage(s).parameters.value_or(0); });
  if (stage(smallest).parameters) {
    lines.push_back(between(*stage(smallest).parameters, *stage(largest).parameters, short_count) +
                    " parameters");
  }
  const auto [lightest, heaviest] =
      std::ranges::minmax(stages, {}, [&](int s) { return stage(s).weight_bytes; });
  if (stage(heaviest).weight_bytes > 0) {
    const std::string bytes =
        between(stage(lightest).weight_bytes, stage(heaviest).weight_bytes, format_bytes);
    if (stage(smallest).parameters) {
      lines.back() += ", " + bytes;
    } else {
      lines.push_back("weights " + bytes);
    }
  }
  return lines;
}

// "0, 2, 4, 6", "0, 2, ..., 30".
std::string listed(const RankGroup& group) {
  if (group.count > 4) return fmt::format("{}, {}, ..., {}", group[0], group[1], group.last());
  std::string text;
  for (std::int64_t i = 0; i < group.count; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", group[i]);
  }
  return text;
}

// Where a block's routed experts are; empty if each device has a part of all, as of other layers.
std::string expert_words(const PipelineLayout& layout) {
  if (layout.experts == 0) return {};
  const MeshSizes& sizes = layout.expert_sizes;
  const Mesh mesh(sizes);
  std::string text;
  if (sizes.expert > 1) {
    const RankGroup group = mesh.group_of(0, Axis::expert);
    const std::int64_t own = layout.experts / sizes.expert;
    text = fmt::format("{} devices share out the {} experts of a block: device", sizes.expert,
                       layout.experts);
    for (std::int64_t i = 0; i < group.count; ++i) {
      if (i == 2 && group.count > 4) {
        text += ", ...";
        i = group.count - 1;
      }
      text += fmt::format("{} {} has {}", i == 0 ? "" : ",", group[i], i * own);
      if (own > 1) text += fmt::format("-{}", (i + 1) * own - 1);
    }
  } else if (sizes.tensor != layout.sizes.tensor) {
    text = fmt::format("each device has {} {} experts of a block",
                       sizes.tensor > 1 ? "a part of all" : "all", layout.experts);
  }
  if (text.empty()) return text;
  if (sizes.tensor > 1) {
    text += fmt::format("; {} devices have a part of each, as {}", sizes.tensor,
                        listed(mesh.group_of(0, Axis::tensor)));
  }
  return text + (sizes.data == 1 ? "; no other device has the same" : "");
}

// "1.2 GiB on rank 0, 1.1 GiB on ranks 1-6"; the range if there are too many runs for a sentence.
std::string by_rank(const std::vector<std::int64_t>& bytes) {
  constexpr int max_runs = 4;
  std::string text;
  int runs = 0;
  for (std::size_t i = 0; i < bytes.size(); ++runs) {
    std::size_t end = i + 1;
    while (end < bytes.size() && format_bytes(bytes[end]) == format_bytes(bytes[i])) ++end;
    text += (runs == 0 ? "" : ", ") + format_bytes(bytes[i]);
    if (end - i < bytes.size()) {
      text += " on " + numbered("rank", static_cast<int>(i), static_cast<int>(end) - 1);
    }
    i = end;
  }
  if (runs <= max_runs) return text;
  const auto [least, most] = std::ranges::minmax(bytes);
  return fmt::format("{} to {}, by rank", format_bytes(least), format_bytes(most));
}

}  // namespace

LayoutGrid::LayoutGrid(const PipelineLayout& layout, int max_ranks, int max_chunks)
    : layout_(layout),
      stages_of_rank_(static_cast<std::size_t>(layout.sizes.pipeline)),
      bytes_from_(layout.stages.size()) {
  for (std::size_t s = 0; s < layout.stages.size(); ++s) {
    std::vector<int>& own = stages_of_rank_[static_cast<std::size_t>(layout.stages[s].rank)];
    chunk_of_stage_.push_back(static_cast<int>(own.size()));
    own.push_back(static_cast<int>(s));
    chunks_ = std::max(chunks_, static_cast<int>(own.size()));
  }
  for (const StageMessage& message : layout.messages) {
    bytes_from_[static_cast<std::size_t>(message.from_stage)] = message.bytes;
  }
  rows_ = ranges(static_cast<int>(layout.sizes.pipeline), max_ranks);
  columns_ = ranges(chunks_, max_chunks);
}

int LayoutGrid::stage_at(int rank, int chunk) const {
  if (rank < 0 || rank >= static_cast<int>(stages_of_rank_.size())) return -1;
  const std::vector<int>& own = stages_of_rank_[static_cast<std::size_t>(rank)];
  return chunk < static_cast<int>(own.size()) ? own[static_cast<std::size_t>(chunk)] : -1;
}

LayoutGrid::Direction LayoutGrid::direction_from(int stage) const {
  const auto at = static_cast<std::size_t>(stage);
  if (at + 1 >= layout_.stages.size()) return Direction::end;
  const int step = layout_.stages[at + 1].rank - layout_.stages[at].rank;
  if (step == 0) return Direction::beside;
  const bool is_straight = chunk_of(stage) == chunk_of(stage + 1);
  if (is_straight && step == 1) return Direction::down;
  if (is_straight && step == -1) return Direction::up;
  return Direction::far;
}

std::int64_t LayoutGrid::bytes_from(int stage) const {
  return bytes_from_[static_cast<std::size_t>(stage)];
}

std::vector<std::string> LayoutGrid::label(const Range& ranks) const {
  std::vector<std::string> lines{numbered("rank", ranks.first, ranks.last)};
  const Mesh mesh(layout_.sizes);
  if (!ranks.is_one()) {
    lines.push_back(fmt::format("{} more", ranks.count()));
  } else if (mesh.ranks() > layout_.sizes.pipeline) {
    const std::int64_t first = mesh.rank_at({.pipeline = ranks.first});
    lines.push_back(numbered("device", first, first + mesh.stride(Axis::data) - 1));
  }
  return lines;
}

std::vector<std::string> LayoutGrid::words(const Range& ranks, const Range& chunks) const {
  std::vector<int> stages;
  for (int rank = ranks.first; rank <= ranks.last; ++rank) {
    for (int chunk = chunks.first; chunk <= chunks.last; ++chunk) {
      if (const int stage = stage_at(rank, chunk); stage >= 0) stages.push_back(stage);
    }
  }
  if (stages.empty()) return {};
  if (!ranks.is_one() || !chunks.is_one()) return summary(layout_, std::move(stages));
  const LaidStage& stage = layout_.stages[static_cast<std::size_t>(stages.front())];
  std::vector<std::string> lines{fmt::format("stage {}", stages.front())};
  if (!stage.layer_names.empty()) lines.push_back(printable(stage.layer_names));
  if (const std::string states = state_words(stage); !states.empty()) lines.push_back(states);
  if (layout_.tied && stages.front() == 0) {
    lines.push_back(fmt::format("tied to rank {}", layout_.tied->last_rank));
  }
  if (layout_.tied && stages.front() + 1 == std::ssize(layout_.stages)) {
    lines.push_back(fmt::format("tied to rank {}", layout_.tied->first_rank));
  }
  return lines;
}

std::vector<std::string> fitted(const std::vector<std::string>& words, int letters) {
  const auto most = static_cast<std::size_t>(std::max(letters, 1));
  std::vector<std::string> lines;
  for (const std::string& line : words) {
    std::string now;
    const auto end_line = [&] {
      if (now.empty()) return;
      const std::string wrapped = wrap(now, static_cast<int>(most));
      for (const std::string_view part : split(wrapped, '\n')) lines.emplace_back(part);
      now.clear();
    };
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t comma = line.find(", ", at);
      const std::size_t end = comma == std::string::npos ? line.size() : comma + 1;
      const std::string part = line.substr(at, end - at);
      if (!now.empty() && now.size() + 1 + part.size() > most) end_line();
      now += (now.empty() ? "" : " ") + part;
      at = comma == std::string::npos ? line.size() : comma + 2;
    }
    end_line();
  }
  return lines;
}

std::string layout_heading(const PipelineLayout& layout) {
  std::string text = layout.model.empty() ? "" : printable(layout.model) + ", ";
  const LayoutGrid grid(layout, 1, 1);
  text += fmt::format("{}: {}", layout.schedule, plural(layout.sizes.pipeline, "rank"));
  if (grid.chunks() > 1) text += fmt::format(" x {} chunks", grid.chunks());
  text += ", " + plural(layout.microbatches, "microbatch");
  const std::int64_t devices = layout.sizes.tensor * layout.sizes.context * layout.sizes.pipeline;
  if (layout.sizes.data > 1) {
    text += fmt::format("; {} replicas of {}", layout.sizes.data, plural(devices, "device"));
  } else if (devices > layout.sizes.pipeline) {
    text += fmt::format("; {} devices", devices);
  }
  return text;
}

std::vector<LayoutNote> layout_notes(const PipelineLayout& layout, const LayoutGrid& grid) {
  std::vector<LayoutNote> notes;
  const auto add = [&](std::string about, std::string text) {
    notes.push_back({std::move(about), std::move(text)});
  };
  const Mesh mesh(layout.sizes);
  const std::int64_t tensor = layout.sizes.tensor;
  const std::int64_t each = mesh.stride(Axis::data);  // devices of a rank in a replica
  if (!layout.messages.empty()) {
    const bool has_bytes = std::ranges::any_of(
        layout.messages, [](const StageMessage& message) { return message.bytes > 0; });
    add("messages", fmt::format("F activations, B their gradients{}{}",
                                has_bytes ? "; bytes per microbatch" : "",
                                has_bytes && each > 1 ? ", from each device" : ""));
  }
  bool stays = false;
  for (int s = 0; s < static_cast<int>(layout.stages.size()); ++s) {
    stays = stays || grid.direction_from(s) == LayoutGrid::Direction::beside;
  }
  if (stays) add("", "stages of one rank send nothing to each other");
  if (mesh.ranks() > layout.sizes.pipeline && layout.stages.front().parameters) {
    add("boxes", "parameters each device computes with, bytes of weights it keeps");
  }
  if (tensor > 1) {
    const bool has_others = layout.experts > 0 && layout.expert_sizes.tensor != tensor;
    add("tensor", fmt::format("{} devices have a part of each layer of their rank{}", tensor,
                              has_others ? ", except routed experts" : ""));
  }
  if (layout.sizes.context > 1) {
    add("context", fmt::format("{} devices have a part of each sequence, as {}",
                               layout.sizes.context, listed(mesh.group_of(0, Axis::context))));
  }
  if (const std::string text = expert_words(layout); !text.empty()) add("experts", text);
  if (layout.tied) {
    const TiedExchange& tied = *layout.tied;
    add("tied", fmt::format("ranks {} and {} sum the gradients of the matrix that both have: {} "
                            "each way per iteration",
                            tied.first_rank, tied.last_rank, format_bytes(tied.bytes)));
  }
  if (layout.sizes.data > 1) {
    std::string devices;
    constexpr std::int64_t most = 4;
    const std::int64_t data = layout.sizes.data;
    for (std::int64_t d = 0; d < data; ++d) {
      if (data > most && d == 2) {
        devices += ", ...";
        d = data - 1;
      }
      const std::int64_t first = mesh.rank_at({.data = d});
      devices += fmt::format("{}{}", d == 0 ? "" : ", ", first);
      if (each > 1) devices += fmt::format("-{}", first + each - 1);
    }
    add("replicas", fmt::format("{}; rank 0 is devices {}", data, devices));
  }
  for (const ReplicaExchange& exchange : layout.replicas) {
    add(exchange.what,
        exchange.group.count > 1
            ? fmt::format("{}{} over {} devices, as {}; each sends {} per iteration",
                          exchange.of.empty() ? "" : "of " + exchange.of + ": ", exchange.how,
                          exchange.group.count, listed(exchange.group), by_rank(exchange.bytes))
            : fmt::format("{} over replicas; each device sends {} per iteration", exchange.how,
                          by_rank(exchange.bytes)));
  }
  return notes;
}

}  // namespace pipesim
