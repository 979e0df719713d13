// Profiles as PyTorch writes them of a Megatron-LM job with data and tensor replicas: a file a
// rank, whose ranges name forward_step and backward_step alone.
#pragma once

#include <string>
#include <vector>

#include "sim/engine/record_run.h"
#include "sim/schedule/family.h"
#include "tests/profiles.h"
#include "tests/random_schedule.h"

namespace pipesim::testing {

// Ranks count tensor replicas first, then data's, then the pipeline's, as by Megatron-LM's order
// tp-cp-ep-dp-pp.
struct MegatronJob {
  int tensor = 2, data = 2, pipeline = 2;

  int ranks() const { return tensor * data * pipeline; }
  int replicas() const { return tensor * data; }
  // Which of the pipelines a rank is of, and its place in that.
  int replica_of(int rank) const { return rank % replicas(); }
  int place_of(int rank) const { return rank / replicas(); }

  std::vector<int> pipeline_of(int rank) const {
    std::vector<int> ranks;
    for (int i = 0; i < pipeline; ++i) ranks.push_back(replica_of(rank) + i * replicas());
    return ranks;
  }
  std::vector<int> group(int first, int step, int count) const {
    std::vector<int> ranks;
    for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
    return ranks;
  }
};

// What ran: an iteration of a schedule, whose F take 1 ms a stage and B 2 ms. That of replica k
// takes k + 1 times as long, so that they can be told apart.
struct MegatronRun {
  MegatronJob job;
  Schedule schedule;
  RecordedRun run;  // of the first pipeline

  explicit MegatronRun(const std::string& family = "1f1b", int microbatches = 4,
                       const MegatronJob& of = {})
      : job(of) {
    ScheduleRequest request{family, job.pipeline, microbatches, {}, {}, {}};
    if (family == "interleaved") request.chunks = 2;
    schedule = generate(request);
    run = record_run(schedule, costs_of(schedule.placement.stages(), 1'000'000, 2'000'000, 50'000));
  }
  std::vector<std::string> program() const { return run.about.program; }

  // The profile of a rank, of so many iterations.
  Json profile(int rank, int iterations = 2) const {
    Profile made(rank, job.ranks());
    const int first = rank - rank % (job.tensor * job.data);
    const auto group = [&](int number, const char* name, const std::vector<int>& ranks) {
      return Json{{"pg_name", std::to_string(number)},
                  {"pg_desc", name},
                  {"backend_config", "cuda:nccl"},
                  {"pg_size", ranks.size()},
                  {"ranks", ranks}};
    };
    Json groups = Json::array();
    groups.push_back(group(0, "default_pg", job.group(0, 1, job.ranks())));
    groups.push_back(group(1, "DATA_PARALLEL_GROUP",
                           job.group(first + rank % job.tensor, job.tensor, job.data)));
    groups.push_back(group(2, "TENSOR_MODEL_PARALLEL_GROUP",
                           job.group(rank - rank % job.tensor, 1, job.tensor)));
    groups.push_back(group(3, "PIPELINE_MODEL_PARALLEL_GROUP", job.pipeline_of(rank)));
    groups.push_back(
        group(4, "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", job.group(0, 1, job.ranks())));
    made.json()["distributedInfo"]["pg_config"] = groups;
    made.json()["distributedInfo"]["pg_count"] = groups.size();
    const double scale = 1e-3 * (job.replica_of(rank) + 1);
    const double length = 1.5 * static_cast<double>(run.iterations[0].makespan_ns) * scale;
    for (int i = 0; i < iterations; ++i) add_iteration(made, rank, i + 3, i * length, scale);
    return made.json();
  }

 private:
  void add_iteration(Profile& made, int rank, int number, double from, double scale) const {
    const int place = job.place_of(rank);
    const double length = static_cast<double>(run.iterations[0].makespan_ns) * scale;
    made.range("ProfilerStep#" + std::to_string(number), from, 1.2 * length);
    for (const Span& span : run.spans) {
      if (span.rank != place || !is_compute(span.action.kind)) continue;
      const bool forward = span.action.kind == Kind::F;
      const double start = from + static_cast<double>(span.start_ns) * scale;
      const double time = static_cast<double>(span.end_ns - span.start_ns) * scale;
      const std::string files = "megatron/core/pipeline_parallel/schedules.py(262): ";
      made.event("python_function", files + (forward ? "forward_step" : "backward_step"), 100, 100,
                 start, time);
      if (forward) {  // the user's function of that name, within Megatron's
        made.event("python_function", "pretrain_gpt.py(190): forward_step", 100, 100, start + 1,
                   time / 2);
      }
      made.kernel(start + 1, start, time / 2).kernel(start + 2, start + time / 2, time / 2);
      add_messages(made, rank, start + time, forward);
    }
  }

  // Of the functions that send and receive, outside of forward_step and backward_step.
  void add_messages(Profile& made, int rank, double at, bool forward) const {
    const int to = rank + (forward ? 1 : -1) * job.replicas();
    if (to < 0 || to >= job.ranks()) return;
    made.message(at, at, 10,
                 {{"Collective name", "send"},
                  {"Dst Rank", to},
                  {"Process Group Description", "PIPELINE_MODEL_PARALLEL_GROUP"}});
  }
};

// Takes out what tells process groups.
inline void remove_groups(Json& trace) {
  trace["distributedInfo"].erase("pg_config");
  for (Json& event : trace["traceEvents"]) {
    if (event["args"].contains("Process Group Description")) {
      event["args"]["Process Group Description"] = "undefined";
    }
  }
}

// And with whom messages were exchanged.
inline void remove_peers(Json& trace) {
  for (Json& event : trace["traceEvents"]) event["args"].erase("Dst Rank");
}

}  // namespace pipesim::testing
