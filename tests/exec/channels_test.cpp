// Channels of a training: which there are, in which order they are opened, and
// that messages which keep the order of a channel are those that are expected.
#include "exec/run/channels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/random_schedule.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

constexpr Lane activations = Lane::activations;
constexpr Lane gradients = Lane::gradients;

TrainingJob job_of(Schedule program, bool tied = false) {
  TrainingJob training;
  training.program = std::move(program);
  training.model.tied_head = tied;
  return training;
}

std::vector<Channel> channels(const std::string& name, int ranks, int microbatches, bool tied) {
  return channels_of(
      job_of(lower(generate({.name = name, .ranks = ranks, .microbatches = microbatches})), tied));
}

// Pairs with an even rank below first, so that neighbours don't wait in a chain.
TEST(Channels, OfAPipelineLeadToNeighbours) {
  EXPECT_EQ(channels("1f1b", 4, 3, false), (std::vector<Channel>{{0, 1, activations},
                                                                 {1, 0, gradients},
                                                                 {2, 3, activations},
                                                                 {3, 2, gradients},
                                                                 {1, 2, activations},
                                                                 {2, 1, gradients}}));
  EXPECT_TRUE(channels("1f1b", 1, 3, true).empty());
}

TEST(Channels, OfATiedMatrixLeadBetweenTheEnds) {
  const auto with = channels("1f1b", 3, 2, true);
  const auto without = channels("1f1b", 3, 2, false);
  EXPECT_EQ(std::ranges::count(with, Channel{0, 2, Lane::tied_gradient}), 1);
  EXPECT_EQ(std::ranges::count(with, Channel{2, 0, Lane::tied_gradient}), 1);
  EXPECT_EQ(with.size(), without.size() + 2);
}

// Down and up again: both kinds lead both ways.
TEST(Channels, OfAVAreTwoEachWay) {
  const Schedule program = lower(generate(
      {.name = "bfs", .ranks = 2, .microbatches = 2, .chunks = 2, .placement = std::string("v")}));
  EXPECT_EQ(channels_of(job_of(program, true)),
            (std::vector<Channel>{
                {0, 1, activations}, {0, 1, gradients}, {1, 0, activations}, {1, 0, gradients}}));
}

// Runs a program on channels that keep the order, each receive posted when it is
// reached; whether it finishes, with every message the one that was expected.
bool runs_on_channels(const Schedule& program) {
  std::map<std::tuple<int, int, bool>, std::pair<std::vector<Action>, std::vector<Action>>> lines;
  std::set<std::tuple<Kind, int, int>> there;  // results, by F and B; and received ones, by RECV
  const Placement& placement = program.placement;
  std::vector<std::size_t> at(static_cast<std::size_t>(program.ranks()));
  const auto key = [](Kind kind, int stage, int microbatch) {
    return std::tuple(kind, stage, microbatch);
  };
  const auto input_is_there = [&](const Action& action) {
    if (action.kind == Kind::W) return true;
    const bool forward = action.kind == Kind::F;
    const int from = forward ? action.stage - 1 : action.stage + 1;
    if (from < 0 || from == placement.stages()) return true;
    const bool local = placement.rank_of(from) == placement.rank_of(action.stage);
    const Kind made = forward ? Kind::F : Kind::B;
    const Kind received = forward ? Kind::RECV_F : Kind::RECV_B;
    return local ? there.contains(key(made, from, action.microbatch))
                 : there.contains(key(received, action.stage, action.microbatch));
  };
  const auto line_of = [&](const Action& send) -> auto& {
    return lines[{placement.rank_of(send.stage), placement.rank_of(peer_of(send).stage),
                  send.kind == Kind::SEND_F}];
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < program.ranks(); ++rank) {
      const auto list = program.actions[rank];
      std::size_t& next = at[static_cast<std::size_t>(rank)];
      for (; next < list.size(); ++next) {
        const Action action = make_action(list[next].stage, list[next].kind, list[next].microbatch);
        if (is_compute(action.kind) && !input_is_there(action)) break;
        if (action.kind == Kind::F || is_backward(action.kind)) {
          there.insert(
              key(action.kind == Kind::F ? Kind::F : Kind::B, action.stage, action.microbatch));
        }
        if (is_send(action.kind)) line_of(action).first.push_back(action);
        if (is_receive(action.kind)) line_of(peer_of(action)).second.push_back(action);
        moved = true;
      }
    }
    for (const auto& [line, ends] : lines) {
      const auto& [sends, receives] = ends;
      for (std::size_t i = 0; i < std::min(sends.size(), receives.size()); ++i) {
        if (peer_of(sends[i]) != receives[i]) return false;
        there.insert(key(receives[i].kind, receives[i].stage, receives[i].microbatch));
      }
    }
  }
  for (int rank = 0; rank < program.ranks(); ++rank) {
    if (at[static_cast<std::size_t>(rank)] < program.actions[rank].size()) return false;
  }
  return true;
}

bool is_accepted(const Schedule& program) {
  try {
    channels_of(job_of(program));
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Channels, TakeWhateverRunsOnThem) {
  std::mt19937_64 random(1);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Schedule program = lower(testing::random_schedule(random));
    EXPECT_TRUE(is_accepted(program));
    EXPECT_TRUE(runs_on_channels(program));
    testing::shuffle(program, random);
    if (find_deadlock(program, SendMode::buffered)) continue;
    const bool takes = is_accepted(program);
    EXPECT_EQ(runs_on_channels(program), takes) << i;
    ++(takes ? accepted : refused);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 50);
}

TEST(Channels, OfEveryFamilyKeepTheOrder) {
  int count = 0;
  for (const Family& family : all_families()) {
    for (const char* placement : {"loop", "v"}) {
      for (const int ranks : {2, 3, 4}) {
        Schedule program;
        try {
          program = lower(generate({.name = std::string(family.name),
                                    .ranks = ranks,
                                    .microbatches = 2 * ranks,
                                    .placement = std::string(placement)}));
        } catch (const Error&) {
          continue;  // not of that family, or it deadlocks anywhere
        }
        EXPECT_TRUE(is_accepted(program)) << family.name << " " << placement << " " << ranks;
        EXPECT_TRUE(runs_on_channels(program)) << family.name << " " << placement << " " << ranks;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 30);
}

}  // namespace
}  // namespace pipesim::exec
