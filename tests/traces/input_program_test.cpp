// Input programs: what is a fault, their text, and who waits for whom for ever.
#include "traces/input_program.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/errors.h"

namespace pipesim {
namespace {

// One batch, one rank, as plainly as can be; `changed` lines take the place of what they begin
// with.
std::string one_batch(const std::string& ranks = "rank 0") {
  return "pipesim-program 1\nbatches 1\n\n" + ranks +
         "\n"
         "host      NEXT0\n"
         "memcpy    COPY0\n"
         "data_dist SPLITS0 after COPY0\n"
         "host      READ0 after SPLITS0\n"
         "data_dist IDS0\n"
         "compute   BOTTOM0 after COPY0\n"
         "compute   LOOKUP0 after IDS0\n"
         "compute   OUTPUT0\n"
         "compute   TOP0\n"
         "compute   TOP_BACKWARD0\n"
         "reduction REDUCE_TOP0 after TOP_BACKWARD0\n"
         "compute   OUTPUT_BACKWARD0\n"
         "compute   UPDATE0\n"
         "compute   BOTTOM_BACKWARD0\n"
         "reduction REDUCE_BOTTOM0 after BOTTOM_BACKWARD0\n"
         "compute   OPTIMIZER0 after REDUCE_TOP0 REDUCE_BOTTOM0\n";
}

std::string with(std::string text, const std::string& line, const std::string& instead) {
  const std::size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), instead);
}

std::string program_error(const std::string& text) {
  return testing::input_error_of([&] { parse_input_program(text, "p"); });
}

// A file may say that ranks and batches are many.
TEST(InputProgramText, ManyRanksAndBatchesTakeLittleMemory) {
  EXPECT_EQ(parse_input_program(one_batch("ranks 0-4095"), "p").ranks(), max_input_ranks);
  EXPECT_EQ(program_error(one_batch("ranks 0-4096")),
            "p:4: there are at most 4,096 ranks, so no rank 4096");
  EXPECT_EQ(program_error(one_batch("ranks 0-999999999")),
            "p:4: there are at most 4,096 ranks, so no rank 999999999");
  EXPECT_EQ(program_error(with(one_batch(), "batches 1", "batches 1000000000")),
            "p:21: rank 0: NEXT1 is missing");
}

TEST(InputProgramText, IsReadAndWrittenBack) {
  for (const char* ranks : {"rank 0", "ranks 0-3"}) {
    const std::string text = one_batch(ranks);
    const InputProgram program = parse_input_program(text, "p");
    EXPECT_EQ(to_text(program), text);
    EXPECT_EQ(program.batches, 1);
    EXPECT_EQ(program.ranks(), ranks == std::string("rank 0") ? 1 : 4);
    ASSERT_EQ(program.calls.back().size(), 16U);
    EXPECT_EQ(program.calls.back()[2].after, std::vector<std::uint32_t>{1});
  }
  const std::string odd =
      "\xef\xbb\xbf" + with(one_batch(), "memcpy    COPY0", "\tmemcpy COPY0 # on its way\r");
  EXPECT_EQ(to_text(parse_input_program(odd, "p")), one_batch());
}

TEST(InputProgramText, IsReadByItsOldName) {
  const std::string old = with(one_batch(), "pipesim-program", "pipesim-input-program");
  EXPECT_EQ(to_text(parse_input_program(old, "p")), one_batch());
}

TEST(InputProgramText, WrongLinesAreNamed) {
  const auto changed = [](const std::string& line, const std::string& instead) {
    return program_error(with(one_batch(), line, instead));
  };
  EXPECT_EQ(program_error("pipesim-plan 1\n"),
            "p:1: it begins with 'pipesim-plan', not with `pipesim-program 1`");
  EXPECT_EQ(program_error("pipesim-program 2\n"), "p:1: its version is '2'; this reads version 1");
  EXPECT_EQ(program_error(""), "p:1: it is empty");
  EXPECT_EQ(program_error("pipesim-program 1\nrank 0\ncompute 0F0\n"),
            "p:2: `batches N` is missing; a pipeline's program has none, and is given with "
            "--schedule");
  EXPECT_EQ(program_error("pipesim-program 1\nbatches 1\n"),
            "p:3: it has no rank; begin one with `rank 0`");
  EXPECT_EQ(changed("batches 1", "batches none"), "p:2: batches: 'none' is not a whole number");
  EXPECT_EQ(changed("rank 0", "rank 1"), "p:4: rank 0 comes next, not '1'");
  EXPECT_EQ(changed("memcpy    COPY0", "memory COPY0"),
            "p:6: unknown stream 'memory'; known, nearest first: memcpy, host, prepare, lookup, "
            "compute, output, prefetch, reduction, data_dist");
  EXPECT_EQ(changed("memcpy    COPY0", "memcpy COPY"),
            "p:6: 'COPY' is not an action; one is a kind and a batch: COPY0");
  EXPECT_EQ(changed("memcpy    COPY0", "memcpy COPY0 then NEXT0"),
            "p:6: after its action a call has nothing, or `after` and the actions it waits for");
  EXPECT_EQ(changed("SPLITS0 after COPY0", "SPLITS0 after COPY1"),
            "p:7: SPLITS0 waits for COPY1, which its rank has not called before it");
}

TEST(InputProgramFaults, WhatABatchLacksOrHasTwiceIsNamed) {
  const auto changed = [](const std::string& line, const std::string& instead) {
    return program_error(with(one_batch(), line, instead));
  };
  EXPECT_EQ(changed("compute   UPDATE0\n", ""), "p:20: rank 0: UPDATE0 is missing");
  EXPECT_EQ(changed("batches 1", "batches 1000000000"), "p:21: rank 0: NEXT1 is missing");
  EXPECT_EQ(changed("compute   UPDATE0\n", "compute UPDATE0\ncompute UPDATE0\n"),
            "p:18: rank 0: UPDATE0 is given twice");
  EXPECT_EQ(changed("compute   UPDATE0\n", "compute UPDATE0\ncompute LOOKUP1\n"),
            "p:18: rank 0: LOOKUP1 is for batch 1, but batches are 0 to 0");
  EXPECT_EQ(changed("host      NEXT0", "memcpy NEXT0"),
            "p:5: rank 0: NEXT0 is on stream memcpy, but the host does it: host");
  EXPECT_EQ(changed("memcpy    COPY0", "host COPY0"),
            "p:6: rank 0: COPY0 is on stream host, but the host does NEXT and READ alone");
}

TEST(InputProgramFaults, ARaceIsNamed) {
  const auto changed = [](const std::string& line, const std::string& instead) {
    return program_error(with(one_batch(), line, instead));
  };
  EXPECT_EQ(changed("SPLITS0 after COPY0", "SPLITS0"),
            "p:7: rank 0: SPLITS0 may start before COPY0 has ended: no stream and no `after` puts "
            "it after that");
  EXPECT_EQ(changed("READ0 after SPLITS0", "READ0"),
            "p:8: rank 0: READ0 may start before SPLITS0 has ended: no stream and no `after` puts "
            "it after that");
  EXPECT_EQ(changed(" after IDS0", ""),
            "p:11: rank 0: LOOKUP0 may start before IDS0 has ended: no stream and no `after` puts "
            "it after that");
  EXPECT_EQ(changed("REDUCE_TOP0 REDUCE_BOTTOM0", "REDUCE_TOP0"),
            "p:20: rank 0: OPTIMIZER0 may start before REDUCE_BOTTOM0 has ended: no stream and no "
            "`after` puts it after that");
  // Blocking the host is as good as a wait: READ0 has COPY0 behind it.
  EXPECT_EQ(to_text(parse_input_program(with(one_batch(), "BOTTOM0 after COPY0", "BOTTOM0"), "p")),
            with(one_batch(), "BOTTOM0 after COPY0", "BOTTOM0"));
}

// Two batches; the second's parts with other numbers.
InputProgram two_batches(bool is_stale) {
  const InputProgram one = parse_input_program(one_batch(), "p");
  InputProgram two{"p", 2, 1, is_stale, {one.calls[0]}};
  InputCalls& calls = two.calls[0];
  calls.push_back({input_action(Kind::ZERO_GRAD, 0), InputStream::compute, {}});
  const auto first = static_cast<std::uint32_t>(calls.size());
  for (InputCall call : one.calls[0]) {
    call.action.microbatch = 1;
    for (std::uint32_t& awaited : call.after) awaited += first;
    calls.push_back(call);
  }
  return two;
}

TEST(InputProgramFaults, WhatOneBatchDoesToTheNextIsKnown) {
  EXPECT_FALSE(find_fault(two_batches(false)));
  const InputPlaces places(two_batches(false).calls[0], 2);
  {  // the lookup on a stream of its own no longer comes behind the update
    InputProgram program = two_batches(false);
    program.calls[0][places.of(Kind::LOOKUP, 1)].stream = InputStream::lookup;
    // It starts behind READ1, and that behind nothing of batch 0 on the compute stream.
    EXPECT_EQ(find_fault(program)->rule,
              "LOOKUP1 may start before UPDATE0 has ended: no stream and no `after` puts it after "
              "that");
  }
  {  // one step stale means before the update, not whenever
    const auto fault = find_fault(two_batches(true));
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->rule,
              "UPDATE0 may start before LOOKUP1 has ended: no stream and no `after` puts it after "
              "that");
  }
  {
    InputProgram program = two_batches(false);
    program.calls[0][places.of(Kind::ZERO_GRAD, 0)].stream = InputStream::lookup;
    EXPECT_EQ(find_fault(program)->rule,
              "ZERO_GRAD0 may clear gradients that OPTIMIZER0 is yet to use");
  }
  {
    InputProgram program = two_batches(false);
    program.calls[0].resize(places.of(Kind::ZERO_GRAD, 0));
    const InputProgram whole = two_batches(false);
    for (std::size_t i = places.of(Kind::ZERO_GRAD, 0) + 1; i < whole.calls[0].size(); ++i) {
      InputCall call = whole.calls[0][i];
      for (std::uint32_t& awaited : call.after) --awaited;
      program.calls[0].push_back(call);
    }
    EXPECT_EQ(find_fault(program)->rule,
              "TOP_BACKWARD1 adds to gradients that no ZERO_GRAD clears after OPTIMIZER0");
  }
  {  // no step ends with the first of two batches to a step
    InputProgram program = two_batches(false);
    program.accumulate = 2;
    EXPECT_EQ(find_fault(program)->rule, "REDUCE_TOP0 is there, but no step ends with batch 0");
  }
}

TEST(InputProgramFaults, RanksWithOtherOrdersOfCollectivesAreRefused) {
  const std::string other = with(one_batch("rank 1"), "pipesim-program 1\nbatches 1\n", "");
  EXPECT_EQ(program_error(one_batch() + other), testing::no_error);
  const std::string swapped =
      with(with(other, "reduction REDUCE_TOP0 after TOP_BACKWARD0\n", ""),
           "REDUCE_BOTTOM0 after BOTTOM_BACKWARD0\n",
           "REDUCE_BOTTOM0 after BOTTOM_BACKWARD0\nreduction REDUCE_TOP0 after TOP_BACKWARD0\n");
  EXPECT_EQ(program_error(one_batch() + swapped),
            "p:36: rank 1: collective 1 of stream reduction is REDUCE_BOTTOM0, but REDUCE_TOP0 on "
            "rank 0: ranks would wait for each other forever");
}

TEST(InputProgramFaults, ACircleThroughTwoStreamsIsNamed) {
  // Rank 1 sums top gradients before it sends those of rows; rank 0 the other way round.
  const std::string first = with(one_batch(), "REDUCE_TOP0 after TOP_BACKWARD0\n",
                                 "REDUCE_TOP0 after TOP_BACKWARD0 OUTPUT_BACKWARD0\n");
  const std::string moved =
      with(with(first, "reduction REDUCE_TOP0 after TOP_BACKWARD0 OUTPUT_BACKWARD0\n", ""),
           "compute   OUTPUT_BACKWARD0\n",
           "compute   OUTPUT_BACKWARD0\nreduction REDUCE_TOP0 after TOP_BACKWARD0 "
           "OUTPUT_BACKWARD0\n");
  const std::string other =
      with(with(one_batch("rank 1"), "pipesim-program 1\nbatches 1\n", ""),
           "compute   OUTPUT_BACKWARD0\n", "compute   OUTPUT_BACKWARD0 after REDUCE_TOP0\n");
  EXPECT_EQ(program_error(moved + other),
            "p:15: rank 0: the ranks wait for each other forever: rank 0's OUTPUT_BACKWARD0 waits "
            "for rank 1 to come to it; rank 1's OUTPUT_BACKWARD0 waits for REDUCE_TOP0; rank 1's "
            "REDUCE_TOP0 waits for rank 0 to come to it; rank 0's REDUCE_TOP0 waits for "
            "OUTPUT_BACKWARD0");
}

}  // namespace
}  // namespace pipesim
