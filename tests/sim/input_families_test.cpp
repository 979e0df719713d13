// The orders in which hosts call things, against the definition told another way.
#include "sim/input_pipeline/input_families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/errors.h"

namespace pipesim {
namespace {

// The pipelines as their classes are written: a queue of batches in flight, an iterator that ends,
// and progress() again and again, until nothing is in flight. What is called is written down.
class Written {
 public:
  explicit Written(int batches) : left_(batches) {}

  std::string base() {
    std::string text;
    // __init__ of the first call connects: takes and copies.
    int current = take(text);
    if (current >= 0) text += "COPY" + std::to_string(current) + " ";
    while (current >= 0) {
      const int next = take(text);
      zero_grad(text, current);
      bottom(text, current);
      start_dist(text, current);
      wait_dist(text, current);
      lookup(text, current);
      top(text, current);
      backward(text, current);
      if (next >= 0) text += "COPY" + std::to_string(next) + " ";
      step(text, current);
      current = next;
    }
    return text;
  }

  std::string sparse_dist() {
    std::string text;
    for (;;) {
      if (queue_.empty()) {  // fill
        if (!enqueue(text)) break;
        start_dist(text, queue_[0]);
        wait_dist(text, queue_[0]);
        enqueue(text);
      }
      const int now = queue_[0];
      zero_grad(text, now);
      if (queue_.size() >= 2) start_dist(text, queue_[1]);
      enqueue(text);
      forward(text, now);
      if (queue_.size() >= 2) wait_dist(text, queue_[1]);
      backward(text, now);
      step(text, now);
      queue_.pop_front();
    }
    return text;
  }

  std::string semi_sync() {
    std::string text;
    for (;;) {
      if (queue_.empty()) {
        if (!enqueue(text)) break;
        start_dist(text, queue_[0]);
        wait_dist(text, queue_[0]);
        lookup(text, queue_[0]);
        if (enqueue(text)) {
          start_dist(text, queue_[1]);
          wait_dist(text, queue_[1]);
          enqueue(text);
        }
      }
      const int now = queue_[0];
      if (queue_.size() >= 3) start_dist(text, queue_[2]);
      bottom(text, now);
      top(text, now);
      queue_.pop_front();
      enqueue(text);
      if (!queue_.empty()) lookup(text, queue_[0]);
      if (queue_.size() >= 2) wait_dist(text, queue_[1]);
      const std::string of = std::to_string(now) + " ";
      text += "TOP_BACKWARD" + of + "REDUCE_TOP" + of;
      text += "BOTTOM_BACKWARD" + of + "REDUCE_BOTTOM" + of;
      text += "OUTPUT_BACKWARD" + of + "UPDATE" + of;
      step(text, now);
      zero_grad(text, now);
    }
    return text;
  }

  std::string prefetch() {
    std::string text;
    for (;;) {
      if (queue_.empty()) {
        if (!enqueue(text)) break;
        start_dist(text, queue_[0]);
        wait_dist(text, queue_[0]);
        fetch(text, queue_[0]);
        if (enqueue(text)) start_dist(text, queue_[1]);
      }
      const int now = queue_[0];
      zero_grad(text, now);
      enqueue(text);
      if (queue_.size() >= 2) wait_dist(text, queue_[1]);
      forward(text, now);
      if (queue_.size() >= 2) fetch(text, queue_[1]);
      backward(text, now);
      step(text, now);
      if (queue_.size() >= 3) start_dist(text, queue_[2]);
      queue_.pop_front();
    }
    return text;
  }

 private:
  int take(std::string& text) {
    if (left_ == 0) return -1;
    --left_;
    text += "NEXT" + std::to_string(taken_) + " ";
    return taken_++;
  }
  bool enqueue(std::string& text) {
    const int batch = take(text);
    if (batch < 0) return false;
    text += "COPY" + std::to_string(batch) + " ";
    queue_.push_back(batch);
    return true;
  }
  static void start_dist(std::string& text, int batch) {
    text += "SPLITS" + std::to_string(batch) + " ";
  }
  static void wait_dist(std::string& text, int batch) {
    text += "READ" + std::to_string(batch) + " IDS" + std::to_string(batch) + " ";
  }
  static void fetch(std::string& text, int batch) {
    text += "PREFETCH" + std::to_string(batch) + " ";
  }
  static void zero_grad(std::string& text, int batch) {
    text += "ZERO_GRAD" + std::to_string(batch) + " ";
  }
  static void bottom(std::string& text, int batch) {
    text += "BOTTOM" + std::to_string(batch) + " ";
  }
  static void lookup(std::string& text, int batch) {
    text += "LOOKUP" + std::to_string(batch) + " OUTPUT" + std::to_string(batch) + " ";
  }
  static void top(std::string& text, int batch) { text += "TOP" + std::to_string(batch) + " "; }
  static void forward(std::string& text, int batch) {
    bottom(text, batch);
    lookup(text, batch);
    top(text, batch);
  }
  static void backward(std::string& text, int batch) {
    const std::string of = std::to_string(batch) + " ";
    text += "TOP_BACKWARD" + of + "REDUCE_TOP" + of + "OUTPUT_BACKWARD" + of + "UPDATE" + of;
    text += "BOTTOM_BACKWARD" + of + "REDUCE_BOTTOM" + of;
  }
  static void step(std::string& text, int batch) {
    text += "OPTIMIZER" + std::to_string(batch) + " ";
  }

  int left_;
  int taken_ = 0;
  std::deque<int> queue_;
};

std::string order_of(const std::string& name, int batches) {
  std::string text;
  const InputProgram program = make_input_program({name, 2, batches});
  for (const InputCall& call : program.calls[1]) {
    text += to_text(call.action) + " ";
  }
  return text;
}

TEST(InputFamilies, HostsCallInTheOrderOfTheDefinition) {
  for (const int batches : {1, 2, 3, 4, 12}) {
    SCOPED_TRACE(batches);
    EXPECT_EQ(order_of("base", batches), Written(batches).base());
    EXPECT_EQ(order_of("sparse-dist", batches), Written(batches).sparse_dist());
    EXPECT_EQ(order_of("semi-sync", batches), Written(batches).semi_sync());
    EXPECT_EQ(order_of("prefetch", batches), Written(batches).prefetch());
  }
}

// Written by hand, of two batches: fill, steady and drain are all there.
TEST(InputFamilies, TwoBatchesOfTheOthersAreAsWritten) {
  EXPECT_EQ(order_of("lite", 2),
            "NEXT0 COPY0 "
            "ZERO_GRAD0 SPLITS0 READ0 IDS0 BOTTOM0 LOOKUP0 OUTPUT0 TOP0 TOP_BACKWARD0 REDUCE_TOP0 "
            "OUTPUT_BACKWARD0 UPDATE0 BOTTOM_BACKWARD0 REDUCE_BOTTOM0 NEXT1 COPY1 OPTIMIZER0 "
            "ZERO_GRAD1 SPLITS1 READ1 IDS1 BOTTOM1 LOOKUP1 OUTPUT1 TOP1 TOP_BACKWARD1 REDUCE_TOP1 "
            "OUTPUT_BACKWARD1 UPDATE1 BOTTOM_BACKWARD1 REDUCE_BOTTOM1 OPTIMIZER1 ");
  EXPECT_EQ(order_of("fused", 2),
            "NEXT0 COPY0 SPLITS0 READ0 IDS0 NEXT1 COPY1 "
            "LOOKUP0 OUTPUT0 ZERO_GRAD0 SPLITS1 BOTTOM0 TOP0 READ1 IDS1 TOP_BACKWARD0 REDUCE_TOP0 "
            "OUTPUT_BACKWARD0 UPDATE0 BOTTOM_BACKWARD0 REDUCE_BOTTOM0 OPTIMIZER0 "
            "LOOKUP1 OUTPUT1 ZERO_GRAD1 BOTTOM1 TOP1 TOP_BACKWARD1 REDUCE_TOP1 "
            "OUTPUT_BACKWARD1 UPDATE1 BOTTOM_BACKWARD1 REDUCE_BOTTOM1 OPTIMIZER1 ");
  EXPECT_EQ(order_of("staged", 2),
            "NEXT0 COPY0 SPLITS0 READ0 IDS0 NEXT1 COPY1 "
            "SPLITS1 READ1 IDS1 ZERO_GRAD0 BOTTOM0 LOOKUP0 OUTPUT0 TOP0 TOP_BACKWARD0 REDUCE_TOP0 "
            "OUTPUT_BACKWARD0 UPDATE0 BOTTOM_BACKWARD0 REDUCE_BOTTOM0 OPTIMIZER0 "
            "ZERO_GRAD1 BOTTOM1 LOOKUP1 OUTPUT1 TOP1 TOP_BACKWARD1 REDUCE_TOP1 "
            "OUTPUT_BACKWARD1 UPDATE1 BOTTOM_BACKWARD1 REDUCE_BOTTOM1 OPTIMIZER1 ");
}

// Every batch is taken and trained on once, and none that there is not; nothing races.
TEST(InputFamilies, AllAreSoundForAnyNumberOfBatches) {
  for (const InputFamily& family : all_input_families()) {
    for (const int batches : {1, 2, 3, 4, 5, 12, 33}) {
      for (const int accumulate : {1, 2, 3, 5, 50}) {
        for (const char* stages : {"copy,dist", "copy,prepare,dist"}) {
          const InputProgram program =
              make_input_program({std::string(family.name), 3, batches, accumulate,
                                  parse_input_stages(stages, "--input-stages")});
          const auto fault = find_fault(program);
          EXPECT_FALSE(fault) << family.name << ' ' << batches << ' ' << accumulate << ": "
                              << fault->rule;
          EXPECT_FALSE(find_deadlock(program));
          const InputProgram again = parse_input_program(to_text(program), "again");
          EXPECT_EQ(again.calls, program.calls);
          EXPECT_EQ(again.accumulate, program.accumulate);
          EXPECT_EQ(again.is_stale, program.is_stale);
        }
      }
    }
  }
}

// Whatever the streams: each collective waits for the one that the host called before it.
TEST(InputFamilies, CollectivesRunInTheOrderOfTheirCalls) {
  for (const InputFamily& family : all_input_families()) {
    const InputProgram program = make_input_program({std::string(family.name), 2, 5, 2});
    const InputCalls& calls = program.calls[0];
    std::optional<std::uint32_t> last;
    for (std::uint32_t place = 0; place < calls.size(); ++place) {
      if (!is_meeting(calls[place].action.kind)) continue;
      if (last && calls[*last].stream != calls[place].stream) {
        EXPECT_TRUE(std::ranges::count(calls[place].after, *last) == 1)
            << family.name << ' ' << to_text(calls[place].action);
      }
      last = place;
    }
  }
}

TEST(InputFamilies, WrongRequestsAreRefused) {
  using testing::input_error_of;
  EXPECT_EQ(
      input_error_of([] { make_input_program({"sparse"}); }),
      "unknown input pipeline 'sparse'; known, nearest first: base, staged, sparse-dist, lite, "
      "fused, semi-sync, prefetch; or a file of a program, with a dot or a slash in its "
      "name");
  EXPECT_EQ(input_error_of([] { parse_input_stages("dist,copy", "--input-stages"); }),
            "--input-stages: stages begin with copy and end with dist, each once: copy,dist or "
            "copy,prepare,dist");
  EXPECT_EQ(input_error_of([] {
              make_input_program({"base", 4000, 4000});
            }),
            "4,000 batches of 4,000 ranks are 304,000,000 calls, more than this holds in memory; "
            "4,000,000 batches in all are the most");
}

}  // namespace
}  // namespace pipesim
