// What an action is called, what it waits for, and where its span is.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <tuple>
#include <vector>

#include "traces/action_key.h"
#include "traces/dependency.h"
#include "traces/joining.h"

namespace pipesim {
namespace {

// Keys differ, and are ordered, as what they are made of: at both ends of every range.
TEST(ActionKey, IsOrderedAsItsParts) {
  std::mt19937_64 random(3);
  const auto pick = [&](const auto& values) { return values[random() % values.size()]; };
  const std::array<std::int64_t, 5> iterations{-1, 0, 1, max_index - 1, max_index};
  const std::array<std::int32_t, 7> stages{0, 1, 15, 16, 17, max_index - 1, max_index};
  const std::array<std::int32_t, 6> microbatches{no_microbatch, 0, 1, 2, max_index - 1, max_index};
  const std::array<std::uint16_t, 4> numbers{0, 1, no_number - 1, no_number};
  const std::array<std::int32_t, 4> replicas{0, 1, 2, ActionKey::max_replicas - 1};
  using Parts =
      std::tuple<std::int64_t, Kind, std::int32_t, std::int32_t, std::uint16_t, std::int32_t>;
  const auto draw = [&] {
    return Parts{pick(iterations), static_cast<Kind>(random() % kind_count),
                 pick(stages),     pick(microbatches),
                 pick(numbers),    pick(replicas)};
  };
  const auto key_of = [](const Parts& parts) {
    const auto& [iteration, kind, stage, microbatch, number, replica] = parts;
    return ActionKey(Action{stage, microbatch, kind, false, number}, iteration, replica);
  };
  for (int i = 0; i < 20'000; ++i) {
    const Parts a = draw();
    Parts b = draw();
    if (i % 2 == 0) {  // alike but for one or two
      const Parts other = b;
      b = a;
      if (random() % 2 == 0) std::get<0>(b) = std::get<0>(other);
      if (random() % 2 == 0) std::get<2>(b) = std::get<2>(other);
      if (random() % 2 == 0) std::get<4>(b) = std::get<4>(other);
      if (random() % 2 == 0) std::get<5>(b) = std::get<5>(other);
    }
    ASSERT_EQ(key_of(a) <=> key_of(b), a <=> b);
    ASSERT_EQ(key_of(a) == key_of(b), a == b);
  }
}

TEST(ActionKey, KnowsNothingOfCells) {
  Action joined = make_action(2, Kind::F, 3);
  joined.joined = true;
  EXPECT_EQ(ActionKey(joined), ActionKey(make_action(2, Kind::F, 3)));
  EXPECT_NE(ActionKey(make_collective(2, Kind::UNSHARD, 0)),
            ActionKey(make_collective(2, Kind::UNSHARD, 1)));
  EXPECT_NE(ActionKey(make_collective(2, Kind::UNSHARD, 0)),
            ActionKey(make_action(2, Kind::UNSHARD)));
}

// Whatever an action needs has it, or its transfer, for a consumer.
TEST(Dependency, ProducersAndConsumersAgree) {
  for (const int stages : {1, 2, 5}) {
    for (std::int32_t stage = 0; stage < stages; ++stage) {
      for (int k = 0; k < kind_count; ++k) {
        const Action action = make_action(stage, static_cast<Kind>(k), 7);
        SCOPED_TRACE(to_text(action) + " of " + std::to_string(stages));
        const auto producer = producer_of(action, stages);
        if (producer && !is_transfer(action.kind)) {
          const auto back = consumer_of(*producer, stages);
          // An I gives its result to two: the W, where there is no other stage.
          const bool is_split = action.kind == Kind::W && stage > 0;
          if (!is_split) {
            ASSERT_TRUE(back);
            EXPECT_TRUE(is_named(action, *back)) << to_text(*back);
          }
        }
        if (is_receive(action.kind)) {
          ASSERT_TRUE(producer);
          EXPECT_EQ(consumer_of(*producer, stages), action);
          const Action needing = compute_at(action);
          EXPECT_EQ(receive_for(needing), action);
          EXPECT_EQ(send_of(compute_at(*producer)), *producer);
          EXPECT_EQ(input_stage(needing), producer->stage);
          EXPECT_EQ(output_stage(compute_at(*producer)), stage);
        }
      }
    }
  }
}

TEST(SpanIndex, FindsTheFirstOfEach) {
  const std::vector<Action> actions{make_action(0, Kind::F, 1),
                                    make_action(1, Kind::I, 0),
                                    make_action(0, Kind::F, 0),
                                    make_action(0, Kind::F, 1),
                                    make_collective(0, Kind::UNSHARD, 1),
                                    make_collective(0, Kind::UNSHARD, 0),
                                    make_action(0, Kind::F, 1)};
  std::vector<Span> spans;
  for (const Action& action : actions) spans.push_back({action});
  // Of two ranks that hold one stage both are; of one rank the first is.
  for (const int rank : {1, 1}) spans.push_back({make_collective(0, Kind::UNSHARD, 1), rank});
  const SpanIndex index(spans);
  EXPECT_EQ(index.find(make_action(0, Kind::F, 1)), 0);
  EXPECT_EQ(index.find(make_collective(0, Kind::UNSHARD, 0)), 5);
  EXPECT_EQ(index.find(make_collective(0, Kind::UNSHARD, 1), 1), 7);
  EXPECT_EQ(index.find(make_action(1, Kind::B, 0)), std::nullopt);
  EXPECT_EQ(index.find_either(make_action(1, Kind::B, 0)), 1);
  EXPECT_EQ(index.find(make_action(-1, Kind::F, 0)), std::nullopt);
  EXPECT_EQ(index.repeated(), (std::vector<std::size_t>{3, 6, 8}));
  EXPECT_EQ(index.entries().size(), 6);
}

}  // namespace
}  // namespace pipesim
