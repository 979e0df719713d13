// Profiles that name no action, and those that can't be read as a run.
#include <gtest/gtest.h>

#include "tests/profiles.h"
#include "traces/read/profile/range_name.h"

namespace pipesim {
namespace {

using namespace pipesim::testing;

// Profiles of others, whose functions run one microbatch each.
Json turns_of(int rank) {
  Profile profile(rank);
  double at = 0;
  for (int iteration = 0; iteration < 2; ++iteration) {
    profile.range("ProfilerStep#" + std::to_string(iteration + 7), at, 100);
    const std::string files = "megatron/core/pipeline_parallel/schedules.py(262): ";
    for (const char* name : {"forward_step", "forward_step", "backward_step", "backward_step"}) {
      at += 10;
      profile.event("python_function", files + name, 100, 100, at, 8);
      profile.event("python_function", std::string("pretrain_gpt.py(9): ") + name, 100, 100, at + 1,
                    5);
      profile.kernel(at + 2, at + 1000, 8);
    }
    at += 60;
  }
  return profile.json();
}

TEST(KinetoInferred, TellsTheNthOfAKind) {
  ReadOptions options;
  options.profile.program = {"0F0,0F1,0B0,0B1", ",1F0,1F1,1I1,1I0"};
  const RecordedRun run = read({turns_of(0), turns_of(1)}, options);
  EXPECT_EQ(run.identified, Identified::inferred);
  EXPECT_EQ(run.about.program, options.profile.program);
  ASSERT_EQ(run.iterations.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(run.iterations[i].number, static_cast<int>(i) + 7);
    EXPECT_EQ(order_of(run, i, 0, false), (std::vector<std::string>{"0F0", "0F1", "0B0", "0B1"}));
    EXPECT_EQ(order_of(run, i, 1, false), (std::vector<std::string>{"1F0", "1F1", "1I1", "1I0"}));
  }
  EXPECT_EQ(times(run, "0F1"), Times(10'000, 18'000));
}

TEST(KinetoInferred, CountsWhereThereAreNoSteps) {
  std::vector<Json> traces = {turns_of(0), turns_of(1)};
  for (Json& trace : traces) remove_events(trace, "ProfilerStep#");
  ReadOptions options;
  options.profile.program = {"0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1"};
  const RecordedRun run = read(traces, options);
  ASSERT_EQ(run.iterations.size(), 2U);
  EXPECT_EQ(order_of(run, 1, 1, false), (std::vector<std::string>{"1F0", "1F1", "1B0", "1B1"}));
}

TEST(KinetoInferred, RefusesWhatDoesNotFit) {
  const std::vector<Json> traces = {turns_of(0), turns_of(1)};
  EXPECT_EQ(
      refusal(traces),
      "trace0.json: no range like `PP:0F0` or `Forward 0` says which action of a pipeline ran, "
      "but it holds 8 backward_step, 8 forward_step: give the schedule that ran by "
      "--schedule, whose order tells which is the n-th of them");
  ReadOptions options;
  options.profile.program = {"0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1F1,1F2,1B0,1B1,1B2"};
  EXPECT_EQ(refusal(traces, options),
            "trace0.json: iteration 7 of rank 0 has 2 forwards, the schedule 3; give the schedule "
            "that ran by --schedule");
  options.profile.program = {"0F0,0F1,0I0,0W0,0I1,0W1", "1F0,1F1,1I0,1W0,1I1,1W1"};
  EXPECT_EQ(refusal(traces, options),
            "trace0.json: rank 0 has no weight gradients, the schedule 2 per iteration; give the "
            "schedule that ran by --schedule");
  options.profile.program = {"0F0,0F1,0B0,0B1"};
  EXPECT_EQ(refusal(traces, options),
            "trace0.json: the schedule has 1 rank, the files 2; give one of each rank, or name "
            "those of one pipeline by --ranks");
  options.profile.program = {"0F0,0F1,0B0,0B1", "what"};
  EXPECT_EQ(refusal(traces, options), "the schedule's row of rank 1: 'what' is not an action");
}

TEST(KinetoInput, RefusesARankTwice) {
  const std::string message =
      refusal_of({recorded("1f1b.rank0.json.gz"), recorded("interleaved.rank0.json.gz")});
  EXPECT_NE(message.find("1f1b.rank0.json.gz and "), std::string::npos) << message;
  EXPECT_NE(message.find("interleaved.rank0.json.gz: both are from rank 0; give one for each rank"),
            std::string::npos)
      << message;
}

TEST(KinetoInput, RefusesAPartOfThePipeline) {
  const std::string message = refusal_of({recorded("interleaved.rank0.json.gz")});
  EXPECT_NE(
      message.find("nothing here is from stages 1, 3: files of some ranks are not given (1 of 2 "
                   "here), or their kernels were lost; give the files of all ranks of the "
                   "pipeline"),
      std::string::npos)
      << message;
}

// Ranges that name no stage are of the first rank that is given, but their messages tell.
TEST(KinetoInput, RefusesARankWhoseNeighbourIsNotGiven) {
  const std::string message = refusal_of({recorded("gpipe.rank1.json.gz")});
  EXPECT_NE(message.find("nothing here is from the stage at the other end of 0RECV_F0: files of "
                         "some ranks are not given (1 of 2 here)"),
            std::string::npos)
      << message;
}

TEST(KinetoInput, RefusesReplicas) {
  std::vector<Json> traces = two_ranks();
  Json replica = traces[0];
  replica["distributedInfo"]["rank"] = 2;
  traces.push_back(replica);
  EXPECT_EQ(refusal(traces),
            "trace0.json and trace2.json: stage 0 ran in both, as of two replicas or of one rank "
            "twice; give the files of one pipeline, or name its ranks by --ranks");
}

TEST(KinetoInput, RefusesARankThatSendsForAnother) {
  std::vector<Json> traces = two_ranks();
  Profile third(2);
  third.range("PP:0SEND_F1", 0, 10).message(1, 20, 10);
  third.range("Optimizer.step#SGD.step", 30, 5).kernel(31, 50, 5);
  traces.push_back(third.json());
  EXPECT_EQ(refusal(traces),
            "trace0.json and trace2.json: stage 0 ran in both, as of two replicas or of one rank "
            "twice; give the files of one pipeline, or name its ranks by --ranks");
}

TEST(KinetoInput, TakesOnePipelineOfALargerJob) {
  std::vector<Json> traces = two_ranks();
  for (int i = 0; i < 2; ++i) {
    auto& info = traces[static_cast<std::size_t>(i)]["distributedInfo"];
    info["rank"] = 4 + i;
    info["world_size"] = 8;
  }
  const RecordedRun run = read(traces);
  EXPECT_EQ(rows_of(run), rows_of(read(two_ranks())));
  const std::string warnings = run.warnings.text();
  EXPECT_NE(warnings.find("ranks 4, 5 of the job are taken as the pipeline's"), std::string::npos);
  EXPECT_NE(warnings.find("the job had 8 ranks, of which 2 are given"), std::string::npos);
}

TEST(KinetoInput, RefusesWhatIsNoPipeline) {
  Profile other(0, 1);
  other.range("Optimizer.step#SGD.step", 0, 10).kernel(1, 20, 10);
  other.range("DistributedDataParallel.forward", 20, 10);
  EXPECT_EQ(refusal({other.json()}),
            "trace0.json: no range like `PP:0F0` or `Forward 0` says which action of a pipeline "
            "ran; it holds 4 events: 2 user_annotation, 1 cuda_runtime, 1 kernel; give the traces "
            "of a run by torch.distributed.pipelining");
  std::vector<Json> traces = two_ranks();
  traces[1] = other.json();
  traces[1]["distributedInfo"] = {{"rank", 1}, {"world_size", 2}};
  EXPECT_NE(refusal(traces).find("trace1.json: no range like"), std::string::npos);
}

TEST(KinetoInput, SaysWhatTracesOfOthersHold) {
  const auto message = [](const std::string& name) {
    return refusal_of({testing::source_file("tests/data/traces/" + name)});
  };
  EXPECT_NE(message("hta_amd_mi250.json.gz")
                .find("it holds 220 events: 70 cpu_op, 21 cuda_runtime, 14 kernel, 3 "
                      "user_annotation, 2 gpu_memcpy, ...; give the traces of a run by"),
            std::string::npos);
  EXPECT_NE(message("hta_backward_thread.json")
                .find("it holds 7 events: 3 cpu_op, 2 user_annotation, 1 cuda_runtime, 1 kernel;"),
            std::string::npos);
  EXPECT_NE(message("hta_event_sync.json.gz").find("it holds 149 events: 39 cuda_runtime, "),
            std::string::npos);
}

TEST(KinetoInput, RefusesMicrobatchesWithGaps) {
  Profile only(0, 1);
  only.range("PP:0F0", 0, 10).range("PP:0F999999999", 20, 10);
  EXPECT_EQ(refusal({only.json()}),
            "trace0.json: it has microbatch 999999999 but not 1; record whole iterations");
}

TEST(KinetoInput, RefusesTimesThatAreFarApart) {
  Profile only(0, 1);
  only.range("PP:0F0", 0, 10).range("PP:0F1", 2e12, 10);
  EXPECT_EQ(refusal({only.json()}),
            "trace0.json: 0F1 is more than 11 days from the first iteration; omit what is not "
            "of the run");
}

TEST(KinetoInput, WarnsOfRangesOfUnknownKinds) {
  Profile only(0, 1);
  only.range("PP:0F0", 0, 10).range("PP:0DREAM0", 20, 10).range("PP:0WAIT_REDUCE_GRAD", 30, 1);
  const RecordedRun run = read({only.json()});
  EXPECT_EQ(run.unmatched, 1);
  EXPECT_EQ(run.spans.size(), 1U);
  EXPECT_NE(run.warnings.text().find("ranges PP: of an unknown kind, left out"), std::string::npos);
}

TEST(KinetoInput, TellsIterationsByRecurrenceWithinAStep) {
  Profile only(0, 1);
  only.range("ProfilerStep#5", 0, 100);
  only.range("PP:0F0", 0, 10).range("PP:0B0", 10, 10);
  only.range("PP:0F0", 50, 10).range("PP:0B0", 60, 10);
  const RecordedRun run = read({only.json()});
  EXPECT_EQ(run.iterations.size(), 2U);
  EXPECT_NE(run.warnings.text().find("recurs within a ProfilerStep"), std::string::npos);
}

TEST(RangeName, SaysWhatItKnows) {
  using Says = RangeName::Says;
  const auto says = [](std::string_view name) { return parse_range_name(name).says; };
  EXPECT_EQ(says("PP:0F0"), Says::action);
  EXPECT_EQ(says("PP:12SEND_B345"), Says::action);
  EXPECT_EQ(says("PP:0REDUCE_GRAD"), Says::action);
  EXPECT_EQ(says("PP:(1F0;2B1)OVERLAP_F_B"), Says::action);
  EXPECT_EQ(says("PP:(1F0;2I1)OVERLAP_F_B"), Says::action);
  EXPECT_EQ(says("PP:(1B0;2F1)OVERLAP_F_B"), Says::unknown);
  EXPECT_EQ(says("PP:(1F0)OVERLAP_F_B"), Says::unknown);
  EXPECT_EQ(says("PP:0WAIT_SEND_F1"), Says::wait);
  EXPECT_EQ(says("PP:"), Says::unknown);
  EXPECT_EQ(says("PP:WAIT_SEND_F1"), Says::unknown);
  EXPECT_EQ(says("Forward 3"), Says::microbatch);
  EXPECT_EQ(parse_range_name("Backward 3").action, make_action(0, Kind::B, 3));
  EXPECT_EQ(says("Forward 2147483647"), Says::nothing);
  EXPECT_EQ(says("Forward -1"), Says::nothing);
  EXPECT_EQ(says("Forward pass"), Says::nothing);
  EXPECT_EQ(parse_range_name("ProfilerStep#17").number, 17);
  EXPECT_EQ(says("ProfilerStep#99999999999"), Says::nothing);
  EXPECT_EQ(says("ProfilerStep*"), Says::nothing);
  EXPECT_EQ(says("Optimizer.step#AdamW.step"), Says::optimizer);
  EXPECT_EQ(says("Optimizer.zero_grad#AdamW.zero_grad"), Says::nothing);
  EXPECT_EQ(says("torch/distributed/pipelining/stage.py(9): backward_weight_one_chunk"),
            Says::turn);
  EXPECT_EQ(says("forward_step"), Says::turn);
  EXPECT_EQ(says("my_forward_step"), Says::nothing);
  EXPECT_EQ(says("aten::mm"), Says::nothing);
}

}  // namespace
}  // namespace pipesim
