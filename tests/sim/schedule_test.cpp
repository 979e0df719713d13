// Schedule files, lowering and deadlocks, on the golden schedules of others
// and on random ones.
#include "sim/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/errors.h"
#include "tests/families.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using testing::golden;

const std::vector<std::string> goldens{"deepspeed_TrainSchedule_S2_M4.csv",
                                       "deepspeed_TrainSchedule_S3_M4.csv",
                                       "deepspeed_TrainSchedule_S4_M2.csv",
                                       "deepspeed_TrainSchedule_S4_M8.csv",
                                       "dualpipev_4rank_10mb.csv",
                                       "megatron_interleaved_pp2_vp2_m4_N2.csv",
                                       "megatron_interleaved_pp2_vp2_m5_N3.csv",
                                       "megatron_interleaved_pp4_vp2_m8_N4.csv",
                                       "megatron_interleaved_pp4_vp4_m8_N4.csv",
                                       "zb1p_2rank_2stagep_comms.csv",
                                       "zb1p_2rank_2stagep_compute.csv",
                                       "zero_bubble_v_half_pp3_m7.csv",
                                       "zero_bubble_v_half_pp4_m8.csv",
                                       "zero_bubble_v_half_pp5_m3.csv",
                                       "zero_bubble_v_min_pp3_m7.csv",
                                       "zero_bubble_v_min_pp4_m9.csv",
                                       "zero_bubble_v_min_pp5_m6.csv"};

std::string without_blanks(const Schedule& schedule) {
  Schedule kept;
  for (int r = 0; r < schedule.ranks(); ++r) {
    kept.actions.add_rank();
    for (const Action& a : schedule.actions[r]) {
      if (a.kind != Kind::IDLE) kept.actions.add(a);
    }
  }
  return to_csv(kept);
}

std::string csv_error(const std::string& text) {
  return testing::input_error_of([&] { parse_csv(text, "f.csv"); });
}

Costs unit_costs(const Schedule& schedule) {
  StageCosts stage;
  stage.forward_ns = 1;
  stage.split_backward(2);
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(schedule.stages()), stage);
  return costs;
}

// --- generators against the orders of others

TEST(Generators, InterleavedIsMegatrons) {
  const auto same = [](const std::string& file, int p, int v, int m, int g) {
    EXPECT_EQ(to_csv(generate({"interleaved", p, m, v, g})), to_csv(read_csv(golden(file))))
        << file;
  };
  same("megatron_interleaved_pp2_vp2_m4_N2.csv", 2, 2, 4, 2);
  same("megatron_interleaved_pp2_vp2_m5_N3.csv", 2, 2, 5, 3);
  same("megatron_interleaved_pp4_vp2_m8_N4.csv", 4, 2, 8, 4);
  same("megatron_interleaved_pp4_vp4_m8_N4.csv", 4, 4, 8, 4);
}

TEST(Generators, InterleavedZeroBubbleIsPyTorchs) {
  EXPECT_EQ(to_csv(generate({"interleaved-zb", 2, 8})),
            without_blanks(read_csv(golden("zb1p_2rank_2stagep_compute.csv"))));
}

TEST(Generators, OneForwardOneBackwardIsDeepSpeeds) {
  for (const auto& [p, m] : {std::pair(2, 4), {3, 4}, {4, 2}, {4, 8}}) {
    const Schedule theirs = read_csv(golden("deepspeed_TrainSchedule_S" + std::to_string(p) + "_M" +
                                            std::to_string(m) + ".csv"));
    Schedule compute;
    for (int r = 0; r < p; ++r) {
      compute.actions.add_rank();
      for (const Action& a : theirs.actions[r]) {
        if (is_compute(a.kind)) compute.actions.add(a);
      }
    }
    EXPECT_EQ(to_csv(generate({"1f1b", p, m})), to_csv(compute));
  }
}

TEST(Generators, DualPipeIsDeepSeeks) {
  for (const auto& [p, m] : {std::pair(2, 4), {4, 8}, {4, 10}, {8, 16}, {8, 22}}) {
    const std::string file = fmt::format("dualpipe_{}ranks_{}mb.csv", p, m);
    const Schedule theirs = read_csv(golden(file));
    const Schedule ours = generate({"dualpipe", p, m});
    EXPECT_EQ(to_csv(ours), to_csv(theirs)) << file;
    EXPECT_EQ(ours.placement, theirs.placement) << file;
  }
}

TEST(Generators, DualPipeVIsPyTorchs) {
  EXPECT_EQ(to_csv(generate({"dualpipe-v", 4, 10})),
            to_csv(read_csv(golden("dualpipev_4rank_10mb.csv"))));
}

TEST(Generators, VHalfAndVMinAreTheirAuthors) {
  const auto same = [](const char* name, const std::string& file, int p, int m) {
    EXPECT_EQ(to_csv(generate({name, p, m})), to_csv(read_csv(golden(file)))) << file;
  };
  same("v-half", "zero_bubble_v_half_pp3_m7.csv", 3, 7);
  same("v-half", "zero_bubble_v_half_pp4_m8.csv", 4, 8);
  same("v-half", "zero_bubble_v_half_pp5_m3.csv", 5, 3);
  same("v-min", "zero_bubble_v_min_pp3_m7.csv", 3, 7);
  same("v-min", "zero_bubble_v_min_pp4_m9.csv", 4, 9);
  same("v-min", "zero_bubble_v_min_pp5_m6.csv", 5, 6);
}

// As Megatron-LM's overlap_moe_expert_parallel_comm has it, for which a forward and the
// backward after it must not need each other.
TEST(Generators, OverlappedExpertsTakeOneMoreForwardFirst) {
  for (const auto& [p, v, m, g] :
       std::vector<std::array<int, 4>>{{4, 2, 8, 4}, {2, 3, 4, 2}, {4, 2, 12, 6}, {3, 2, 3, 3}}) {
    ScheduleRequest request{"interleaved", p, m, v, g};
    const Schedule plain = generate(request);
    request.overlap_experts = true;
    const Schedule overlapped = generate(request);
    EXPECT_FALSE(find_fault(overlapped));
    EXPECT_FALSE(find_deadlock(overlapped, SendMode::buffered));
    for (int r = 0; r < p; ++r) {
      const auto before_backwards = [&](const Schedule& schedule) {
        const auto list = schedule.actions[r];
        return std::ranges::find(list, Kind::B, &Action::kind) - list.begin();
      };
      const int warmup = 2 * (p - 1 - r) + (v - 1) * g;
      EXPECT_EQ(before_backwards(plain), std::min(m * v, warmup + 1));
      EXPECT_EQ(before_backwards(overlapped), std::min(m * v, warmup + 2));
      const auto list = overlapped.actions[r];
      for (std::size_t i = 0; i + 1 < list.size(); ++i) {
        if (list[i].kind != Kind::F || list[i + 1].kind != Kind::B || list.size() < i + 3) continue;
        if (warmup + 1 < m * v) {
          EXPECT_FALSE(list[i].stage == list[i + 1].stage &&
                       list[i].microbatch == list[i + 1].microbatch);
        }
      }
    }
  }
}

TEST(Generators, AreKnownByTheNamesOfOthers) {
  for (const auto& [theirs, ours] :
       {std::pair("1F1B", "1f1b"),
        {"GPipe", "gpipe"},
        {"Interleaved1F1B", "interleaved-pytorch"},
        {"ScheduleInterleaved1F1B", "interleaved-pytorch"},
        {"LoopedBFS", "bfs"},
        {"InterleavedZeroBubble", "interleaved-zb"},
        {"ZBVZeroBubble", "zb-v"},
        {"DualPipeV", "dualpipe-v"},
        {"dualpipev", "dualpipe-v"},
        {"V-Half", "v-half"},
        {"Schedule1F1B", "1f1b"},
        {"TrainSchedule", "1f1b"},
        {"ZB-H1", "zb-h1"},
        {"forward_backward_pipelining_without_interleaving", "1f1b"},
        {"forward_backward_pipelining_with_interleaving", "interleaved"}}) {
    EXPECT_EQ(family(theirs).name, ours);
    EXPECT_EQ(generate({theirs, 2, 4}).name, ours);
  }
  EXPECT_NE(testing::input_error_of([] { family("zbv"); }).find("nearest first: zb-v"),
            std::string::npos);
  // No two families share a name.
  std::set<std::string> names;
  for (const Family& one : all_families()) {
    std::vector<std::string_view> own = one.aliases;
    own.push_back(one.name);
    for (const std::string_view name : own) {
      EXPECT_EQ(family(name).name, one.name);
      EXPECT_TRUE(names.emplace(name).second) << name;
    }
  }
}

TEST(Generators, EveryFamilyIsValidForManyShapes) {
  for (const Family& f : all_families()) {
    for (int p = 1; p <= 5; ++p) {
      for (const int v : testing::chunk_counts(f)) {
        for (int m = 1; m <= 9; ++m) {
          for (const char* placement : {"loop", "v"}) {
            Shape shape;
            try {
              shape = resolve_shape(f, {std::string(f.name), p, m, v, {}, placement});
            } catch (const Error&) {
              continue;  // uneven rounds, no V, or too few microbatches
            }
            const auto fault = find_fault(generate(f, shape));
            EXPECT_FALSE(fault) << f.name << " p" << p << " v" << v << " m" << m << ": "
                                << fault->rule;
          }
        }
      }
    }
  }
}

TEST(Generators, PeaksAreAsPublished) {
  const auto peaks = [](const Schedule& s) {
    std::vector<std::int64_t> result;
    for (const auto& rank : simulate(s, unit_costs(s)).ranks) {
      result.push_back(rank.peak_activation_chunks);
    }
    return result;
  };
  for (int p = 1; p <= 5; ++p) {
    for (int m = 1; m <= 11; ++m) {
      const auto gpipe = peaks(generate({"gpipe", p, m}));
      const auto plain = peaks(generate({"1f1b", p, m}));
      const auto eager = peaks(generate({"eager-1f1b", p, m}));
      const auto h1 = peaks(generate({"zb-h1", p, m}));
      const auto h2 = peaks(generate({"zb-h2", p, m}));
      const auto naive = peaks(generate({"naive", p, m}));
      for (int r = 0; r < p; ++r) {
        const auto at = static_cast<std::size_t>(r);
        EXPECT_EQ(naive[at], 1);
        EXPECT_EQ(gpipe[at], m);
        EXPECT_EQ(plain[at], std::min(m, p - r));
        EXPECT_EQ(eager[at], std::min(m, 2 * (p - r) - 1));
        EXPECT_EQ(h1[at], std::min(m, p - r));
        EXPECT_EQ(h2[at], std::min(m, 2 * (p - r) - 1));
      }
      for (int v = 1; v <= 3; ++v) {
        const auto bfs = peaks(generate({"bfs", p, m, v}));
        EXPECT_EQ(bfs, std::vector<std::int64_t>(static_cast<std::size_t>(p), m * v));
        if (m % p != 0) continue;
        const auto interleaved = peaks(generate({"interleaved", p, m, v}));
        for (int r = 0; r < p; ++r) {
          EXPECT_EQ(interleaved[static_cast<std::size_t>(r)],
                    std::min(m * v, 2 * (p - 1 - r) + (v - 1) * p + 1));
        }
      }
    }
  }
}

// Of V shapes on every rank alike: ZB-V keeps as much as 1F1B, two chunks for one of
// twice the size, DualPipeV one more. V-Half and V-Min keep (p+2)//2 and (p+4)//3
// microbatches on the fullest rank, counted until W.
TEST(Generators, PeaksOfVShapesAreAsPublished) {
  const auto peaks = [](const char* name, int p, int m) {
    const Schedule schedule = generate({name, p, m});
    Costs costs = unit_costs(schedule);
    for (StageCosts& stage : costs.stages) {
      stage.activation_bytes = 1;
      stage.weight_residue_bytes = 1;
    }
    std::vector<std::int64_t> chunks, until_w;
    for (const auto& rank : simulate(schedule, costs).ranks) {
      chunks.push_back(rank.peak_activation_chunks);
      until_w.push_back(rank.peak_activation_bytes);
    }
    return std::pair(chunks, until_w);
  };
  for (int p = 1; p <= 9; ++p) {
    const auto every_rank = [&](std::int64_t chunks) {
      return std::vector<std::int64_t>(static_cast<std::size_t>(p), chunks);
    };
    for (const int m : {2 * p - 1, 2 * p, 3 * p, 4 * p + 1}) {
      SCOPED_TRACE(::testing::Message() << "p" << p << " m" << m);
      EXPECT_EQ(peaks("zb-v", p, m), std::pair(every_rank(2 * p), every_rank(2 * p)));
      if (m >= 2 * p) {
        const auto [chunks, until_w] = peaks("dualpipe-v", p, m);
        EXPECT_EQ(chunks, every_rank(2 * p + 1));
        EXPECT_EQ(until_w, chunks);
      }
      const auto half = peaks("v-half", p, m);
      EXPECT_EQ(std::ranges::max(half.second), 2 * ((p + 2) / 2));
      const auto least = peaks("v-min", p, m);
      EXPECT_EQ(std::ranges::max(least.second), 2 * ((p + 4) / 3));
    }
  }
}

// What stays between I and W, beside the activations: ZB-H1 keeps
// min(max(m-p+r, 0), r) residues, ZB-H2 2r, interleaved zero bubble r.
TEST(Generators, ZeroBubbleKeepsResidues) {
  const auto peaks = [](const Schedule& schedule) {
    Costs costs = unit_costs(schedule);
    for (StageCosts& stage : costs.stages) {
      stage.activation_bytes = 1000;
      stage.weight_residue_bytes = 1;
    }
    std::vector<std::int64_t> result;
    for (const auto& rank : simulate(schedule, costs).ranks) {
      result.push_back(rank.peak_activation_bytes);
    }
    return result;
  };
  for (int p = 2; p <= 5; ++p) {
    for (int m = p; m <= 12; ++m) {
      std::vector<std::int64_t> h1, h2, interleaved;
      const int v = 3;
      for (int r = 0; r < p; ++r) {
        h1.push_back(1000 * std::min(m, p - r) + std::min(std::max(m - p + r, 0), r));
        h2.push_back(1000 * (2 * (p - r) - 1) + 2 * r);
        interleaved.push_back(1000 * ((v - 1) * p + (p - r)) + r);
      }
      EXPECT_EQ(peaks(generate({"zb-h1", p, m})), h1) << "p" << p << " m" << m;
      if (m >= 2 * p - 1) {
        EXPECT_EQ(peaks(generate({"zb-h2", p, m})), h2) << "p" << p << " m" << m;
      }
      if (m % p == 0) {
        EXPECT_EQ(peaks(generate({"interleaved-zb", p, m, v})), interleaved)
            << "p" << p << " m" << m;
      }
    }
  }
}

// DualPipeV keeps 2p+1 chunks on every rank; at B = 2F and an overlapped cell
// as long as both its parts it takes 66 forwards' time on 4 ranks.
TEST(Generators, DualPipeVsFileIsEvaluated) {
  const Schedule schedule = read_csv(golden("dualpipev_4rank_10mb.csv"));
  const Metrics metrics = simulate(schedule, unit_costs(schedule));
  EXPECT_EQ(metrics.makespan_ns, 66);
  for (const RankMetrics& rank : metrics.ranks) {
    EXPECT_EQ(rank.peak_activation_chunks, 9);
    EXPECT_EQ(rank.busy_ns, 60);
  }
}

// An order follows the pipeline, not the numbers of its ranks.
TEST(Generators, RanksMayBeNumberedAnyhow) {
  for (const Family& f : all_families()) {
    if (f.placement == both_ways) continue;
    const auto makespan = [&](const std::string& placement) {
      const Schedule schedule = generate({std::string(f.name), 4, 8, {}, {}, placement});
      EXPECT_FALSE(find_deadlock(schedule, SendMode::buffered)) << f.name << " " << placement;
      return simulate(schedule, unit_costs(schedule)).makespan_ns;
    };
    const std::string usual(f.placement);
    for (const std::string down : {"3,2,1,0", "2,0,3,1"}) {
      std::string up = down;
      if (usual == "v") std::ranges::reverse(up);
      EXPECT_EQ(makespan(usual), makespan(f.default_chunks == 2 ? down + "," + up : down))
          << f.name;
    }
  }
}

// Orders that go chunk by chunk run wherever the chunks are.
TEST(Generators, NaiveAndBreadthFirstRunOnAnyPlacement) {
  for (const char* name : {"naive", "bfs"}) {
    for (const char* placement : {"v", "0,0,1,1,2,2", "0,2,1,1,2,0"}) {
      const Schedule schedule = generate({name, 3, 4, 2, {}, placement});
      EXPECT_EQ(find_deadlock(schedule, SendMode::buffered), std::nullopt) << name << placement;
    }
  }
}

TEST(Generators, RaggedGroupsStallOrDeadlock) {
  Schedule ragged = generate({"interleaved", 4, 10, 2});
  const Metrics metrics = simulate(ragged, unit_costs(ragged));
  EXPECT_EQ(metrics.makespan_ns - metrics.ranks[0].busy_ns, 19);
  for (const int m : {12, 20}) {
    EXPECT_TRUE(find_deadlock(generate({"interleaved", 8, m, 2}), SendMode::buffered)) << m;
  }
}

// --- lowering

TEST(Lowering, ReproducesTheElevenStepGolden) {
  const Schedule compute = parse_csv("0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n", "two.csv");
  const Schedule program = lower(compute);
  EXPECT_EQ(csv_row(program.actions[0]), "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1");
  EXPECT_EQ(csv_row(program.actions[1]), "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1");
  EXPECT_EQ(count_unit_steps(program), 11);
}

TEST(Lowering, ReproducesTheVShapedGolden) {
  const Schedule compute = parse_csv(
      "0F0,0F1,,3F0,3B0,3F1,3B1,0B0,3W0,0B1,3W1,0W0,0W1\n"
      ",1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1,2W0,2W1,1W0,1W1\n",
      "v.csv");
  EXPECT_EQ(compute.placement.rank_of_stage(), (std::vector<int>{0, 1, 1, 0}));
  const Schedule program = lower(compute);
  // B without I beside W is the notation of 2024 for the input gradient.
  EXPECT_EQ(csv_row(program.actions[0]),
            "0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,3F0,3I0,3SEND_B0,3RECV_F1,3F1,3I1,3SEND_B1,"
            "0RECV_B0,0I0,3W0,0RECV_B1,0I1,3W1,0W0,0W1");
  EXPECT_EQ(csv_row(program.actions[1]),
            "1RECV_F0,1RECV_F1,1F0,2F0,2SEND_F0,1F1,2RECV_B0,2F1,2SEND_F1,2I0,2RECV_B1,1I0,"
            "1SEND_B0,2I1,1I1,1SEND_B1,2W0,2W1,1W0,1W1");
  EXPECT_EQ(count_unit_steps(program), 24);
}

TEST(Lowering, ReproducesTheHundredAndThirteenStepGolden) {
  const Schedule compute = read_csv(golden("zb1p_2rank_2stagep_compute.csv"));
  const Schedule program = lower(merge_backward(compute));
  EXPECT_EQ(to_csv(program), to_csv(read_csv(golden("zb1p_2rank_2stagep_comms.csv"))));
  EXPECT_EQ(count_unit_steps(program), 113);
}

TEST(Lowering, MergesOnlyAnIThatItsOwnWFollows) {
  const Schedule merged =
      merge_backward(parse_csv("0F0,0F1,0F2,0I0,0I1,0W0,,0I2,0W2,0W1\n", "merge.csv"));
  EXPECT_EQ(csv_row(merged.actions[0]), "0F0,0F1,0F2,0I0,0I1,0W0,0B2,0W1");
}

TEST(Lowering, IsRefusedForAProgram) {
  EXPECT_THROW(lower(read_csv(golden("zb1p_2rank_2stagep_comms.csv"))), Error);
}

// --- deadlock

TEST(Deadlock, GoldensRunOnEveryTransport) {
  for (const std::string& name : goldens) {
    Schedule program = read_csv(golden(name));
    if (!program.has_transfers()) program = lower(program);
    EXPECT_FALSE(find_fault(program)) << name;
    for (const SendMode mode : all_send_modes()) {
      EXPECT_EQ(find_deadlock(program, mode), std::nullopt) << name << " " << send_mode_name(mode);
    }
    EXPECT_GT(simulate(program, unit_costs(program)).makespan_ns, 0);
  }
}

// Turn by turn, as count_unit_steps() is defined; nothing where a turn moves no rank.
std::optional<std::int64_t> steps_turn_by_turn(const Schedule& program) {
  std::set<std::tuple<Kind, int, int>> sent;   // SEND_F or SEND_B
  std::set<std::tuple<Kind, int, int>> ready;  // F or B: what it needs is on its rank
  const auto can_run = [&](const Action& a) {
    switch (a.kind) {
      case Kind::F: return a.stage == 0 || ready.contains({Kind::F, a.stage, a.microbatch});
      case Kind::I:
      case Kind::B:
        return a.stage == program.stages() - 1 || ready.contains({Kind::B, a.stage, a.microbatch});
      case Kind::RECV_F: return sent.contains({Kind::SEND_F, a.stage - 1, a.microbatch});
      case Kind::RECV_B: return sent.contains({Kind::SEND_B, a.stage + 1, a.microbatch});
      default: return true;
    }
  };
  const auto run = [&](const Action& a) {
    const auto rank_of = [&](int stage) { return program.placement.rank_of(stage); };
    const bool last = a.stage == program.stages() - 1;
    if (is_send(a.kind)) sent.insert({a.kind, a.stage, a.microbatch});
    if (a.kind == Kind::RECV_F) ready.insert({Kind::F, a.stage, a.microbatch});
    if (a.kind == Kind::RECV_B) ready.insert({Kind::B, a.stage, a.microbatch});
    if (a.kind == Kind::F && !last && rank_of(a.stage) == rank_of(a.stage + 1)) {
      ready.insert({Kind::F, a.stage + 1, a.microbatch});
    }
    if (is_backward(a.kind) && a.stage > 0 && rank_of(a.stage) == rank_of(a.stage - 1)) {
      ready.insert({Kind::B, a.stage - 1, a.microbatch});
    }
  };
  std::vector<std::size_t> next(static_cast<std::size_t>(program.ranks()));
  for (std::int64_t steps = 0;; ++steps) {
    bool unfinished = false;
    std::set<int> moved;
    for (const bool receiving : {false, true}) {
      for (int rank = 0; rank < program.ranks(); ++rank) {
        const auto list = program.actions[rank];
        std::size_t& at = next[static_cast<std::size_t>(rank)];
        while (!receiving && at < list.size() && list[at].kind == Kind::IDLE) ++at;
        if (at == list.size() || moved.contains(rank)) continue;
        const std::size_t size = cell_size(list.data() + at, list.data() + list.size());
        const auto cell = list.subspan(at, size);
        const bool receives = std::ranges::any_of(cell, is_receive, &Action::kind);
        unfinished = true;
        if (receives && !receiving) {
          for (const Action& a : cell) {
            if (is_send(a.kind)) run(a);
          }
        }
        if (receives != receiving || !std::ranges::all_of(cell, can_run)) continue;
        std::ranges::for_each(cell, run);
        at += size;
        moved.insert(rank);
      }
    }
    if (!unfinished) return steps;
    if (moved.empty()) return std::nullopt;
  }
}

TEST(Lowering, UnitStepsAreThoseCountedTurnByTurn) {
  std::mt19937_64 random(3);
  int counted = 0;
  int deadlocked = 0;
  for (int i = 0; i < 1000; ++i) {
    Schedule program = lower(testing::random_schedule(random));
    if (i % 2 == 0) testing::shuffle(program, random);
    if (const auto steps = steps_turn_by_turn(program)) {
      ASSERT_EQ(count_unit_steps(program), *steps) << to_csv(program);
      ++counted;
    } else {
      ASSERT_THROW(count_unit_steps(program), Error) << to_csv(program);
      ++deadlocked;
    }
  }
  EXPECT_GT(counted, 500);
  EXPECT_GT(deadlocked, 20);
}

TEST(Deadlock, NegativeGoldenNeedsBuffersOrAFifoAnEdge) {
  const Schedule program = read_csv(golden("recv_before_consumer_deadlocks.csv"));
  EXPECT_EQ(count_unit_steps(program), 42);
  EXPECT_EQ(find_deadlock(program, SendMode::buffered), std::nullopt);
  EXPECT_EQ(find_deadlock(program, SendMode::edge_fifo), std::nullopt);
  const auto rendezvous = find_deadlock(program, SendMode::rendezvous);
  ASSERT_TRUE(rendezvous);
  EXPECT_EQ(*rendezvous,
            "deadlock: 0SEND_F1 on rank 0 waits for 1RECV_F1, which comes after 1SEND_F0 on rank "
            "1; 1SEND_F0 on rank 1 waits for 2RECV_F0, which comes after 0SEND_F1 on rank 0");
  const auto fifo = find_deadlock(program, SendMode::fifo);
  ASSERT_TRUE(fifo);
  EXPECT_NE(fifo->find("rank 0's transfers"), std::string::npos) << *fifo;
}

TEST(Deadlock, HeadToHeadSendsNeedBuffers) {
  // Both ranks send before they receive: fine buffered, a cycle otherwise.
  const Schedule program = parse_csv(
      "0F0,0SEND_F0,2RECV_F0,2F0,2SEND_F0,2RECV_B0,2B0,2SEND_B0,0RECV_B0,0B0\n"
      "1RECV_F0,1F0,1SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,1RECV_B0,1B0,1SEND_B0\n",
      "fine.csv");
  for (const SendMode t : all_send_modes()) EXPECT_FALSE(find_deadlock(program, t));
  const Schedule crossed = parse_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2B0,2SEND_B0,2RECV_F1,2F1,2B1,2SEND_B1,0RECV_B0,0B0,"
      "0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,1RECV_B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1\n",
      "crossed.csv");
  EXPECT_FALSE(find_deadlock(crossed, SendMode::buffered));
  EXPECT_TRUE(find_deadlock(crossed, SendMode::rendezvous));
}

TEST(Deadlock, ABatchOfTransfersProgressesTogether) {
  const auto program = [](const std::string& exchange0, const std::string& exchange1) {
    return parse_csv("0F0,0SEND_F0,0F1," + exchange0 +
                         ",2F0,2B0,2RECV_F1,2SEND_B0,2F1,2B1,2SEND_B1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                         "1RECV_F0,1F0," +
                         exchange1 + ",1F1,1SEND_F1,1RECV_B0,1B0,1RECV_B1,1B1,1SEND_B0,1SEND_B1\n",
                     "batch.csv");
  };
  const Schedule apart = program("0SEND_F1,2RECV_F0", "1SEND_F0,1RECV_F1");
  const Schedule batched = program("(0SEND_F1;2RECV_F0)BATCH_P2P", "(1SEND_F0;1RECV_F1)BATCH_P2P");
  for (const SendMode t : {SendMode::rendezvous, SendMode::fifo}) {
    EXPECT_TRUE(find_deadlock(apart, t));
    EXPECT_EQ(find_deadlock(batched, t), std::nullopt);
  }
  EXPECT_EQ(count_unit_steps(batched), 16);
}

TEST(Deadlock, LoweredRandomSchedulesRunOnEveryTransport) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 500; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    EXPECT_FALSE(find_deadlock(schedule, SendMode::buffered));
    const Schedule program = lower(schedule);
    for (const SendMode t : all_send_modes()) {
      const auto cycle = find_deadlock(program, t);
      ASSERT_FALSE(cycle) << send_mode_name(t) << ": " << *cycle << "\n" << to_csv(program);
    }
  }
}

// An untimed interpreter of a few lines, sharing nothing with the checker: each
// rank's list is dealt to queues; a compute cell at a head runs once its inputs
// are done, a transfer once both its ends are at heads and its data is there.
bool finishes(const Schedule& program, SendMode mode) {
  std::map<std::array<int, 3>, std::vector<Action>> queues;
  for (int r = 0; r < program.ranks(); ++r) {
    for (const Action& a : program.actions[r]) {
      if (a.kind == Kind::IDLE) continue;
      std::array<int, 3> key{r, -1, -1};
      if (is_transfer(a.kind) && mode == SendMode::fifo) key = {r, r, -1};
      if (is_transfer(a.kind) && mode == SendMode::edge_fifo) {
        const int peer = program.placement.rank_of(peer_of(a).stage);
        key = is_send(a.kind) ? std::array{r, r, peer} : std::array{r, peer, r};
      }
      queues[key].push_back(a);
    }
  }
  std::set<std::tuple<int, Kind, int>> done;
  const auto has = [&](int stage, Kind kind, int mb) { return done.contains({stage, kind, mb}); };
  const auto backward = [&](int stage, int mb) {
    return has(stage, Kind::I, mb) || has(stage, Kind::B, mb);
  };
  const auto ready = [&](const Action& a) {
    const int from = a.kind == Kind::F ? a.stage - 1 : a.stage + 1;
    if (a.kind == Kind::SEND_F) return has(a.stage, Kind::F, a.microbatch);
    if (a.kind == Kind::SEND_B) return backward(a.stage, a.microbatch);
    if ((a.kind != Kind::F && !is_backward(a.kind)) || from < 0 || from == program.stages())
      return true;
    if (program.placement.rank_of(from) != program.placement.rank_of(a.stage)) {
      return has(a.stage, a.kind == Kind::F ? Kind::RECV_F : Kind::RECV_B, a.microbatch);
    }
    return a.kind == Kind::F ? has(from, Kind::F, a.microbatch) : backward(from, a.microbatch);
  };
  const auto finish = [&](std::vector<Action>& queue) {
    const Action a = queue.front();
    done.insert({a.stage, a.kind, a.microbatch});
    queue.erase(queue.begin());
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [key, queue] : queues) {
      if (queue.empty()) continue;
      const Action head = queue.front();
      if (!is_transfer(head.kind)) {
        if (!ready(head) || (head.joined && !ready(queue[1]))) continue;
        finish(queue);
        if (head.joined) finish(queue);
        moved = true;
        continue;
      }
      if (!is_send(head.kind) || !ready(head)) continue;
      for (auto& [other_key, other] : queues) {
        if (other.empty() || other.front() != peer_of(head)) continue;
        finish(queue);
        finish(other);
        moved = true;
        break;
      }
    }
  }
  return std::ranges::all_of(queues, [](const auto& entry) { return entry.second.empty(); });
}

TEST(Deadlock, AgreesWithAnUntimedInterpreterOnShuffledPrograms) {
  std::mt19937_64 random(13);
  std::map<SendMode, int> deadlocks;
  for (int i = 0; i < 1500; ++i) {
    Schedule program = lower(testing::random_schedule(random));
    testing::shuffle(program, random);
    for (const SendMode t : {SendMode::rendezvous, SendMode::fifo, SendMode::edge_fifo}) {
      const bool runs = finishes(program, t);
      deadlocks[t] += runs ? 0 : 1;
      const auto cycle = find_deadlock(program, t);
      ASSERT_EQ(!cycle.has_value(), runs) << send_mode_name(t) << "\n" << to_csv(program);
    }
  }
  for (const auto& [mode, count] : deadlocks) EXPECT_GT(count, 20) << send_mode_name(mode);
}

TEST(Deadlock, AnEdgesEndsInDifferentOrdersAreACycle) {
  const Schedule program = parse_csv(
      "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
      "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
      "ends.csv");
  EXPECT_EQ(find_deadlock(program, SendMode::buffered).has_value(), true);
  const auto cycle = find_deadlock(program, SendMode::edge_fifo);
  ASSERT_TRUE(cycle);
  EXPECT_NE(cycle->find("0SEND_F0 on rank 0's end of edge 0->1 waits for 1RECV_F0"),
            std::string::npos)
      << *cycle;
}

// --- files

TEST(Csv, RoundTripsEveryGolden) {
  for (const std::string& name : goldens) {
    const Schedule read = read_csv(golden(name));
    const std::string written = to_csv(read);
    std::string original = read_file(golden(name));
    std::string lf;
    for (const char c : written) {
      if (c != '\r') lf += c;
    }
    EXPECT_EQ(lf, original) << name;
    EXPECT_EQ(written.find("\r\n"), written.find('\n') - 1);
    EXPECT_EQ(to_csv(parse_csv(written, name)), written);
  }
}

TEST(Csv, ReadsTheDialectOf2024) {
  const Schedule schedule = parse_csv("0F0,0B0,0W0,0F1,0BW1\r\n", "old.csv");
  EXPECT_EQ(csv_row(schedule.actions[0]), "0F0,0I0,0W0,0F1,0B1");
  EXPECT_EQ(csv_row(parse_csv("0F0,0BW0\n", "old.csv").actions[0]), "0F0,0B0");
  EXPECT_EQ(csv_error("0F0,0I0,0W0,0F1,0BW1\n").substr(0, 12), "f.csv:1:17: ");
}

TEST(Csv, ToleratesWhatSpreadsheetsDo) {
  EXPECT_EQ(csv_row(parse_csv("\xef\xbb\xbf\"0F0\", 0B0 ,\r\n\r\n", "s.csv").actions[0]),
            "0F0,0B0,");
}

TEST(Csv, PointsAtTheFaultyCell) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "f.csv: has no schedule"},
      {"\n\n", "f.csv: has no schedule"},
      {"0F0,0X0\n", "f.csv:1:5: '0X0' is not an action"},
      {"0F0,0B0junk\n", "f.csv:1:5: '0B0junk' is not an action"},
      {"0F0,0B\n", "f.csv:1:5: '0B' is not an action"},
      {"0F0,0B0,0OPTIMIZER\n", "f.csv:1:9: '0OPTIMIZER' is not an action"},
      {"0F0,0B0,0UNSHARD0\n", "f.csv:1:9: '0UNSHARD0' is not an action"},
      {"0F0,-1B0\n", "f.csv:1:5: '-1B0' is not an action"},
      {"0F0,0B9999999999\n", "f.csv:1:5: '0B9999999999' is not an action"},
      {"0F0,0B0\n\n1F0,1B0\n", "f.csv:2:1: rank 1 has no action"},
      {"0F0,0B0\n0F1,0B1\n", "f.csv:2:1: stage 0 is on rank 0 too"},
      {"0F0,0B0\n2F0,2B0\n", "f.csv:2:1: 2F0, but no rank holds stage 1"},
      {"0F0,0B0,0F0\n", "f.csv:1:9: rank 0: 0F0 is done twice"},
      {"0F0,0B0,0B0\n", "f.csv:1:9: rank 0: 0B0 is done twice"},
      {"0F0,0F1,0B0,0REDUCE_GRAD,0B1\n",
       "f.csv:1:26: rank 0: 0B1 makes gradients after the last 0REDUCE_GRAD, which are then "
       "never reduced"},
      {"0UNSHARD,0F0,0B0\n",
       "f.csv:1:1: rank 0: 0UNSHARD is never released; put 0RESHARD after its last use"},
      {"0UNSHARD,0F0,0RESHARD,0UNSHARD,0B0\n", "f.csv:1:23: rank 0: 0UNSHARD is never released"},
      {"0B0,0F0\n", "f.csv:1:1: rank 0: 0B0 needs 0F0 before it"},
      {"0F0,0W0,0I0\n", "f.csv:1:5: rank 0: 0W0 needs 0I0 before it"},
      {"0F0,0I0,0W0,0B0\n", "f.csv:1:13: rank 0: 0B0 repeats a backward"},
      {"0F0,0B0,0F1,0I1\n", "f.csv:1:16: rank 0: 0W1 is missing"},
      {"0F0,0F1,0B0\n", "f.csv:1:12: rank 0: 0B1 is missing"},
      {"0F0,0B0,0F2,0B2\n", "f.csv:1:16: rank 0: stage 0 has 2 of 3 forwards"},
      {"0F0,0B0\n1F0,1B0,1F1,1B1\n", "f.csv:1:8: rank 0: stage 0 has 1 of 2 forwards"},
      {"0F0,0B0,0F900000\n", "f.csv:1:9: microbatch 900000 in a file of 3 actions"},
      {"0F0,0B0,900000F0\n", "f.csv:1:9: stage 900000 in a file of 3 actions"},
      {"(0F0;0B0)OVERLAP_F_B\n", "f.csv:1:1: rank 0: 0B0 needs 0F0 and so cannot overlap it"},
      {"0F0,(0B0;0F1)OVERLAP_F_B,0B1\n", "f.csv:1:5: rank 0: 0B0 and 0F1 cannot share a cell"},
      {"0F0,(0F1;0B0)OVERLAP,0B1\n", "f.csv:1:5: '(0F1;0B0)OVERLAP' must end in"},
      {"0F0,(0F1;0B0;0W0)OVERLAP_F_B\n", "f.csv:1:5: '(0F1;0B0;0W0)OVERLAP_F_B' joins 3 actions"},
      {"0F0,(0F1)BATCH_P2P\n", "f.csv:1:5: '0F1' in a BATCH_P2P is neither SEND nor RECV"},
      {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n",
       "f.csv:2:1: rank 1: 1F0 needs 1RECV_F0 before it"},
      {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n", "f.csv:2:17: rank 1: 1SEND_B0 is missing"},
      {"0F0,0SEND_F0,0B0\n", "f.csv:1:5: rank 0: 0SEND_F0 has no other end"},
      {"0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
       "f.csv:1:1: rank 0: 0SEND_F0 needs 0F0 before it"},
      {"0F0,1F0,1RECV_F0,1B0,0B0\n",
       "f.csv:1:9: rank 0: 1RECV_F0 has its other end on its own rank"},
  };
  for (const auto& [text, want] : cases) {
    const std::string got = csv_error(text);
    EXPECT_EQ(got.substr(0, want.size()), want) << "for " << quote(text) << "\ngot " << got;
  }
}

// A file cut off anywhere is never taken for a whole one.
TEST(Csv, RefusesTruncatedFiles) {
  for (const std::string& name : {goldens[4], goldens[9]}) {
    const std::string whole = read_file(golden(name));
    for (std::size_t length = 0; length + 1 < whole.size(); ++length) {
      EXPECT_NE(csv_error(whole.substr(0, length)), testing::no_error)
          << name << " cut at " << length;
    }
  }
}

TEST(Placement, LoopVAndArbitrary) {
  EXPECT_EQ(Placement::parse("loop", 2, 2).rank_of_stage(), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(Placement::parse("v", 2, 3).rank_of_stage(), (std::vector<int>{0, 1, 1, 0, 0, 1}));
  const Placement odd = Placement::parse("0,0,1,1,0", 2, 3);
  EXPECT_EQ(odd.stages_of(0), (std::vector<int>{0, 1, 4}));
  EXPECT_EQ(odd.chunk_of(4), 2);
  EXPECT_FALSE(odd.even());
  EXPECT_THROW(Placement::parse("0,2", 2, 1), Error);
  EXPECT_THROW(Placement::parse("0,1,2", 2, 1), Error);
  EXPECT_THROW(Placement::parse("0,-1", 2, 1), Error);
  EXPECT_THROW(Placement::parse("w", 2, 1), Error);
}

TEST(Placement, FilesMayPlaceStagesUnevenly) {
  const Schedule schedule = parse_csv(
      "0F0,1F0,4F0,4B0,1B0,0B0\n"
      "2F0,3F0,3B0,2B0\n",
      "uneven.csv");
  EXPECT_EQ(schedule.placement.rank_of_stage(), (std::vector<int>{0, 0, 1, 1, 0}));
  EXPECT_EQ(simulate(schedule, unit_costs(schedule)).makespan_ns, 15);
}

}  // namespace
}  // namespace pipesim
