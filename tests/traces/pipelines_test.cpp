// Jobs with data and tensor replicas: which ranks are one pipeline.
#include "traces/read/profile/pipelines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "tests/megatron.h"

namespace pipesim {
namespace {

using namespace pipesim::testing;
using Ranks = std::vector<int>;

// The files of a job, of some or all of its ranks; named by ranks where `by_name`.
class JobFiles {
 public:
  using Change = std::function<void(int rank, Json& trace)>;

  explicit JobFiles(const MegatronRun& of, const Change& change = {}, Ranks ranks = {}) : of_(of) {
    if (ranks.empty()) ranks = of.job.group(0, 1, of.job.ranks());
    for (const int rank : ranks) {
      Json trace = of.profile(rank);
      if (change) change(rank, trace);
      paths_.push_back(write(folder_, "r" + std::to_string(rank) + ".json", trace));
    }
  }
  const Paths& paths() const { return paths_; }

  RecordedRun read(ProfileOptions profile = {}) const {
    if (profile.program.empty()) profile.program = of_.program();
    return read_run(paths_, {.profile = std::move(profile)});
  }
  std::string refusal(ProfileOptions profile = {}) const {
    if (profile.program.empty()) profile.program = of_.program();
    std::string text = refusal_of(paths_, {.profile = std::move(profile)});
    const std::string folder = folder_.path().string() + "/";
    for (std::size_t at = 0; (at = text.find(folder)) != std::string::npos;) {
      text.erase(at, folder.size());
    }
    return text;
  }

 private:
  const MegatronRun& of_;
  TemporaryFolder folder_;
  Paths paths_;
};

ProfileOptions by_ranks(Ranks ranks) {
  return {.program = {}, .ranks = std::move(ranks), .replica = {}};
}
ProfileOptions by_replica(int number) { return {.program = {}, .ranks = {}, .replica = number}; }

// Both iterations are as they were predicted, times as long as that replica takes.
void expect_replica(const RecordedRun& read, const MegatronRun& of, int replica) {
  std::vector<Row> expected;
  for (const Span& span : of.run.spans) {
    if (!is_compute(span.action.kind)) continue;
    expected.emplace_back(to_text(span.action), span.rank, span.start_ns * (replica + 1),
                          span.end_ns * (replica + 1), 0);
  }
  ASSERT_EQ(read.iterations.size(), 2U);
  EXPECT_EQ(read.ranks, of.job.pipeline);
  for (const RecordedIteration& iteration : read.iterations) {
    std::vector<Row> rows;
    for (const Span& span : read.spans_of(iteration)) {
      rows.emplace_back(to_text(span.action), span.rank, span.start_ns - iteration.start_ns,
                        span.end_ns - iteration.start_ns, span.queued_ns);
    }
    EXPECT_EQ(rows, expected);
  }
}

void expect_said(const RecordedRun& run, const std::string& what) {
  const auto& kinds = run.warnings.kinds();
  EXPECT_TRUE(std::ranges::any_of(kinds, [&](const auto& kind) { return kind.what == what; }))
      << what << " is not in\n"
      << run.warnings.text();
}

TEST(Pipelines, AreToldByProcessGroups) {
  for (const char* family : {"1f1b", "interleaved"}) {
    const MegatronRun of(family);
    const JobFiles files(of);
    for (int replica = 0; replica < 4; ++replica) {
      const RecordedRun run = files.read(by_replica(replica + 1));
      expect_replica(run, of, replica);
      EXPECT_EQ(run.identified, Identified::inferred);
      expect_said(run, fmt::format("pipeline {} of 4: ranks {}, {}; others by --replica {}",
                                   replica + 1, replica, replica + 4, (replica + 1) % 4 + 1));
      EXPECT_TRUE(run.name.ends_with("r" + std::to_string(replica) + ".json and 1 more"))
          << run.name;
    }
    expect_replica(files.read(), of, 0);
  }
}

// By whom each sends to, where groups have no names.
TEST(Pipelines, AreToldByMessages) {
  const MegatronRun of;
  const JobFiles files(of, [](int, Json& trace) { remove_groups(trace); });
  expect_replica(files.read(), of, 0);
  const RecordedRun third = files.read(by_replica(3));
  expect_replica(third, of, 2);
  expect_said(third, "pipeline 3 of 4: ranks 2, 6; others by --replica 4");
}

TEST(Pipelines, AreNamedByTheUser) {
  const MegatronRun of;
  const JobFiles files(of, [](int, Json& trace) {
    remove_groups(trace);
    remove_peers(trace);
  });
  EXPECT_EQ(files.refusal(),
            "r0.json: the schedule has 2 ranks, the files 8; give one of each rank, or name those "
            "of one pipeline by --ranks");
  EXPECT_EQ(files.refusal(by_replica(2)),
            "--replica: r0.json: neither process groups nor messages tell which ranks are a "
            "pipeline; name its ranks by --ranks");
  const RecordedRun run = files.read(by_ranks({1, 5}));
  expect_replica(run, of, 1);
  expect_said(run, "ranks 1, 5 of the job's 8 are the pipeline, as --ranks says");
  // Also against what groups say.
  expect_replica(JobFiles(of).read(by_ranks({2, 6})), of, 2);
}

TEST(Pipelines, NeedNotBeTheWholeJob) {
  const MegatronRun of("1f1b", 8, {.tensor = 2, .data = 1, .pipeline = 4});
  const JobFiles one(of, {}, {6, 0, 4, 2});
  const RecordedRun run = one.read();
  expect_replica(run, of, 0);
  expect_said(run, "ranks 0, 2, 4, 6 of the job's 8 are its pipeline");
  EXPECT_EQ(one.refusal(by_replica(1)),
            "--replica: the files hold one pipeline, of the ranks 0, 2, 4, 6; omit it");
  const JobFiles more(of, {}, {0, 1, 2, 3, 4, 6});
  expect_said(more.read(),
              "ranks 0, 2, 4, 6 of the job's 8 are its pipeline; left out: ranks 1, 3, whose "
              "pipelines are incomplete");
  const JobFiles less(of, {}, {0, 2, 6});
  EXPECT_EQ(less.refusal(),
            "r0.json: its pipeline has the ranks 0, 2, 4, 6, and no file is from rank 4; give the "
            "files of all ranks of a pipeline");
}

TEST(Pipelines, OfAJobWithoutReplicasAreNotSpokenOf) {
  const MegatronRun of("1f1b", 4, {.tensor = 1, .data = 1, .pipeline = 2});
  const RecordedRun run = JobFiles(of).read();
  expect_replica(run, of, 0);
  EXPECT_EQ(run.warnings.text().find("pipeline 1"), std::string::npos) << run.warnings.text();
  EXPECT_EQ(run.warnings.text().find("of the job"), std::string::npos) << run.warnings.text();
}

// Files of other pipelines are told by what stands before their events.
TEST(Pipelines, AreNotReadToTheEndWhereOthersAre) {
  const MegatronRun of;
  const JobFiles files(of);
  for (const int rank : {1, 2, 3, 5, 6, 7}) {
    const std::string& path = files.paths()[static_cast<std::size_t>(rank)];
    const std::string text = read_file(path);
    write_file(path, text.substr(0, text.find("\"traceEvents\"") + 15));
  }
  expect_replica(files.read(), of, 0);
  expect_replica(files.read(by_ranks({0, 4})), of, 0);
}

// As Kineto writes them where it was started from outside: behind the events, and lists as text.
TEST(Pipelines, AreToldBehindTheEvents) {
  const MegatronRun of;
  const JobFiles files(of);
  for (const std::string& path : files.paths()) {
    Json trace = json_in(path);
    Json info = trace["distributedInfo"];
    for (Json& group : info["pg_config"]) group["ranks"] = group["ranks"].dump();
    trace.erase("distributedInfo");
    std::string text = trace.dump();
    text.pop_back();
    write_file(path, text + ",\"distributedInfo\":" + info.dump() + "}");
  }
  expect_replica(files.read(by_replica(2)), of, 1);
}

TEST(Pipelines, RefuseWhatDoesNotFit) {
  const MegatronRun of;
  const JobFiles files(of);
  EXPECT_EQ(files.refusal(by_replica(9)),
            "--replica: the files hold 4 pipelines, and 9 is none: 1 of the ranks 0, 4; 2 of the "
            "ranks 1, 5; 3 of the ranks 2, 6; 4 of the ranks 3, 7");
  EXPECT_EQ(files.refusal(by_ranks({0, 8})),
            "--ranks: no file is from rank 8; the files are from ranks 0, 1, 2, 3, 4, 5, 6, 7");
  EXPECT_EQ(files.refusal(by_ranks({0, 0})), "--ranks: 0 is given twice; name each rank once");
  EXPECT_EQ(files.refusal(by_ranks({4})),
            "--ranks: the schedule has 2 ranks, and 1 is named; name one of each");
  EXPECT_EQ(files.refusal(by_ranks({0, 4, 1})),
            "--ranks: the schedule has 2 ranks, and 3 are named; name one of each");
  const JobFiles one(of, {}, {0});
  EXPECT_EQ(one.refusal(by_replica(1)),
            "--replica says which of several files are a pipeline's, and one is given; omit it");
  const JobFiles nameless(of, [](int, Json& trace) { trace.erase("distributedInfo"); });
  EXPECT_EQ(nameless.refusal(by_ranks({0, 4})),
            "--ranks: r0.json does not say which rank it is from; put it into its name, as "
            "trace.rank3.json");
}

TEST(Pipelines, RefuseFilesOfTwoJobs) {
  const MegatronRun of;
  const JobFiles sizes(of, [](int rank, Json& trace) {
    if (rank == 3) trace["distributedInfo"]["world_size"] = 16;
  });
  EXPECT_EQ(sizes.refusal(),
            "r0.json and r3.json: the one's job had 8 ranks, the other's 16; give files of one "
            "job");
  const JobFiles groups(of, [](int rank, Json& trace) {
    if (rank == 4) trace["distributedInfo"]["pg_config"][3]["ranks"] = {2, 4};
  });
  EXPECT_EQ(groups.refusal(),
            "r0.json and r4.json: the first one's pipeline has the ranks 0, 4, the other's 2, 4; "
            "give files of one job");
  const JobFiles twice(of, [](int rank, Json& trace) {
    if (rank == 5) trace["distributedInfo"]["rank"] = 1;
  });
  EXPECT_EQ(twice.refusal(), "r1.json and r5.json: both are from rank 1; give one for each rank");
}

TEST(Pipelines, HaveGroupsByManyNames) {
  for (const char* name :
       {"PIPELINE_MODEL_PARALLEL_GROUP", "PIPELINE_MODEL_PARALLEL_GROUP_ALTERNATE", "mesh_pp",
        "mesh_infer_pp", "pp", "pipe", "Pipeline"}) {
    EXPECT_TRUE(names_pipeline(name)) << name;
  }
  for (const char* name :
       {"", "default_pg", "undefined", "DATA_PARALLEL_GROUP", "MODEL_PARALLEL_GROUP", "mesh_tp",
        "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", "mesh_dp_pp", "app", "EMBEDDING_GROUP"}) {
    EXPECT_FALSE(names_pipeline(name)) << name;
  }
}

}  // namespace
}  // namespace pipesim
