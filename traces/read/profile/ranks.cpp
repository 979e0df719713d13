#include "traces/read/profile/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using Says = RangeName::Says;

// The number after "rank" in a name: "rank-0.Apr_03.json", "trace_rank12.json",
// "python [Rank 3]". The last if there are several.
std::optional<int> rank_in_name(std::string_view name) {
  std::optional<int> rank;
  for (std::size_t at = 0; at + 4 < name.size(); ++at) {
    const auto same = [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    };
    const std::string_view word = "rank";
    if (!std::equal(word.begin(), word.end(), name.begin() + static_cast<std::ptrdiff_t>(at),
                    [&](char b, char a) { return same(a, b); })) {
      continue;
    }
    std::size_t digits = at + 4;
    while (digits < name.size() &&
           std::string_view("-_ =:#").find(name[digits]) != std::string_view::npos) {
      ++digits;
    }
    int value = 0;
    const auto [end, fault] =
        std::from_chars(name.data() + digits, name.data() + name.size(), value);
    if (fault == std::errc() && value >= 0 && value <= max_count) rank = value;
  }
  return rank;
}

std::optional<int> rank_of(const ProfileProcess& process, const ProfileFile& file, bool alone) {
  if (const auto rank = alone ? rank_of(file) : std::nullopt) return rank;
  return rank_in_name(process.process_name);
}

int smallest_stage(const ProfileProcess& process) {
  int smallest = -1;
  for (const ProfileOperation& operation : process.operations) {
    if (operation.says != Says::action || is_transfer(operation.action.kind)) continue;
    if (smallest < 0 || operation.action.stage < smallest) smallest = operation.action.stage;
  }
  return smallest;
}

}  // namespace

std::optional<int> rank_of(const ProfileFile& file) {
  if (file.rank) return file.rank;
  return rank_in_name(std::filesystem::path(file.path).filename().string());
}

std::string list_of(const std::vector<int>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size() && i < 8; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", values[i]);
  }
  return values.size() > 8 ? text + ", ..." : text;
}

void order_by_rank(std::vector<ProfileProcess>& processes, const std::vector<ProfileFile>& files,
                   Warnings& warnings) {
  std::map<std::size_t, int> of_file;
  for (const ProfileProcess& process : processes) ++of_file[process.file];
  std::vector<std::pair<int, std::size_t>> order;
  bool all_known = true;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const bool alone = of_file[processes[i].file] == 1;
    const auto rank = rank_of(processes[i], files[processes[i].file], alone);
    all_known = all_known && rank.has_value();
    order.emplace_back(rank.value_or(-1), i);
  }
  if (!all_known) {
    if (processes.size() > 1) {
      warnings.add(
          "neither the files nor their names tell all ranks: they are in the order of "
          "their stages",
          files[processes.front().file].path);
    }
    for (auto& [rank, i] : order) rank = smallest_stage(processes[i]);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t i = 1; all_known && i < order.size(); ++i) {
    if (order[i].first != order[i - 1].first) continue;
    throw input_error(fmt::format("{} and {}: both are from rank {}; give one for each rank",
                                  processes[order[i - 1].second].name,
                                  processes[order[i].second].name, order[i].first));
  }
  if (all_known && order.back().first != static_cast<int>(order.size()) - 1) {
    std::vector<int> ranks;
    for (const auto& entry : order) ranks.push_back(entry.first);
    warnings.add(
        fmt::format("ranks {} of the job are taken as the pipeline's, from 0 on", list_of(ranks)),
        processes[order.front().second].name);
  }
  std::vector<ProfileProcess> sorted;
  sorted.reserve(order.size());
  for (const auto& entry : order) sorted.push_back(std::move(processes[entry.second]));
  processes = std::move(sorted);

  int world_size = 0;
  for (const ProfileFile& file : files) world_size = std::max(world_size, file.world_size);
  if (world_size > static_cast<int>(processes.size())) {
    warnings.add(
        fmt::format("the job had {} ranks, of which {} given", world_size,
                    processes.size() == 1 ? "1 is" : fmt::format("{} are", processes.size())),
        processes.front().name);
  }
}

namespace {

// Stages that ran here, and those that only appear as the other end.
struct Stages {
  std::map<int, std::size_t> rank_of;  // by the index of its process
  int largest = -1;
};

void see(Stages& stages, const std::vector<ProfileProcess>& processes, std::size_t rank,
         const Action& action) {
  stages.largest = std::max(stages.largest, action.stage);
  if (is_transfer(action.kind)) stages.largest = std::max(stages.largest, peer_of(action).stage);
  const auto [entry, fresh] = stages.rank_of.try_emplace(action.stage, rank);
  if (fresh || entry->second == rank) return;
  const bool apart = processes[entry->second].file != processes[rank].file;
  throw input_error(fmt::format(
      "{} and {}: stage {} ran in both, as of two replicas or of one rank twice; give the files "
      "of one pipeline{}",
      processes[entry->second].name, processes[rank].name, action.stage,
      apart ? ", or name its ranks by --ranks" : ""));
}

}  // namespace

std::vector<int> place_stages(std::vector<ProfileProcess>& processes,
                              const std::vector<ProfileFile>& files) {
  Stages stages;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    for (ProfileOperation& operation : processes[rank].operations) {
      if (operation.says == Says::microbatch) operation.action.stage = static_cast<int>(rank);
      if (operation.says == Says::optimizer) continue;
      see(stages, processes, rank, operation.action);
      if (operation.action.joined) see(stages, processes, rank, operation.partner);
    }
  }
  std::vector<int> missing;
  std::vector<int> rank_of_stage;
  for (int stage = 0; stage <= stages.largest && missing.size() < 9; ++stage) {
    const auto entry = stages.rank_of.find(stage);
    if (entry == stages.rank_of.end()) {
      missing.push_back(stage);
    } else {
      rank_of_stage.push_back(static_cast<int>(entry->second));
    }
  }
  const auto refuse = [&](const ProfileProcess& process, const std::string& what) {
    const auto given = static_cast<int>(processes.size());
    throw input_error(fmt::format(
        "{}: {}: files of some ranks are not given ({} of {} here), or their kernels were lost; "
        "give the files of all ranks of the pipeline",
        process.name, what, given, std::max(given, files[process.file].world_size)));
  };
  if (!missing.empty()) {
    refuse(processes.front(),
           fmt::format("nothing here is from {} {}", missing.size() == 1 ? "stage" : "stages",
                       list_of(missing)));
  }
  for (const ProfileProcess& process : processes) {
    for (const ProfileOperation& operation : process.operations) {
      if (operation.says == Says::optimizer || !is_transfer(operation.action.kind)) continue;
      const int peer = peer_of(operation.action).stage;
      if (peer < 0 || peer > stages.largest) {
        refuse(process, fmt::format("nothing here is from the stage at the other end of {}",
                                    to_text(operation.action)));
      }
    }
  }
  std::vector<int> first_stage(processes.size(), stages.largest + 1);
  for (int stage = stages.largest; stage >= 0; --stage) {
    const int rank = rank_of_stage[static_cast<std::size_t>(stage)];
    first_stage[static_cast<std::size_t>(rank)] = stage;
  }
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    for (ProfileOperation& operation : processes[rank].operations) {
      if (operation.says == Says::optimizer) operation.action.stage = first_stage[rank];
    }
  }
  return rank_of_stage;
}

}  // namespace pipesim
