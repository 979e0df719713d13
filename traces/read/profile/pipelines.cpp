#include "traces/read/profile/pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/read/profile/ranks.h"

namespace pipesim {
namespace {

using Ranks = std::vector<int>;

void check_one_job(const std::vector<ProfileFile>& files) {
  const ProfileFile* telling = nullptr;
  for (const ProfileFile& file : files) {
    if (file.world_size == 0) continue;
    if (telling == nullptr) telling = &file;
    if (file.world_size == telling->world_size) continue;
    throw input_error(fmt::format(
        "{} and {}: the one's job had {}, the other's {}; give files "
        "of one job",
        telling->path, file.path, plural(telling->world_size, "rank"), file.world_size));
  }
}

// Each file by its rank; nothing if one has no rank.
std::optional<std::map<int, std::size_t>> places_by_rank(const std::vector<ProfileFile>& files,
                                                         const ProfileOptions& options) {
  std::map<int, std::size_t> places;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto rank = rank_of(files[i]);
    if (!rank && !options.ranks.empty()) {
      throw input_error(
          fmt::format("--ranks: {} does not say which rank it is from; put it into its name, as "
                      "trace.rank3.json",
                      files[i].path));
    }
    if (!rank) return std::nullopt;
    const auto [entry, fresh] = places.emplace(*rank, i);
    if (fresh) continue;
    throw input_error(fmt::format("{} and {}: both are from rank {}; give one for each rank",
                                  files[entry->second].path, files[i].path, *rank));
  }
  return places;
}

// The process groups of pipelines; none unless all files describe theirs.
std::set<Ranks> pipelines_by_groups(const std::vector<ProfileFile>& files,
                                    const std::map<int, std::size_t>& places) {
  std::set<Ranks> pipelines;
  for (const auto& [rank, place] : places) {
    const Ranks& own = files[place].pipeline;
    if (std::ranges::find(own, rank) == own.end()) return {};
    for (const int other : own) {
      const auto there = places.find(other);
      if (there == places.end() || files[there->second].pipeline == own) continue;
      if (files[there->second].pipeline.empty()) return {};
      throw input_error(fmt::format(
          "{} and {}: the first one's pipeline has the ranks {}, the other's {}; give files of one "
          "job",
          files[place].path, files[there->second].path, list_of(own),
          list_of(files[there->second].pipeline)));
    }
    pipelines.insert(own);
  }
  return pipelines;
}

// Ranks that exchange messages, directly or via others; none unless all exchange some. A pipeline's
// order is that of its ranks.
std::set<Ranks> pipelines_by_messages(const std::vector<ProfileFile>& files,
                                      const std::map<int, std::size_t>& places) {
  std::map<int, std::set<int>> neighbours;
  for (const auto& [rank, place] : places) {
    if (files[place].peers.empty()) return {};
    for (const int peer : files[place].peers) {
      neighbours[rank].insert(peer);
      neighbours[peer].insert(rank);
    }
  }
  std::set<Ranks> pipelines;
  std::set<int> known;
  for (const auto& [first, unused] : neighbours) {
    if (known.contains(first)) continue;
    std::set<int> reached{first};
    for (std::vector<int> next{first}; !next.empty();) {
      const int rank = next.back();
      next.pop_back();
      for (const int peer : neighbours[rank]) {
        if (reached.insert(peer).second) next.push_back(peer);
      }
    }
    known.insert(reached.begin(), reached.end());
    pipelines.emplace(reached.begin(), reached.end());
  }
  return pipelines;
}

PipelineChoice choice_of(const Ranks& ranks, const std::map<int, std::size_t>& places) {
  PipelineChoice choice;
  for (const int rank : ranks) choice.files.push_back(places.at(rank));
  return choice;
}

std::string of_job(const std::vector<ProfileFile>& files) {
  int world_size = 0;
  for (const ProfileFile& file : files) world_size = std::max(world_size, file.world_size);
  return world_size == 0 ? "the job" : fmt::format("the job's {}", world_size);
}

// Whether these are all of a job's ranks, in their order.
bool is_whole_job(const Ranks& ranks, const std::vector<ProfileFile>& files) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] != static_cast<int>(i)) return false;
  }
  return std::ranges::all_of(files, [&](const ProfileFile& file) {
    return file.world_size == 0 || file.world_size == static_cast<int>(ranks.size());
  });
}

PipelineChoice as_given(const Ranks& ranks, const std::vector<ProfileFile>& files,
                        const std::map<int, std::size_t>& places) {
  Ranks there;
  for (const auto& [rank, unused] : places) there.push_back(rank);
  std::set<int> named;
  for (const int rank : ranks) {
    if (!named.insert(rank).second) {
      throw input_error(fmt::format("--ranks: {} is given twice; name each rank once", rank));
    }
    if (!places.contains(rank)) {
      throw input_error(fmt::format("--ranks: no file is from rank {}; the files are from {} {}",
                                    rank, there.size() == 1 ? "rank" : "ranks", list_of(there)));
    }
  }
  PipelineChoice choice = choice_of(ranks, places);
  if (!is_whole_job(ranks, files)) {
    choice.said = fmt::format("ranks {} of {} are the pipeline, as --ranks says", list_of(ranks),
                              of_job(files));
  }
  return choice;
}

// One of the complete ones.
PipelineChoice one_of(const std::set<Ranks>& known, const std::vector<ProfileFile>& files,
                      const std::map<int, std::size_t>& places, const std::optional<int>& replica) {
  std::vector<Ranks> whole;
  Ranks apart;  // of incomplete pipelines
  for (const Ranks& ranks : known) {
    const auto is_there = [&](int rank) { return places.contains(rank); };
    if (std::ranges::all_of(ranks, is_there)) {
      whole.push_back(ranks);
    } else {
      std::ranges::copy_if(ranks, std::back_inserter(apart), is_there);
    }
  }
  if (whole.empty()) {
    const Ranks& ranks = *known.begin();
    const auto missing =
        std::ranges::find_if(ranks, [&](int rank) { return !places.contains(rank); });
    throw input_error(fmt::format(
        "{}: its pipeline has the ranks {}, and no file is from rank {}; give the files of all "
        "ranks of a pipeline",
        files[places.at(apart.front())].path, list_of(ranks), *missing));
  }
  const auto count = static_cast<int>(whole.size());
  if (replica && count == 1) {
    throw input_error(
        fmt::format("--replica: the files hold one pipeline, of the ranks {}; omit it",
                    list_of(whole.front())));
  }
  if (replica && *replica > count) {
    std::string names;
    for (int i = 0; i < std::min(count, 8); ++i) {
      names += fmt::format("{}{} of the ranks {}", i == 0 ? "" : "; ", i + 1,
                           list_of(whole[static_cast<std::size_t>(i)]));
    }
    throw input_error(fmt::format("--replica: the files hold {} pipelines, and {} is none: {}{}",
                                  count, *replica, names, count > 8 ? "; ..." : ""));
  }
  const int number = replica.value_or(1);
  const Ranks& chosen = whole[static_cast<std::size_t>(number - 1)];
  PipelineChoice choice = choice_of(chosen, places);
  if (count > 1) {
    choice.said = said_of_pipeline(number, count, list_of(chosen));
  } else if (!is_whole_job(chosen, files)) {
    choice.said = fmt::format("ranks {} of {} are its pipeline", list_of(chosen), of_job(files));
  }
  if (!apart.empty()) {
    choice.said +=
        fmt::format("; left out: ranks {}, whose pipelines are incomplete", list_of(apart));
  }
  return choice;
}

}  // namespace

bool names_pipeline(std::string_view description) {
  constexpr std::array<std::string_view, 3> own{"pp", "pipe", "pipeline"};
  constexpr std::array<std::string_view, 14> others{
      "tp",   "dp",     "ep",   "cp",     "sp",      "ddp",      "fsdp",
      "hsdp", "tensor", "data", "expert", "context", "sequence", "embedding"};
  bool found = false;
  std::string word;
  for (std::size_t i = 0; i <= description.size(); ++i) {
    const auto letter = i < description.size() ? static_cast<unsigned char>(description[i]) : 0U;
    if (std::isalpha(static_cast<int>(letter)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<int>(letter)));
      continue;
    }
    found = found || std::ranges::find(own, word) != own.end();
    if (std::ranges::find(others, word) != others.end()) return false;
    word.clear();
  }
  return found;
}

std::optional<PipelineChoice> choose_pipeline(const std::vector<ProfileFile>& files,
                                              const ProfileOptions& options) {
  if (files.size() < 2) {
    if (options.ranks.empty() && !options.replica) return std::nullopt;
    throw input_error(
        fmt::format("{} says which of several files are a pipeline's, and one is given; omit it",
                    options.replica ? "--replica" : "--ranks"));
  }
  check_one_job(files);
  const auto places = places_by_rank(files, options);
  if (!places) return std::nullopt;
  if (!options.ranks.empty()) return as_given(options.ranks, files, *places);
  std::set<Ranks> pipelines = pipelines_by_groups(files, *places);
  if (pipelines.empty()) pipelines = pipelines_by_messages(files, *places);
  if (pipelines.empty()) return std::nullopt;
  return one_of(pipelines, files, *places, options.replica);
}

}  // namespace pipesim
