// Streams of an input pipeline as threads: order, waits, the host, and how errors end them.
#include "exec/input_pipeline/input_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <random>

#include "exec/run/ranks.h"
#include "tests/errors.h"

namespace pipesim {
namespace {

using enum Kind;
using exec::Bytes;
using exec::InputExchange;
using exec::InputWorker;
using exec::Transport;
using testing::error_of;

InputProgram on_ranks(int ranks, const InputCalls& calls) {
  InputProgram program;
  program.batches = 1000;
  program.calls.assign(static_cast<std::size_t>(ranks), calls);
  return program;
}

// Does what it is told.
struct Told final : exec::InputWorkload {
  std::function<void(const Action&, InputExchange*)> work;
  void run(const Action& action, InputExchange* exchange) override { work(action, exchange); }
};

std::vector<InputSpan> run_rank(const InputProgram& program, Transport& transport,
                                std::function<void(const Action&, InputExchange*)> work) {
  Told told;
  told.work = std::move(work);
  return InputWorker(program, transport, told).run();
}

// Any calls, each of a batch of its own, that wait for any earlier ones.
InputCalls random_calls(std::mt19937& random, int count) {
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random()) % end; };
  InputCalls calls;
  for (int i = 0; i < count; ++i) {
    InputCall call;
    call.action = input_action(input_kinds[static_cast<std::size_t>(below(input_kind_count))], i);
    call.stream = is_of_host(call.action.kind)
                      ? InputStream::host
                      : static_cast<InputStream>(1 + below(input_stream_count - 1));
    for (std::uint32_t place = 0; place < static_cast<std::uint32_t>(i); ++place) {
      if (below(8) == 0) call.after.push_back(place);
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

// What a rank did, by a clock that ticks with everything that begins or ends.
struct Ticks {
  std::atomic<int> now = 0;
  std::vector<int> begin, end;  // by place
};

void expect_program_kept(const InputCalls& calls, const Ticks& ticks,
                         const std::vector<InputSpan>& spans) {
  std::array<int, input_stream_count> last{};  // end, by stream
  std::int64_t host_ns = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const InputCall& call = calls[i];
    const auto stream = static_cast<std::size_t>(call.stream);
    ASSERT_GT(ticks.begin[i], last[stream]) << i;
    last[stream] = ticks.end[i];
    // What the host did itself came before all that it called later.
    ASSERT_GT(ticks.begin[i], last[0] == ticks.end[i] ? 0 : last[0]) << i;
    const InputSpan& span = spans[i];
    for (const std::uint32_t place : call.after) {
      ASSERT_GT(ticks.begin[i], ticks.end[place]) << i << " after " << place;
      ASSERT_GE(span.ready_ns, spans[place].end_ns);
    }
    ASSERT_GE(span.called_ns, host_ns);
    ASSERT_GE(span.issued_ns, span.called_ns);
    host_ns = span.issued_ns;
    ASSERT_GE(span.ready_ns, call.stream == InputStream::host ? span.called_ns : span.issued_ns);
    ASSERT_EQ(span.start_ns, span.ready_ns);
    ASSERT_GE(span.end_ns, span.start_ns);
  }
}

TEST(InputWorker, KeepsAnyProgram) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const int ranks = 1 + round % 4;
    const InputCalls calls = random_calls(random, 120);
    const InputProgram program = on_ranks(ranks, calls);
    std::atomic<int> wrong = 0;
    exec::run_as_threads(
        ranks, round % 2 == 0 ? std::optional<std::int64_t>() : 0, [&](Transport& transport) {
          Ticks ticks;
          ticks.begin.resize(calls.size());
          ticks.end.resize(calls.size());
          const auto spans =
              run_rank(program, transport, [&](const Action& action, InputExchange* exchange) {
                const auto place = static_cast<std::size_t>(action.microbatch);
                ticks.begin[place] = ++ticks.now;
                if (is_meeting(action.kind) != (exchange != nullptr)) ++wrong;
                if (exchange != nullptr) {
                  // Each gives as many bytes as its number, that of the other and the batch make.
                  std::vector<Bytes> given;
                  for (int to = 0; to < ranks; ++to) {
                    given.emplace_back(place * static_cast<std::size_t>(transport.rank() + 2 * to));
                  }
                  const std::vector<Bytes> got = exchange->all_to_all(std::move(given));
                  for (int from = 0; from < ranks; ++from) {
                    const auto size = place * static_cast<std::size_t>(from + 2 * transport.rank());
                    if (got[static_cast<std::size_t>(from)].size() != size) ++wrong;
                  }
                }
                ticks.end[place] = ++ticks.now;
              });
          expect_program_kept(calls, ticks, spans);
        });
    EXPECT_EQ(wrong, 0);
  }
}

// A copy ends only when the host has come to the next batch, and the dense part has begun.
TEST(InputWorker, NeitherHostNorStreamsWaitForWhatTheyNeedNot) {
  const InputProgram program = on_ranks(1, {{input_action(NEXT, 0), InputStream::host, {}},
                                            {input_action(COPY, 0), InputStream::memcpy, {0}},
                                            {input_action(ZERO_GRAD, 0), InputStream::compute, {}},
                                            {input_action(NEXT, 1), InputStream::host, {}}});
  std::latch others(2);
  exec::run_as_threads(1, {}, [&](Transport& transport) {
    run_rank(program, transport, [&](const Action& action, InputExchange*) {
      if (action == input_action(COPY, 0)) others.wait();
      if (action.kind == ZERO_GRAD || action == input_action(NEXT, 1)) others.count_down();
    });
  });
}

TEST(InputWorker, TheHostWaitsForWhatItReads) {
  const InputProgram program = on_ranks(2, {{input_action(SPLITS, 0), InputStream::data_dist, {}},
                                            {input_action(READ, 0), InputStream::host, {0}},
                                            {input_action(NEXT, 1), InputStream::host, {}}});
  exec::run_as_threads(2, {}, [&](Transport& transport) {
    std::vector<Kind> order;  // the first two may not run at once
    run_rank(program, transport, [&](const Action& action, InputExchange* exchange) {
      if (exchange != nullptr) exchange->all_to_all(std::vector<Bytes>(2));
      order.push_back(action.kind);
    });
    EXPECT_EQ(order, (std::vector{SPLITS, READ, NEXT}));
  });
}

// On the host, on streams, within exchanges and before them: nobody is left waiting.
TEST(InputWorker, AnErrorAnywhereEndsAllRanks) {
  std::mt19937 random(2);
  for (int round = 0; round < 150; ++round) {
    const int ranks = 1 + round % 3;
    const InputCalls calls = random_calls(random, 60);
    const auto failing = static_cast<std::int32_t>(random() % calls.size());
    const InputProgram program = on_ranks(ranks, calls);
    const auto work = [&](Transport& transport) {
      run_rank(program, transport, [&](const Action& action, InputExchange* exchange) {
        if (action.microbatch == failing && transport.rank() == ranks - 1) {
          if (exchange != nullptr && round % 2 == 0) {
            exchange->all_to_all(std::vector<Bytes>(static_cast<std::size_t>(ranks)));
          }
          throw work_error("the disk is full");
        }
        if (exchange != nullptr) {
          exchange->all_to_all(std::vector<Bytes>(static_cast<std::size_t>(ranks)));
        }
      });
    };
    EXPECT_EQ(error_of([&] { exec::run_as_threads(ranks, {}, work); }), "the disk is full")
        << to_text(calls[static_cast<std::size_t>(failing)].action);
  }
}

TEST(InputWorker, TheActionThatWaitedTooLongIsNamed) {
  const InputProgram program = on_ranks(2, {{input_action(COPY, 7), InputStream::memcpy, {}},
                                            {input_action(IDS, 7), InputStream::data_dist, {0}},
                                            {input_action(LOOKUP, 7), InputStream::compute, {1}}});
  std::latch gave_up(1);
  const auto work = [&](Transport& transport) {
    if (transport.rank() == 0) transport.set_patience(std::chrono::milliseconds(20));
    try {
      run_rank(program, transport, [&](const Action& action, InputExchange* exchange) {
        if (exchange != nullptr) exchange->all_to_all(std::vector<Bytes>(2));
        if (action.kind == COPY && transport.rank() == 1) gave_up.wait();
      });
    } catch (const exec::TimedOut&) {
      gave_up.count_down();
      throw;
    }
  };
  EXPECT_EQ(error_of([&] { exec::run_as_threads(2, {}, work); }),
            "IDS7: waited 20.00 ms for a message from rank 1; --timeout allows no more");
}

}  // namespace
}  // namespace pipesim
