// Trainings that are struck at any step of a save, of pruning, of training and of resuming, one
// to four processes: they go on from a whole checkpoint as if nothing had been.
//
// PIPESIM_CHECKPOINT_TRIALS says how many; each is made of its number alone.
// PIPESIM_CHECKPOINT_FAULT is the only way to strike them, if it is given. Then checkpoints that
// are damaged between runs, PIPESIM_DAMAGE_TRIALS of them: none is taken for whole.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/tcp_world.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::Outcome;
using testing::ReservedPort;
using testing::RunningCommand;
using testing::TemporaryFolder;

const std::string model =
    "--model gpt-mini --micro-batch-size 1 --sequence-length 8 --microbatches 4 --warmup 1 "
    "--iterations 6 --timeout 60s --json";

// How a training is laid out over processes.
struct Layout {
  int ranks;
  std::string flags;
};
const std::vector<Layout> layouts{{1, "--schedule 1f1b --accumulate 2"},
                                  {2, "--schedule 1f1b"},
                                  {2, "--schedule gpipe --data-parallel 2 --zero 2 --accumulate 2"},
                                  {3, "--schedule zb-h1"},
                                  {4, "--schedule interleaved --data-parallel 2"},
                                  {4, "--schedule 1f1b --tensor-parallel 2 --accumulate 3"}};

using Environment = std::vector<std::string>;

// All ranks, of which one has an environment of its own.
std::vector<RunningCommand> start_all(const Layout& layout, const std::string& flags, int struck,
                                      const Environment& environment) {
  std::vector<RunningCommand> ranks;
  const ReservedPort port;
  for (int rank = 0; rank < layout.ranks; ++rank) {
    std::vector<std::string> argv{PIPEEXEC_COMMAND};
    std::string line = fmt::format("{} {} {}", model, layout.flags, flags);
    if (layout.ranks > 1) {
      line += fmt::format(" --transport tcp --master {} --rank {} --ranks {}", port.master(), rank,
                          layout.ranks);
    } else {
      line += " --stages 1";
    }
    std::istringstream in(line);
    for (std::string word; in >> word;) argv.push_back(word);
    ranks.emplace_back(argv, rank == struck ? environment : Environment{});
  }
  return ranks;
}

std::vector<Outcome> run(const Layout& layout, const std::string& flags, int struck = 0,
                         const Environment& environment = {}) {
  std::vector<RunningCommand> ranks = start_all(layout, flags, struck, environment);
  // Who stands still would be waited for; a kill ends him and whoever waits.
  if (std::ranges::count(environment, "PIPESIM_FAULT=stop") > 0 &&
      ranks[static_cast<std::size_t>(struck)].stands_still()) {
    for (const RunningCommand& rank : ranks) rank.strike(SIGKILL);
  }
  std::vector<Outcome> outcomes;
  for (RunningCommand& rank : ranks) outcomes.push_back(rank.outcome());
  return outcomes;
}

std::string errors_of(const std::vector<Outcome>& outcomes) {
  std::string all;
  for (const Outcome& outcome : outcomes)
    all += fmt::format("{}: {}\n", outcome.status, outcome.err);
  return all;
}

std::vector<double> losses_of(const std::vector<Outcome>& outcomes) {
  EXPECT_EQ(outcomes.front().status, 0) << errors_of(outcomes);
  if (outcomes.front().status != 0) return {};
  const Json json = Json::parse(outcomes.front().out);
  std::vector<double> losses = json.at("warmup_losses").get<std::vector<double>>();
  for (const double loss : json.at("losses")) losses.push_back(loss);
  return losses;
}

int count_kept(const std::string& folder) {
  int count = 0;
  if (!std::filesystem::exists(folder)) return 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += entry.path().filename().string().starts_with("iteration-") ? 1 : 0;
  }
  return count;
}

int trials(const char* variable, int usual) {
  const char* asked = std::getenv(variable);
  return asked == nullptr ? usual : std::atoi(asked);
}

std::vector<std::string> faults() {
  if (const char* asked = std::getenv("PIPESIM_CHECKPOINT_FAULT")) return {asked};
  return {"kill", "stop", "term", "full", "readonly"};
}

TEST(CheckpointFaults, StruckTrainingsGoOnFromAWholeCheckpoint) {
  std::vector<std::vector<double>> undisturbed;
  for (const Layout& layout : layouts) undisturbed.push_back(losses_of(run(layout, "")));
  std::map<std::string, int> struck_by;
  const int count = trials("PIPESIM_CHECKPOINT_TRIALS", 20);
  const std::vector<std::string> all = faults();
  for (int trial = 0; trial < count; ++trial) {
    std::mt19937 random(static_cast<unsigned>(trial));
    const auto pick = [&](int least, int most) {
      return std::uniform_int_distribution(least, most)(random);
    };
    const TemporaryFolder folder;
    const std::string saved = folder / "ck";
    const auto which = static_cast<std::size_t>(trial) % layouts.size();
    const Layout& layout = layouts[which];
    const int keep = pick(1, 3);
    const std::string flags = fmt::format(
        "--checkpoint {0} --resume {0} --checkpoint-every {1} "
        "--keep {2}{3}",
        saved, pick(1, 3), keep, pick(0, 1) == 0 ? "" : " --async-checkpoint");
    std::string story = fmt::format("trial {}, {}", trial, layout.flags);
    const int strikes = pick(1, 3);
    bool is_done = false;
    for (int strike = 0; strike < strikes && !is_done; ++strike) {
      const std::string& fault =
          all[static_cast<std::size_t>(pick(0, static_cast<int>(all.size()) - 1))];
      const int kind = fault == "full" || fault == "readonly" ? 0 : std::max(0, pick(0, 5) - 3);
      const std::string on = kind == 0 ? "disk" : kind == 1 ? "clock" : "timer";
      const int rank = pick(0, layout.ranks - 1);
      const int at = pick(1, kind == 0 ? (rank == 0 ? 60 : 12) : kind == 1 ? 2000 : 100'000);
      story += fmt::format("; {} of rank {} at {} {}", fault, rank, on, at);
      const std::vector<Outcome> outcomes =
          run(layout, flags, rank,
              {"LD_PRELOAD=" PIPESIM_FAILING_DISK, "PIPESIM_FAULT=" + fault,
               fmt::format("PIPESIM_FAULT_AT={}", at), "PIPESIM_FAULT_FOLDER=" + saved,
               "PIPESIM_FAULT_ON=" + on});
      is_done = std::ranges::all_of(outcomes, [](const Outcome& one) { return one.status == 0; });
      if (!is_done) ++struck_by[fault];
      EXPECT_LE(count_kept(saved), keep) << story;
      const int status = outcomes[static_cast<std::size_t>(rank)].status;
      if (fault == "full" || fault == "readonly") {
        // A sentence, and no other end.
        EXPECT_TRUE(status == 0 || status == 1 || status == 2) << story << errors_of(outcomes);
        EXPECT_EQ(status == 0, is_done) << story << errors_of(outcomes);
      }
    }
    const std::vector<Outcome> rest = run(layout, flags);
    EXPECT_EQ(losses_of(rest), undisturbed[which]) << story;
    EXPECT_LE(count_kept(saved), keep) << story;
    EXPECT_EQ(rest.front().err.find("passes over"), std::string::npos) << story << rest.front().err;
    for (const auto& entry : std::filesystem::directory_iterator(saved)) {
      EXPECT_NE(entry.path().filename().string().front(), '.') << story;
    }
    if (::testing::Test::HasFailure()) return;
  }
  for (const auto& [fault, times] : struck_by) fmt::print("{} runs ended by {}\n", times, fault);
  // Faults have struck, each kind of them.
  if (count >= 20) {
    EXPECT_EQ(struck_by.size(), all.size());
  }
}

// What a disk or a person may do to a file.
void damage(const std::string& path, std::mt19937& random) {
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  std::string bytes = read_file(path);
  const auto size = static_cast<std::int64_t>(bytes.size());
  const auto at = static_cast<std::size_t>(pick(0, size - 1));
  const int way = static_cast<int>(pick(0, 6));
  std::filesystem::remove(path);
  switch (way) {
    case 0: return;
    case 1: std::filesystem::create_directory(path); return;
    case 2: ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); return;
    case 3: bytes.resize(at); break;
    case 4: bytes.append(static_cast<std::size_t>(pick(1, 5000)), '\0'); break;
    case 5: std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end(), '\0'); break;
    default: bytes[at] = static_cast<char>(bytes[at] ^ (1 << pick(0, 7))); break;
  }
  write_file(path, bytes);
}

// One to three files of the newest checkpoint, or of all: it goes on from one that is whole, or
// says that there is none.
TEST(CheckpointFaults, DamagedCheckpointsArePassedOver) {
  int passed_over = 0;
  int refused = 0;
  const int count = trials("PIPESIM_DAMAGE_TRIALS", 5);
  for (int trial = 0; trial < count; ++trial) {
    std::mt19937 random(static_cast<unsigned>(trial));
    const Layout layout{1, trial % 2 == 0 ? "--schedule 1f1b" : "--schedule 1f1b --accumulate 2"};
    const TemporaryFolder folder;
    const std::string flags =
        fmt::format("--checkpoint {0} --resume {0} --checkpoint-every 2", folder / "ck");
    const std::vector<double> whole = losses_of(run(layout, flags));
    const bool all = trial % 5 == 4;
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "ck")) {
      const bool is_newest = entry.path().parent_path().filename() == "iteration-00000007";
      if (entry.is_regular_file() && (all || is_newest)) files.push_back(entry.path().string());
    }
    std::ranges::sort(files);
    std::ranges::shuffle(files, random);
    if (!all) files.resize(std::min<std::size_t>(files.size(), 1 + trial % 3));
    for (const std::string& file : files) damage(file, random);
    const std::vector<Outcome> rest = run(layout, flags);
    const std::string story = fmt::format("trial {}: {}", trial, fmt::join(files, ", "));
    if (rest.front().status == 0) {
      EXPECT_EQ(losses_of(rest), whole) << story;
      EXPECT_NE(rest.front().err.find("passes over a checkpoint: "), std::string::npos) << story;
      ++passed_over;
    } else {
      EXPECT_EQ(rest.front().status, 2) << story << rest.front().err;
      EXPECT_NE(rest.front().err.find("no checkpoint is complete"), std::string::npos)
          << story << rest.front().err;
      ++refused;
    }
    if (::testing::Test::HasFailure()) return;
  }
  fmt::print("{} runs went on, {} were refused\n", passed_over, refused);
  EXPECT_GT(passed_over, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace pipesim
