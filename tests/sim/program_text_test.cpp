// Programs stream by stream: written and read again, predicted alike, moved and refused.
#include "sim/schedule/program_text.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "sim/engine/simulate.h"
#include "sim/schedule/closing.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "tests/words.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using testing::replaced;

constexpr std::array lanes{TransferLane::compute, TransferLane::rank, TransferLane::edge};

using TimesByRank =
    std::map<std::tuple<int, int, Kind, int>, std::pair<std::int64_t, std::int64_t>>;

TimesByRank times_by_rank(const Schedule& program, const Costs& costs, P2p mode) {
  TimesByRank times;
  SimulationOptions options;
  options.transfers.mode = mode;
  options.sink = [&](const Span& span) {
    const Action& a = span.action;
    times[{span.rank, a.stage, a.kind, a.microbatch}] = {span.start_ns, span.end_ns};
  };
  simulate(program, costs, options);
  return times;
}

// What streams say is all there is: read again, every action has its time.
void expect_same_again(const Schedule& program, const Costs& costs) {
  for (const TransferLane lane : lanes) {
    const std::string text = to_program_text(program, lane);
    SCOPED_TRACE(text);
    const Schedule file = parse_program(text, program.name);
    EXPECT_EQ(to_program_text(file, lane), text);
    EXPECT_EQ(file.placement, program.placement);
    EXPECT_EQ(file.microbatches, program.microbatches);
    if (program.ranks() > 1 && program.has_transfers()) {
      EXPECT_EQ(file.lane, lane);
    }
    std::vector<P2p> modes{P2p::async, P2p::blocking};
    if (lane == TransferLane::rank) modes = {P2p::fifo};
    if (lane == TransferLane::edge) modes = {P2p::edge_fifo};
    for (const P2p mode : modes) {
      EXPECT_EQ(times_by_rank(file, costs, mode), times_by_rank(program, costs, mode));
    }
  }
}

TEST(ProgramText, OfEveryFamilyIsWrittenAndReadAgain) {
  for (const Family& family : all_families()) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      Schedule schedule;
      try {
        schedule = generate({.name = std::string(family.name), .ranks = ranks, .microbatches = 4});
      } catch (const Error&) {
        continue;  // a shape that the family's definition leaves out
      }
      Costs costs = testing::costs_of(schedule.stages(), 10, 20, 3);
      expect_same_again(lower(schedule), costs);
      costs.gradient_norm = GroupCosts{.latency_ns = 5};
      const Closing everything{true, true, true, true};
      const std::vector closing(static_cast<std::size_t>(ranks), everything);
      expect_same_again(with_closing(lower(schedule), closing), costs);
      if (HasFailure()) return;
    }
  }
}

TEST(ProgramText, OfRandomProgramsIsWrittenAndReadAgain) {
  std::mt19937_64 random(28);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Schedule program = lower(testing::random_schedule(random));
    if (i % 3 == 0) {
      testing::add_dependencies(program, random);
      for (const SendMode mode : all_send_modes()) {
        if (find_deadlock(program, mode)) program.dependencies.clear();
      }
    }
    const Costs costs = testing::random_costs(random, program);
    expect_same_again(program, costs);
    if (HasFailure()) break;
  }
}

// Batched transfers and overlapped cells stay together.
TEST(ProgramText, KeepsCells) {
  for (const char* name : {"dualpipev_4rank_10mb.csv", "zb1p_2rank_2stagep_comms.csv"}) {
    const Schedule schedule = read_csv(testing::golden(name));
    const Schedule program = schedule.has_transfers() ? schedule : lower(schedule);
    const std::string text = to_program_text(program, TransferLane::rank);
    EXPECT_EQ(to_program_text(parse_program(text, "p"), TransferLane::rank), text);
    EXPECT_EQ(text.find("OVERLAP_F_B") == std::string::npos,
              to_csv(program).find("OVERLAP_F_B") == std::string::npos);
    for (const std::string_view line : split(text, '\n')) EXPECT_LE(line.size(), 100) << line;
  }
}

const std::string two_ranks =
    "pipesim-program 1\n"
    "rank 0\n"
    "compute   0F0 0F1 0B0 0B1\n"
    "transfers 0SEND_F0 0SEND_F1 0RECV_B0 0RECV_B1\n"
    "rank 1\n"
    "compute   1F0 1B0 1F1 1B1\n"
    "transfers 1RECV_F0 1RECV_F1 1SEND_B0 1SEND_B1\n";

// One operation moved, on its stream alone: its rank's compute stays where it is.
TEST(ProgramText, AMoveShows) {
  const Costs costs = testing::costs_of(2, 10, 20, 4);
  const auto predict = [&](const std::string& text) {
    const Schedule file = parse_program(text, "p");
    EXPECT_EQ(file.lane, TransferLane::rank);
    SimulationOptions options;
    options.transfers.mode = P2p::fifo;
    return simulate(file, costs, options).makespan_ns;
  };
  EXPECT_EQ(predict(two_ranks), 10 + 4 + 2 * 30 + 4 + 20);
  // The second activation waits for the first gradient to have been sent.
  const std::string late = replaced(replaced(two_ranks, "0SEND_F1 0RECV_B0", "0RECV_B0 0SEND_F1"),
                                    "1RECV_F1 1SEND_B0", "1SEND_B0 1RECV_F1");
  EXPECT_EQ(predict(late), 10 + 4 + 30 + 4 + 4 + 30 + 4 + 20);
  // Who receives first what is sent last waits for ever.
  const std::string stuck = replaced(two_ranks, "1RECV_F0 1RECV_F1", "1RECV_F1 1RECV_F0");
  EXPECT_NE(testing::error_of([&] { predict(stuck); }).find("deadlock: "), std::string::npos);
}

// A SEND leaves when its result is there, a RECV comes before what needs it, and what ends
// the iteration behind all.
TEST(ProgramText, StreamsBecomeOneList) {
  const std::string text =
      replaced(two_ranks, "0B0 0B1\n", "0B0 0B1 0GRAD_NORM\ncompute 0OPTIMIZER\n");
  const Schedule file =
      parse_program(replaced(text, "1F1 1B1\n", "1F1 1B1 1GRAD_NORM # all meet\n"), "p");
  EXPECT_EQ(csv_row(file.actions[0]), "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1");
  EXPECT_EQ(to_text(file.actions[0].back()), "0OPTIMIZER");
  EXPECT_EQ(csv_row(file.actions[1]), "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1");
}

TEST(ProgramText, PointsAtWhatIsWrong) {
  const auto error = [](const std::string& text) {
    return testing::error_of([&] { parse_program(text, "p"); });
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    return error(replaced(two_ranks, from, to));
  };
  EXPECT_EQ(error(two_ranks), "no error");
  EXPECT_EQ(error("pipesim-program 2\n"), "p:1:1: 'pipesim-program 2' is not `pipesim-program 1`");
  EXPECT_EQ(error("pipesim-program 1\n"), "p:1:1: holds no rank; write `rank 0` and its streams");
  EXPECT_EQ(error(two_ranks + "rank 2\n"), "p:8:6: rank 2 has no action; every rank needs one");
  EXPECT_EQ(changed("0B0 0B1\n", "0B0 0BW1\n"),
            "p:3:23: '0BW1' is in the dialect of 2024, which only CSV has; write B");
  EXPECT_EQ(changed("rank 0\n", "rank 1\n"), "p:2:6: ranks are in order; this is `rank 0`");
  EXPECT_EQ(changed("rank 0\n", ""), "p:2:1: comes before `rank 0`");
  EXPECT_EQ(changed("0F1 0B0", "0F1 0G0"),
            "p:3:19: '0G0' is not an action, such as 2F0, 2SEND_F0 or 2REDUCE_GRAD");
  EXPECT_EQ(changed("transfers 0SEND", "transfer 0SEND"),
            "p:4:1: 'transfer' is not a stream; there is compute, and for SEND and RECV one named "
            "transfers, or one per directed pair of ranks, such as 0->1");
  EXPECT_EQ(changed("transfers 0SEND_F0", "transfers 0F0"),
            "p:4:11: 0F0 is not a transfer; it is on compute");
  EXPECT_EQ(changed("transfers 0SEND", "2->3 0SEND"), "p:4:1: rank 0 has no end of '2->3'");
  EXPECT_EQ(changed("transfers 0SEND_F0 0SEND_F1 0RECV_B0", "0->1 0SEND_F0 0SEND_F1 0RECV_B0"),
            "p:4:24: 0RECV_B0 is at the sender's end of '0->1'");
  EXPECT_EQ(changed("transfers 1RECV_F0 1RECV_F1 1SEND_B0 1SEND_B1",
                    "0->1 1RECV_F0 1RECV_F1\n1->0 1SEND_B0 1SEND_B1"),
            "p:7:6: 1RECV_F0 is on 0->1, and transfers before it on streams of another sort");
  EXPECT_EQ(error("pipesim-program 1\nrank 0\ncompute 0F0 0B0\n0->2 0SEND_F0\n2->0 0RECV_B0\n"
                  "rank 1\ncompute 1F0 1B0\n0->1 1RECV_F0\n1->0 1SEND_B0\n"),
            "p:4:6: 0SEND_F0 is on '0->2', but its other end is on rank 1");
  EXPECT_EQ(changed("0RECV_B0 0RECV_B1", "0RECV_B0"),
            "p:3:23: rank 0: 0B1 needs 0RECV_B1 before it");
  EXPECT_EQ(changed("0SEND_F1 0RECV_B0", "0RECV_B0"), "p:4:37: rank 0: 0SEND_F1 is missing");
  EXPECT_EQ(changed("compute   1F0 1B0 1F1 1B1\n", ""),
            "p:6:46: rank 1: stage 1 has 0 of 2 forwards; every stage needs one per microbatch");
  // What an action needs comes after an action that waits for it, on another stream.
  EXPECT_EQ(changed("1RECV_F0 1RECV_F1 1SEND_B0 1SEND_B1", "1SEND_B1 1RECV_F0 1RECV_F1 1SEND_B0"),
            "p:6:11: 1F0 needs 1RECV_F0, which is on transfers after 1SEND_B1, whose result "
            "is not there yet");
  EXPECT_EQ(changed("1F0 1B0 1F1 1B1\n", "1F0 1B0 1F1 1B1 3F1\n").substr(0, 40),
            "p:6:27: 3F1, but no rank holds stage 2; ");
  EXPECT_EQ(changed("0F0 0F1 0B0 0B1", "0F0 0F1 0B0 0B1 0GRAD_NORM 0B1"),
            "p:3:38: rank 0: 0B1 is done twice");
  EXPECT_EQ(changed("0F1 0B0 0B1", "0F1 0B0 0B1 0GRAD_NORM"),
            "p:3:27: rank 0: 0GRAD_NORM waits for rank 1, which has no GRAD_NORM");
  EXPECT_EQ(changed("rank 1\n", "rank 1\ncompute\n"), "p:6:1: a stream without an action; omit it");
}

// Either form is told by its first line.
TEST(ProgramText, FilesOfEitherFormAreTold) {
  EXPECT_EQ(parse_schedule(two_ranks, "p").lane, TransferLane::rank);
  EXPECT_EQ(parse_schedule("\xef\xbb\xbf\r\n # by hand\n\n" + two_ranks, "p").lane,
            TransferLane::rank);
  EXPECT_EQ(parse_schedule("0F0,0B0\n", "p").lane, TransferLane::compute);
}

}  // namespace
}  // namespace pipesim
