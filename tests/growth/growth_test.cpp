// Twice the input takes twice the work, whatever grows in it; and memory is a multiple of
// the input that FORMAT.md states.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "sim/calibrate/calibration.h"
#include "sim/compare/comparison.h"
#include "sim/cost/costs.h"
#include "sim/cost/model.h"
#include "sim/cost/pipedream_graph.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/files.h"
#include "tests/growth/work.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/read/event_trace.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

using testing::Work;
using testing::work_of;

// A text with n of something, or of n bytes, from n on.
struct Growing {
  std::string what;
  std::function<std::string(int n)> text;
  int n = 1000;
};

std::string repeated(int n, const std::function<std::string(int)>& item) {
  std::string text;
  for (int i = 0; i < n; ++i) text += (i == 0 ? "" : ",") + item(i);
  return text;
}

// `most_bytes` is what memory may be for each byte of the text.
void expect_linear(const Growing& input, double most_bytes,
                   const std::function<void(const std::string& text)>& read) {
  SCOPED_TRACE(input.what);
  std::vector<Work> works;
  std::size_t size = 0;
  for (const int times : {1, 2, 4}) {
    const std::string text = input.text(times * input.n);
    size = text.size();
    works.push_back(work_of([&] {
      try {
        read(text);
      } catch (const Error& error) {
        if (times == 1) ::testing::Test::RecordProperty(input.what, error.what());
      }
    }));
  }
  // From 2n to 4n a thing that takes n log n grows by 2.2 times what it grew by from n to
  // 2n; one that takes n^2 by 4 times that. Memory grows by leaps.
  const auto steps = [&](std::size_t i) { return static_cast<double>(works[i].steps); };
  EXPECT_LE(steps(2) - steps(1), 2.6 * (steps(1) - steps(0)) + 65536)
      << steps(0) << ", " << steps(1) << ", " << steps(2);
  const auto allocated = [&](std::size_t i) {
    return static_cast<double>(works[i].allocated_bytes);
  };
  EXPECT_LE(allocated(2), 3 * allocated(1) + 65536) << allocated(1) << ", " << allocated(2);
  EXPECT_LE(static_cast<double>(works[2].peak_bytes),
            most_bytes * static_cast<double>(size) + (1 << 20))
      << "of " << size << " bytes";
  if (std::getenv("PIPESIM_GROWTH") != nullptr) {
    fmt::print("{:<34} {:>9} bytes, {:>7.1f} steps and {:>6.1f} bytes a byte\n", input.what, size,
               static_cast<double>(works[2].steps) / static_cast<double>(size),
               static_cast<double>(works[2].peak_bytes) / static_cast<double>(size));
  }
}

// ---- Traces

const std::string slice = R"({{"ph":"X","ts":{},"dur":{},"pid":{},"tid":{},"name":"{}"}})";

std::string events(const std::string& list) { return "{\"traceEvents\":[" + list + "]}"; }

std::string slices(int n, const std::function<std::string(int)>& item) {
  return events(repeated(n, item));
}

std::string event_with_args(const std::string& args) {
  return events(R"({"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"a","args":)" + args + "}");
}

std::string own_trace(int ranks, int microbatches, int iterations) {
  std::string list;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int m = 0; m < microbatches; ++m) {
        for (const char kind : {'F', 'B'}) {
          const std::int64_t at =
              ((std::int64_t{iteration} * 2 + (kind == 'B')) * microbatches + m) * (ranks + 1) +
              (kind == 'F' ? rank : ranks - rank);
          list += fmt::format(
              R"({}{{"ph":"X","ts":{},"dur":1,"pid":0,"tid":{},"name":"{}{}{}","args":{{"kind":"{}",)"
              R"("stage":{},"rank":{},"microbatch":{},"iteration":{}}}}})",
              list.empty() ? "" : ",", at, rank, rank, kind, m, kind, rank, rank, m, iteration);
        }
      }
    }
  }
  return fmt::format(
      R"({{"metadata":{{"pipesim":{{"format":"pipesim-trace","version":1,"source":"measured",)"
      R"("microbatches":{},"rank_of_stage":[{}]}}}},"traceEvents":[{}]}})",
      microbatches, repeated(ranks, [](int i) { return std::to_string(i); }), list);
}

std::string metadata(const std::string& members) {
  return R"({"metadata":{"pipesim":{"format":"pipesim-trace","version":1,"source":"measured",)"
         R"("microbatches":1,"rank_of_stage":[0],)" +
         members + R"(}},"traceEvents":[]})";
}

std::string profile(int processes, int ranges) {
  std::string list;
  for (int p = 0; p < processes; ++p) {
    for (int r = 0; r < ranges; ++r) {
      list += fmt::format(
          R"({}{{"ph":"X","ts":{},"dur":1,"pid":{},"tid":{},"cat":"user_annotation","name":"PP:{}F{}"}})",
          list.empty() ? "" : ",", 10 * r + p, p, p, p, r);
    }
  }
  return R"({"distributedInfo":{"rank":0,"world_size":1},"traceEvents":[)" + list + "]}";
}

const std::vector<Growing>& traces() {
  static const std::vector<Growing> all{
      {"slices, one after the other",
       [](int n) {
         return slices(n,
                       [](int i) { return fmt::format(fmt::runtime(slice), 2 * i, 1, 1, 1, "a"); });
       }},
      {"slices within slices",
       [](int n) {
         return slices(
             n, [n](int i) { return fmt::format(fmt::runtime(slice), i, 2 * (n - i), 1, 1, "a"); });
       }},
      {"slices that overlap",
       [](int n) {
         return slices(n, [n](int i) { return fmt::format(fmt::runtime(slice), i, n, 1, 1, "a"); });
       }},
      {"threads",
       [](int n) {
         return slices(n, [](int i) { return fmt::format(fmt::runtime(slice), i, 1, 1, i, "a"); });
       }},
      {"processes",
       [](int n) {
         return slices(n, [](int i) { return fmt::format(fmt::runtime(slice), i, 1, i, 1, "a"); });
       }},
      {"names of slices",
       [](int n) {
         return slices(n, [](int i) {
           return fmt::format(fmt::runtime(slice), i, 1, 1, 1, "name" + std::to_string(i));
         });
       }},
      {"begins without ends",
       [](int n) {
         return slices(n, [](int i) {
           return fmt::format(R"({{"ph":"B","ts":{},"pid":1,"tid":1,"name":"a"}})", i);
         });
       }},
      {"threads of a process with a long name",
       [](int n) {
         return events(
             R"({"ph":"M","pid":1,"name":"process_name","args":{"name":")" +
             std::string(static_cast<std::size_t>(100 * n), 'n') + "\"}}," +
             repeated(n, [](int i) { return fmt::format(fmt::runtime(slice), i, 1, 1, i, "a"); }));
       }},
      {"flows between overlapping slices",
       [](int n) {
         return events(
             repeated(n, [n](int i) { return fmt::format(fmt::runtime(slice), i, n, 1, 1, "a"); }) +
             "," + repeated(n, [](int i) {
               return fmt::format(R"({{"ph":"{}","ts":{},"pid":1,"tid":1,"id":{},"name":"f"}})",
                                  i % 2 == 0 ? 's' : 'f', i, i / 2);
             }));
       }},
      {"counters of an event with a long name",
       [](int n) {
         return events(R"({"ph":"C","ts":1,"pid":1,"name":")" +
                       std::string(static_cast<std::size_t>(10 * n), 'n') + R"(","args":{)" +
                       repeated(n, [](int i) { return fmt::format("\"{}\":1", i); }) + "}}");
       }},
      {"arguments",
       [](int n) {
         return event_with_args(
             "{" + repeated(n, [](int i) { return fmt::format("\"{}\":1", i); }) + "}");
       }},
      {"arguments within a long name",
       [](int n) {
         return event_with_args("{\"" + std::string(static_cast<std::size_t>(7 * n), 'k') + "\":{" +
                                repeated(n, [](int i) { return fmt::format("\"{}\":1", i); }) +
                                "}}");
       }},
      {"a long string",
       [](int n) {
         return event_with_args("{\"a\":\"" + std::string(static_cast<std::size_t>(n), 'x') +
                                "\"}");
       },
       100000},
      {"nesting",
       [](int n) {
         return event_with_args(std::string(static_cast<std::size_t>(n), '[') +
                                std::string(static_cast<std::size_t>(n), ']'));
       }},
      {"members beside the events",
       [](int n) {
         return "{" + repeated(n, [](int i) { return fmt::format("\"{}\":[]", i); }) +
                ",\"traceEvents\":[]}";
       }},
      {"members that are no JSON",
       [](int n) {
         return "{" + repeated(n, [](int i) { return fmt::format("\"{}\":[1 2]", i); }) +
                ",\"traceEvents\":[]}";
       }},
      {"empty objects in the metadata",
       [](int n) {
         return R"({"metadata":{"x":[)" + repeated(n, [](int) { return "{}"; }) +
                "]},\"traceEvents\":[]}";
       },
       20000},
      {"keys of the metadata",
       [](int n) {
         return metadata(repeated(n, [](int i) { return fmt::format("\"k{}\":1", i); }));
       }},
      {"layers of the metadata",
       [](int n) {
         return metadata("\"layers\":[" +
                         repeated(n, [](int i) { return fmt::format("\"l{}\"", i); }) + "]");
       }},
      {"ranks", [](int n) { return own_trace(n, 2, 2); }, 50},
      {"microbatches", [](int n) { return own_trace(2, n, 2); }, 50},
      {"iterations", [](int n) { return own_trace(2, 2, n); }, 50},
      {"processes of a profile", [](int n) { return profile(n, 1); }},
      {"ranges of a profile", [](int n) { return profile(1, n); }},
      {"names of processes of a profile",
       [](int n) {
         return slices(n, [](int i) {
           return fmt::format(
               R"({{"ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":"p{}"}}}},{})",
               i, i,
               fmt::format(
                   R"({{"ph":"X","ts":{},"dur":1,"pid":{},"tid":1,"cat":"user_annotation","name":"PP:{}F0"}})",
                   i, i, i));
         });
       }},
  };
  return all;
}

void expect_linear_traces(const std::function<void(const std::string& path)>& read) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "t.json";
  for (const Growing& input : traces()) {
    expect_linear(input, 64, [&](const std::string& text) {
      write_file(path, text);
      read(path);
    });
  }
}

TEST(Growth, OfTracesAsRuns) {
  expect_linear_traces([](const std::string& path) { read_run({path}); });
}

TEST(Growth, OfTracesAsEvents) {
  expect_linear_traces([](const std::string& path) { read_event_trace(path); });
}

TEST(Growth, OfCalibrations) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "t.json";
  for (const Growing& input : traces()) {
    if (input.what != "ranks" && input.what != "microbatches" && input.what != "iterations")
      continue;
    expect_linear(input, 64, [&](const std::string& text) {
      write_file(path, text);
      const std::vector<RecordedRun> runs = read_runs({path});
      calibrate(runs);
      compare(runs[0], runs[0]);
    });
  }
}

// ---- Schedules

TEST(Growth, OfSchedules) {
  const auto csv = [](int ranks, int microbatches, int chunks) {
    ScheduleRequest request;
    request.name = chunks > 1 ? "interleaved" : "1f1b";
    request.ranks = ranks;
    request.microbatches = microbatches;
    if (chunks > 1) request.chunks = chunks;
    return to_csv(generate(request));
  };
  const std::vector<Growing> inputs{
      {"ranks", [&](int n) { return csv(n, 4, 1); }, 200},
      {"microbatches", [&](int n) { return csv(4, n, 1); }, 200},
      {"chunks", [&](int n) { return csv(4, 4, n); }, 50},
      {"ranks of programs", [&](int n) { return to_csv(lower(parse_csv(csv(n, 2, 1), "p"))); },
       200},
      {"idle cells",
       [](int n) { return "0F0" + std::string(static_cast<std::size_t>(n), ',') + "0B0\n"; },
       20000},
      {"rows of nothing",
       [](int n) { return "0F0,0B0\n" + std::string(static_cast<std::size_t>(n), '\n'); }, 20000},
  };
  for (const Growing& input : inputs) {
    expect_linear(input, 64, [](const std::string& text) {
      const Schedule schedule = parse_csv(text, "grown.csv");
      for (const SendMode mode : all_send_modes()) {
        if (schedule.has_transfers() || mode == SendMode::buffered) find_deadlock(schedule, mode);
      }
      count_unit_steps(schedule.has_transfers() ? schedule : lower(schedule));
    });
  }
}

TEST(Growth, OfFamilies) {
  for (const Family& family : all_families()) {
    const Growing input{std::string(family.name),
                        [](int n) { return std::string(static_cast<std::size_t>(n), 'r'); }, 200};
    expect_linear(input, 4096, [&](const std::string& ranks) {
      ScheduleRequest request;
      request.name = family.name;
      request.ranks = static_cast<int>(ranks.size());
      request.microbatches = 4;
      generate(request);
    });
  }
}

// ---- JSON and text

TEST(Growth, OfCosts) {
  const auto costs = [](const std::string& stages, const std::string& p2p) {
    return R"({"format":"pipesim-costs","version":1,"stages":[)" + stages +
           "],\"p2p\":{\"latency_ns\":0" + p2p + "}}";
  };
  const auto link = [](int i) {
    return fmt::format(R"({{"name":"link{}","bandwidth_bytes_per_s":1000}})", i);
  };
  const std::string stage = R"({"forward_ns":1,"backward_input_ns":1,"backward_weight_ns":1})";
  const std::vector<Growing> inputs{
      {"stages", [&](int n) { return costs(repeated(n, [&](int) { return stage; }), ""); }},
      {"links", [&](int n) { return costs(stage, ",\"links\":[" + repeated(n, link) + "]"); }},
      {"a route of links",
       [&](int n) {
         return costs(stage, ",\"links\":[" + repeated(n, link) +
                                 R"(],"edges":[{"from":0,"to":1,"links":[)" +
                                 repeated(n, [](int i) { return fmt::format("\"link{}\"", i); }) +
                                 "]}]");
       }},
      {"an unknown link",
       [&](int n) {
         return costs(stage, ",\"links\":[" + repeated(n, link) +
                                 R"(],"edges":[{"from":0,"to":1,"links":["lnk"]}])");
       }},
      {"edges",
       [&](int n) {
         return costs(stage, ",\"edges\":[" + repeated(n, [](int i) {
                               return fmt::format(R"({{"from":0,"to":{}}})", i + 1);
                             }) + "]");
       }},
      {"unknown keys",
       [&](int n) {
         return costs(stage, "," + repeated(n, [](int i) { return fmt::format("\"k{}\":1", i); }));
       }},
      {"nesting",
       [](int n) {
         return std::string(static_cast<std::size_t>(n), '[') +
                std::string(static_cast<std::size_t>(n), ']');
       }},
      {"a long string",
       [&](int n) {
         return costs(stage, ",\"k\":\"" + std::string(static_cast<std::size_t>(n), 'x') + "\"");
       },
       100000},
  };
  for (const Growing& input : inputs) {
    expect_linear(input, 64, [](const std::string& text) { parse_costs(text, "grown.json"); });
  }
}

TEST(Growth, OfModels) {
  const auto layer = [](int i) {
    return fmt::format(
        R"({{"name":"l{}","parameters":1,"forward_flops":1,"output_bytes":1,"activation_bytes":1}})",
        i);
  };
  const Growing input{"layers", [&](int n) {
                        return R"({"format":"pipesim-model","version":1,"name":"m","layers":[)" +
                               repeated(n, layer) + "]}";
                      }};
  expect_linear(input, 64, [](const std::string& text) { parse_model(text, "grown.json"); });
}

TEST(Growth, OfPipedreamGraphs) {
  const Growing input{
      "layers", [](int n) {
        std::string text;
        for (int i = 0; i < n; ++i) {
          text += fmt::format(
              "node{} -- Linear -- forward_compute_time=1.0, backward_compute_time=2.0, "
              "activation_size=8.0, parameter_size=8.0\n",
              i);
        }
        for (int i = 0; i + 1 < n; ++i) text += fmt::format("\tnode{} -- node{}\n", i, i + 1);
        return text;
      }};
  expect_linear(input, 64,
                [](const std::string& text) { parse_pipedream_graph(text, "grown.txt", 2); });
}

}  // namespace
}  // namespace pipesim
