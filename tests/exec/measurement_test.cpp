// What ranks recorded, brought together: spans, metrics and medians, to the
// nanosecond.
#include "exec/run/measurement.h"

#include <gtest/gtest.h>

#include <map>

#include "exec/device/cpu/cpu_device.h"
#include "exec/run/ranks.h"
#include "exec/transport/group.h"
#include "traces/metrics.h"

namespace pipesim {
namespace {

using exec::gather_extents;
using exec::gather_iteration;
using exec::gather_largest;
using exec::IterationRecord;
using exec::Recorder;
using exec::Use;

constexpr std::int64_t far = 5'000'000'000;  // when the clock stood so, it all began

Action act(const char* text) { return *parse_action(text); }

// Two ranks, one microbatch. Times after `far`:
//   rank 0  0F0 10-30, sends 31-60; then receives the gradient, posted at 32,
//           which arrives at 100; 0B0 105-145; reduction 150-152; step 160-170
//   rank 1  posts at 5; the activation arrives at 50; 1F0 52-72; 1B0 72-95,
//           sends 96-110; reduction 112-113; step 160-165
IterationRecord record_rank(int rank, std::int64_t shift) {
  IterationRecord record;
  const auto add = [&](const char* text, std::int64_t reached, std::int64_t start, std::int64_t end,
                       std::int64_t bytes = 0) {
    Span& span = record.spans.emplace_back(Span{act(text), 0, 0, shift + start, shift + end});
    span.queued_ns = start - reached;
    span.bytes = bytes;
  };
  const auto close = [&](Kind kind, std::int64_t start, std::int64_t end) {
    record.spans.push_back({make_action(rank, kind), 0, 0, shift + start, shift + end});
  };
  if (rank == 0) {
    add("0F0", 8, 10, 30);
    add("0SEND_F0", 30, 31, 60, 64);
    add("0RECV_B0", 32, 32, 100, 64);
    add("0B0", 33, 105, 145);
    close(Kind::REDUCE_GRAD, 150, 152);
    close(Kind::OPTIMIZER, 160, 170);
    record.layers.push_back({0, 0, 1, Kind::I, false, act("0B0"), shift + 110, shift + 120});
    record.samples.push_back({0, shift + 9, {}, {}, 0});
    record.samples.push_back({0, shift + 10, {.weights = 7}, {.activations = 500}, 1});
  } else {
    add("1RECV_F0", 5, 5, 50, 64);
    add("1F0", 6, 52, 72);
    add("1B0", 72, 72, 95);
    add("1SEND_B0", 95, 96, 110, 64);
    close(Kind::REDUCE_GRAD, 112, 113);
    close(Kind::OPTIMIZER, 160, 165);
    record.samples.push_back({0, shift + 53, {}, {.residue = 9}, 1});
  }
  return record;
}

// A recorder that has seen this rank's iterations, one for each shift, by that
// clock.
Recorder recorder_of(exec::Device& device, int rank, const std::vector<std::int64_t>& shifts,
                     const exec::Clock& clock = {}) {
  Recorder recorder(device, clock, true);
  for (const std::int64_t shift : shifts) {
    const IterationRecord record = record_rank(rank, shift);
    const auto shown = [&](std::int64_t time_ns) { return exec::Instant{clock.shown_at(time_ns)}; };
    recorder.start_iteration(true);
    for (const Span& span : record.spans) {
      recorder.add(exec::ActionNote{span.action, shown(span.start_ns - span.queued_ns),
                                    shown(span.start_ns), shown(span.end_ns), span.bytes});
    }
    for (const LayerSpan& layer : record.layers) {
      recorder.add(exec::LayerNote{layer.action, layer.layer, layer.kind, layer.again,
                                   shown(layer.start_ns), shown(layer.end_ns)});
    }
    for (const MemorySample& sample : record.samples) {
      exec::UsedBytes bytes;
      bytes[Use::weights] = sample.states.weights;
      bytes[Use::activations] = sample.working.activations;
      bytes[Use::residue] = sample.working.residue;
      recorder.add(exec::MemoryNote{shown(sample.time_ns), sample.chunks, bytes});
    }
    recorder.finish_iteration();
  }
  return recorder;
}

// What rank 0 gets of two ranks.
template <typename Result, typename Gather>
Result on_two_ranks(const std::vector<std::int64_t>& shifts, Gather gather) {
  Result result;
  exec::run_as_threads(2, {}, [&](exec::Transport& transport) {
    const auto device = exec::make_cpu_device();
    const Recorder recorder = recorder_of(*device, transport.rank(), shifts);
    Result mine = gather(transport, recorder);
    if (transport.rank() == 0) result = std::move(mine);
  });
  return result;
}

// Of a pipeline without replicas.
IterationRecord gather_alone(exec::Transport& transport, const Recorder& recorder,
                             std::size_t index, std::int64_t zero_ns,
                             const exec::ClockRelation& clock) {
  exec::GroupTransport alone(transport, {transport.rank(), 1, 1});
  return gather_iteration(transport, {alone, alone}, recorder, index, zero_ns, clock);
}

IterationRecord iteration(std::size_t index, std::int64_t zero_ns) {
  return on_two_ranks<IterationRecord>(
      {far, far + 1000}, [&](exec::Transport& transport, const Recorder& recorder) {
        return gather_alone(transport, recorder, index, zero_ns, {});
      });
}

// A message's start may be of a device's clock, and its end of the rank's.
TEST(Measurement, NothingEndsBeforeItStarts) {
  const auto device = exec::make_cpu_device();
  Recorder recorder(*device, {}, false);
  recorder.start_iteration(true);
  recorder.add(exec::ActionNote{make_action(0, Kind::SEND_F, 0), {10}, {20}, {17}, 64});
  recorder.add(exec::ActionNote{make_action(0, Kind::RECV_B, 0), {30}, {30}, {40}, 64});
  recorder.finish_iteration();
  const std::vector<Span>& actions = recorder.iterations().front().spans;
  ASSERT_EQ(actions.size(), 2);
  EXPECT_EQ(actions[0].start_ns, 20);
  EXPECT_EQ(actions[0].end_ns, 20);
  EXPECT_EQ(actions[1].start_ns, 30);
  EXPECT_EQ(actions[1].end_ns, 40);
}

TEST(Measurement, ExtentsLeaveTransfersAside) {
  const auto extents = [](bool continuous) {
    return on_two_ranks<std::vector<IterationExtent>>(
        {far, far + 1000}, [&](exec::Transport& transport, const Recorder& recorder) {
          return gather_extents(transport, recorder, {}, continuous);
        });
  };
  const auto apart = extents(false);
  ASSERT_EQ(apart.size(), 2);
  EXPECT_EQ(apart[0].start_ns, far + 10);
  EXPECT_EQ(apart[0].makespan_ns, 160);
  EXPECT_EQ(apart[1].start_ns, far + 1010);
  EXPECT_EQ(apart[1].makespan_ns, 160);
  const auto continuous = extents(true);
  ASSERT_EQ(continuous.size(), 2);
  EXPECT_EQ(continuous[0].start_ns, far + 10);
  EXPECT_EQ(continuous[0].makespan_ns, 160);
  EXPECT_EQ(continuous[1].start_ns, far + 170) << "the end of the one before";
  EXPECT_EQ(continuous[1].makespan_ns, 1000);
}

TEST(Measurement, SpansAreThoseOfBothRanks) {
  const IterationRecord second = iteration(1, far + 10);
  std::map<std::string, Span> spans;
  for (const Span& span : second.spans) spans[to_text(span.action)] = span;
  ASSERT_EQ(spans.size(), 12);
  const auto expect_span = [&](const char* text, int rank, std::int64_t start, std::int64_t end,
                               std::int64_t queued) {
    SCOPED_TRACE(text);
    const Span& span = spans.at(text);
    EXPECT_EQ(span.rank, rank);
    EXPECT_EQ(span.iteration, 1);
    EXPECT_EQ(span.start_ns, 1000 - 10 + start);
    EXPECT_EQ(span.end_ns, 1000 - 10 + end);
    EXPECT_EQ(span.queued_ns, queued);
  };
  expect_span("0F0", 0, 10, 30, 2);
  expect_span("0SEND_F0", 0, 31, 60, 1);
  expect_span("1RECV_F0", 1, 31, 50, 0);  // from when both ends were there
  expect_span("1F0", 1, 52, 72, 46);
  expect_span("1B0", 1, 72, 95, 0);
  expect_span("1SEND_B0", 1, 96, 110, 1);
  expect_span("0RECV_B0", 0, 96, 100, 0);
  expect_span("0B0", 0, 105, 145, 72);
  expect_span("0OPTIMIZER", 0, 160, 170, 0);
  EXPECT_EQ(spans.at("0SEND_F0").bytes, 64);
  EXPECT_EQ(spans.at("1F0").input_sent_ns, 1000 - 10 + 31);
  EXPECT_EQ(spans.at("1F0").input_arrival_ns, 1000 - 10 + 50);
  EXPECT_EQ(spans.at("0B0").input_sent_ns, 1000 - 10 + 96);
  EXPECT_EQ(spans.at("0F0").input_arrival_ns, 0);
  for (std::size_t i = 1; i < second.spans.size(); ++i) {
    EXPECT_LE(second.spans[i - 1].start_ns, second.spans[i].start_ns);
  }
}

TEST(Measurement, LayersAndMemoryComeAlong) {
  const IterationRecord first = iteration(0, far + 10);
  ASSERT_EQ(first.layers.size(), 1);
  EXPECT_EQ(to_text(first.layers[0].action), "0B0");
  EXPECT_EQ(first.layers[0].layer, 1);
  EXPECT_EQ(first.layers[0].start_ns, 100);
  EXPECT_EQ(first.layers[0].end_ns, 110);
  ASSERT_EQ(first.samples.size(), 3);
  EXPECT_EQ(first.samples[0].time_ns, 0);  // before the first start
  EXPECT_EQ(first.samples[1].chunks, 1);
  EXPECT_EQ(first.samples[1].working.activations, 500);
  EXPECT_EQ(first.samples[1].states.weights, 7);
  EXPECT_EQ(first.samples[2].rank, 1);
  EXPECT_EQ(first.samples[2].time_ns, 43);
  const auto largest = on_two_ranks<exec::LargestBytes>({far}, gather_largest);
  EXPECT_EQ(largest.states.weights, 7);
  EXPECT_EQ(largest.working.activations, 500);
  EXPECT_EQ(largest.working.residue, 9);
}

// Rank 0: busy 20 + 40 + 2 + 10; idle 75 before 0B0, of which the gradient was
// under way from 96 to 100; then 5 + 8 of drain. Rank 1: busy 20 + 23 + 1 + 5;
// idle 42 before 1F0, 19 of it while the activation was under way; drain 17 + 47,
// and 5 to the end.
TEST(Measurement, MetricsAreExact) {
  const IterationRecord first = iteration(0, far + 10);
  const Metrics metrics = measure(first.spans, 2, 2, 1);
  EXPECT_EQ(metrics.makespan_ns, 160);
  const RankMetrics& zero = metrics.ranks[0];
  EXPECT_EQ(zero.busy_ns, 72);
  EXPECT_EQ(zero.bubble.p2p_ns, 4);
  EXPECT_EQ(zero.bubble.warmup_ns, 71);
  EXPECT_EQ(zero.bubble.steady_ns, 0);
  EXPECT_EQ(zero.bubble.drain_ns, 13);
  const RankMetrics& one = metrics.ranks[1];
  EXPECT_EQ(one.busy_ns, 49);
  EXPECT_EQ(one.bubble.p2p_ns, 19);
  EXPECT_EQ(one.bubble.warmup_ns, 23);
  EXPECT_EQ(one.bubble.drain_ns, 17 + 47 + 5);
  EXPECT_EQ(zero.peak_activation_chunks, 1);
}

// Two iterations a second apart, rank 1's told by a clock that is 10 ms ahead
// and gains 50 ppm: the same times but for what is rounded, so metrics, too.
TEST(Measurement, ByAnotherClockItIsTheSame) {
  constexpr std::int64_t later = 1'000'000'000;
  const exec::Clock other(10'000'000, 50'000, far - later);
  const auto reading = [&](std::int64_t at) {
    return exec::ClockReading{other.shown_at(at), at, 1};
  };
  const exec::ClockRelation relation(reading(far - 500), reading(far + 3 * later));
  std::vector<IterationExtent> extents;
  IterationRecord second;
  exec::run_as_threads(2, {}, [&](exec::Transport& transport) {
    const bool first = transport.rank() == 0;
    const auto device = exec::make_cpu_device();
    const Recorder recorder =
        recorder_of(*device, transport.rank(), {far, far + later}, first ? exec::Clock() : other);
    const exec::ClockRelation clock = first ? exec::ClockRelation() : relation;
    const auto all = gather_extents(transport, recorder, clock, false);
    auto mine = gather_alone(transport, recorder, 1, far + 10, clock);
    if (!first) return;
    extents = all;
    second = std::move(mine);
  });
  EXPECT_EQ(extents[0].start_ns, far + 10);
  EXPECT_EQ(extents[1].makespan_ns, 160);
  const auto plain = on_two_ranks<IterationRecord>(
      {far, far + later}, [&](exec::Transport& transport, const Recorder& recorder) {
        return gather_alone(transport, recorder, 1, far + 10, {});
      });
  ASSERT_EQ(second.spans.size(), plain.spans.size());
  for (std::size_t i = 0; i < plain.spans.size(); ++i) {
    EXPECT_EQ(second.spans[i].action, plain.spans[i].action);
    EXPECT_LE(std::abs(second.spans[i].start_ns - plain.spans[i].start_ns), 2);
    EXPECT_LE(std::abs(second.spans[i].end_ns - plain.spans[i].end_ns), 2);
    EXPECT_LE(std::abs(second.spans[i].queued_ns - plain.spans[i].queued_ns), 2);
  }
  EXPECT_LE(std::abs(second.samples.back().time_ns - plain.samples.back().time_ns), 2);
  const auto busy = [&](const IterationRecord& iteration, std::size_t rank) {
    return measure(iteration.spans, 2, 2, 1).ranks[rank].busy_ns;
  };
  EXPECT_EQ(busy(second, 0), busy(plain, 0));
  EXPECT_LE(std::abs(busy(second, 1) - busy(plain, 1)), 8) << "four actions";
}

// Rank 1's clock has the activation, sent at 31 and there at 50, arrive 25 too
// early; a shift is in the relation, or, where none will do, the RECV ends later.
TEST(Measurement, TransfersThatArriveTooEarly) {
  const auto with = [&](std::int64_t shift_ns, auto gather) {
    exec::ClockRelation early({far, far - 25, 30}, {far + 1000, far + 975, 30});
    early.set_shift(shift_ns);
    return on_two_ranks<decltype(gather(std::declval<exec::Transport&>(),
                                        std::declval<const Recorder&>(), early))>(
        {far}, [&](exec::Transport& transport, const Recorder& recorder) {
          return gather(transport, recorder, transport.rank() == 0 ? exec::ClockRelation() : early);
        });
  };
  const auto took = [&](std::int64_t shift_ns) {
    std::map<std::pair<int, int>, std::int64_t> took_ns;
    for (const exec::MeasuredTransfer& transfer :
         with(shift_ns, [](exec::Transport&transport, const Recorder&recorder,
                           const exec::ClockRelation&clock) {
           return gather_transfers(transport, Mesh({.pipeline = transport.ranks()}), recorder, 0,
                                   clock);
         })) {
      took_ns[{transfer.from, transfer.to}] = transfer.took_ns;
    }
    return took_ns;
  };
  using Took = std::map<std::pair<int, int>, std::int64_t>;
  EXPECT_EQ(took(0), (Took{{{0, 1}, 50 - 31 - 25}, {{1, 0}, 100 - 96 + 25}}));
  EXPECT_EQ(took(7), (Took{{{0, 1}, 1}, {{1, 0}, 22}}));
  const auto received = [&](std::int64_t shift_ns) {
    const auto iteration = with(shift_ns, [](exec::Transport& transport, const Recorder& recorder,
                                             const exec::ClockRelation& clock) {
      return gather_alone(transport, recorder, 0, far, clock);
    });
    for (const Span& span : iteration.spans) {
      if (to_text(span.action) == "1RECV_F0") return std::pair(span.start_ns, span.end_ns);
    }
    return std::pair<std::int64_t, std::int64_t>();
  };
  EXPECT_EQ(received(25), std::pair(31L, 50L));
  EXPECT_EQ(received(7), std::pair(31L, 32L));
  EXPECT_EQ(received(0), std::pair(31L, 32L));
}

TEST(Measurement, TheMedianIsTheLowerOfTheMiddle) {
  EXPECT_EQ(median_of({7}), 0);
  EXPECT_EQ(median_of({9, 7}), 1);
  EXPECT_EQ(median_of({9, 7, 8}), 2);
  EXPECT_EQ(median_of({9, 7, 8, 1}), 1);
  EXPECT_EQ(median_of({5, 5, 5}), 1);
}

}  // namespace
}  // namespace pipesim
