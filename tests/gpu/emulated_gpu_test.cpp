// The emulated GPU: what is right there is right under every seed, and what only
// happens to work elsewhere goes wrong.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulated_gpu/address_sanitizer.h"
#include "tests/gpu/emulated_gpu_kernels.h"

namespace pipesim::testing {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr int seeds = 40;

using Numbers = std::vector<float>;

void begin(std::uint64_t seed, int gpus = 1, std::size_t memory = 16 * mib) {
  emulated_gpu::restart({seed, gpus, memory});
}

#define ASSERT_FINE(call) ASSERT_EQ(call, gpuSuccess) << gpuGetErrorString(gpuPeekAtLastError())

std::string text_of(gpuError_t error) { return gpuGetErrorString(error); }

void expect_failure(gpuError_t got, gpuError_t want, const std::string& part) {
  EXPECT_EQ(got, want) << gpuGetErrorName(got);
  EXPECT_NE(text_of(got).find(part), std::string::npos) << text_of(got);
}

gpuStream_t new_stream() {
  gpuStream_t stream = nullptr;
  EXPECT_EQ(gpuStreamCreateWithFlags(&stream, gpuStreamNonBlocking), gpuSuccess);
  return stream;
}

gpuEvent_t new_event(unsigned flags = gpuEventDefault) {
  gpuEvent_t event = nullptr;
  EXPECT_EQ(gpuEventCreateWithFlags(&event, flags), gpuSuccess);
  return event;
}

float* new_memory(int n) {
  void* memory = nullptr;
  EXPECT_EQ(gpuMalloc(&memory, static_cast<std::size_t>(n) * sizeof(float)), gpuSuccess);
  return static_cast<float*>(memory);
}

float* new_pinned(int n) {
  void* memory = nullptr;
  EXPECT_EQ(gpuHostMalloc(&memory, static_cast<std::size_t>(n) * sizeof(float)), gpuSuccess);
  return static_cast<float*>(memory);
}

gpuError_t to_gpu(gpuStream_t stream, float* to, const float* from, int n) {
  return gpuMemcpyAsync(to, from, static_cast<std::size_t>(n) * sizeof(float),
                        gpuMemcpyHostToDevice, stream);
}

gpuError_t to_host(gpuStream_t stream, float* to, const float* from, int n) {
  return gpuMemcpyAsync(to, from, static_cast<std::size_t>(n) * sizeof(float),
                        gpuMemcpyDeviceToHost, stream);
}

// Into memory that isn't pinned, so that the numbers are there.
Numbers read(gpuStream_t stream, const float* memory, int n) {
  Numbers numbers(static_cast<std::size_t>(n));
  EXPECT_EQ(to_host(stream, numbers.data(), memory, n), gpuSuccess);
  return numbers;
}

Numbers counted(int n) {
  Numbers numbers(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) numbers[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
  return numbers;
}

float* new_memory(gpuStream_t stream, const Numbers& numbers) {
  const int n = static_cast<int>(numbers.size());
  float* memory = new_memory(n);
  EXPECT_EQ(to_gpu(stream, memory, numbers.data(), n), gpuSuccess);
  return memory;
}

// ---- Kernels

TEST(EmulatedGpu, KernelsSeeTheirPlaces) {
  begin(1);
  gpuStream_t stream = new_stream();
  const dim3 blocks(5, 3, 2);
  const int all = 5 * 3 * 2 * 7;
  float* y = new_memory(4 * all);
  tell_places(stream, blocks, 7, y);
  const Numbers places = read(stream, y, 4 * all);
  std::size_t i = 0;
  for (unsigned z = 0; z < 2; ++z) {
    for (unsigned row = 0; row < 3; ++row) {
      for (unsigned column = 0; column < 5; ++column) {
        for (unsigned thread = 0; thread < 7; ++thread, i += 4) {
          ASSERT_EQ(Numbers(places.begin() + static_cast<std::ptrdiff_t>(i),
                            places.begin() + static_cast<std::ptrdiff_t>(i) + 4),
                    (Numbers{static_cast<float>(thread), static_cast<float>(column),
                             static_cast<float>(row), static_cast<float>(z)}));
        }
      }
    }
  }
}

TEST(EmulatedGpu, BarriersHold) {
  for (int seed = 1; seed <= seeds; ++seed) {
    begin(static_cast<std::uint64_t>(seed));
    gpuStream_t stream = new_stream();
    for (const int n : {1, 2, 64, 100, 256, 1024}) {
      float* x = new_memory(stream, counted(n));
      float* y = new_memory(n);
      rotate_right(stream, n, 3, x, y);
      const Numbers got = read(stream, y, n);
      for (int i = 0; i < n; ++i) {
        ASSERT_EQ(got[static_cast<std::size_t>(i)], static_cast<float>((i + 3) % n + 1)) << n;
      }
    }
    float* x = new_memory(stream, counted(3 * 256));
    sum_blocks(stream, 3, 256, x);
    const Numbers sums = read(stream, x, 3 * 256);
    for (int i = 0; i < 3 * 256; ++i) {
      const int block = i / 256;
      ASSERT_EQ(sums[static_cast<std::size_t>(i)], 256 * (256 * block) + 256 * 257 / 2);
    }
  }
}

TEST(EmulatedGpu, AMissingBarrierShowsUnderEverySeedAndTheSameWay) {
  for (int seed = 1; seed <= seeds; ++seed) {
    for (const int by : {1, 128, 255}) {
      const auto run = [&] {
        begin(static_cast<std::uint64_t>(seed));
        gpuStream_t stream = new_stream();
        float* x = new_memory(stream, counted(256));
        float* y = new_memory(256);
        rotate_without_barrier(stream, 256, by, x, y);
        const Numbers got = read(stream, y, 256);
        std::vector<bool> wrong;
        for (const float value : got) wrong.push_back(std::isnan(value));
        return wrong;
      };
      const std::vector<bool> wrong = run();
      EXPECT_GT(std::count(wrong.begin(), wrong.end(), true), 0) << seed << ", " << by;
      EXPECT_EQ(run(), wrong);
    }
  }
}

TEST(EmulatedGpu, UnequalBarriersAreNamedAndEndEverything) {
  begin(1);
  gpuStream_t stream = new_stream();
  meet_unequal_barriers(stream, 64);
  ASSERT_EQ(gpuGetLastError(), gpuSuccess);  // it has still to run
  expect_failure(gpuStreamSynchronize(stream), gpuErrorLaunchFailure,
                 "the kernel of meet_unequal_barriers: in block (");
  EXPECT_NE(text_of(gpuErrorLaunchFailure).find("32 of 64 threads wait at a barrier"),
            std::string::npos);
  void* memory = nullptr;
  expect_failure(gpuMalloc(&memory, 4), gpuErrorLaunchFailure, "meet_unequal_barriers");
  EXPECT_EQ(gpuGetLastError(), gpuErrorLaunchFailure);
  EXPECT_EQ(gpuGetLastError(), gpuErrorLaunchFailure);  // for good
}

TEST(EmulatedGpu, SharedMemoryIsNaNAtFirst) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* fixed = new_memory(256);
  float* dynamic = new_memory(256);
  for (int again = 0; again < 2; ++again) {
    for (float* memory : {fixed, dynamic}) {
      ASSERT_FINE(gpuMemsetAsync(memory, 0, 1024, stream));
    }
    rotate_right(stream, 256, 1, fixed, dynamic);  // leaves numbers in it
    read_fresh_memory(stream, 256, fixed, dynamic);
    for (const float* memory : {fixed, dynamic}) {
      for (const float value : read(stream, memory, 256)) ASSERT_TRUE(std::isnan(value));
    }
  }
}

TEST(EmulatedGpu, SharedMemoryHasALimit) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* y = new_memory(1);
  use_shared_memory(stream, 49152, y);
  EXPECT_EQ(read(stream, y, 1)[0], 49152 / 2 % 100);
  start(stream, 1, 1, 49152);
  ASSERT_EQ(gpuGetLastError(), gpuSuccess);
  start(stream, 1, 1, 49153);
  expect_failure(gpuGetLastError(), gpuErrorInvalidValue, "49152 bytes of shared memory");
  use_shared_memory(stream, 49153, y);
  expect_failure(gpuStreamSynchronize(stream), gpuErrorLaunchFailure,
                 "the kernel of use_shared_memory uses 49153 bytes");
}

TEST(EmulatedGpu, AKernelMayBeAllowedMoreSharedMemory) {
  begin(1);
  gpuStream_t stream = new_stream();
  gpuDeviceProp properties;
  ASSERT_FINE(gpuGetDeviceProperties(&properties, 0));
  const auto most = static_cast<int>(properties.sharedMemPerBlockOptin);
  EXPECT_EQ(most, 232448);
  ASSERT_FINE(allow_shared_memory(most));
  start(stream, 1, 1, static_cast<std::size_t>(most));
  ASSERT_EQ(gpuGetLastError(), gpuSuccess);
  start(stream, 1, 1, static_cast<std::size_t>(most) + 1);
  expect_failure(gpuGetLastError(), gpuErrorInvalidValue, "unless its kernel is allowed more");
  expect_failure(allow_shared_memory(most + 1), gpuErrorInvalidValue, "at most 232448 bytes");
}

TEST(EmulatedGpu, GridsHaveLimits) {
  begin(1);
  gpuStream_t stream = new_stream();
  for (const auto& [blocks, n] : std::vector<std::pair<dim3, int>>{{dim3(0), 1},
                                                                   {dim3(1, 0), 1},
                                                                   {dim3(1U << 31), 1},
                                                                   {dim3(1, 65536), 1},
                                                                   {dim3(1, 1, 65536), 1},
                                                                   {dim3(1), 0},
                                                                   {dim3(1), 1025}}) {
    start(stream, blocks, n);
    EXPECT_EQ(gpuPeekAtLastError(), gpuErrorInvalidConfiguration);
    EXPECT_EQ(gpuGetLastError(), gpuErrorInvalidConfiguration);
    EXPECT_EQ(gpuGetLastError(), gpuSuccess);
  }
  start(stream, dim3(1, 65535), 1);
  start(stream, dim3(70000), 1);
  start(stream, 1, 1024);
  EXPECT_EQ(gpuGetLastError(), gpuSuccess);
  EXPECT_EQ(gpuStreamSynchronize(stream), gpuSuccess);
  start(nullptr, 1, 1);
  expect_failure(gpuGetLastError(), gpuErrorInvalidResourceHandle, "no default stream");
}

TEST(EmulatedGpu, WritingBesideAnAllocationIsNamed) {
  for (const int at : {-1, 100, 127}) {
    begin(1);
    gpuStream_t stream = new_stream();
    float* x = new_memory(100);
    write_at(stream, x, 99);
    ASSERT_FINE(gpuStreamSynchronize(stream));
    write_at(stream, x, at);
    expect_failure(gpuStreamSynchronize(stream), gpuErrorLaunchFailure,
                   "the kernel of write_at wrote beside an allocation");
  }
}

// ---- Streams

// y = x + 1 on one stream, and on another z = y.
float through_two_streams(std::uint64_t seed, bool waits) {
  begin(seed);
  gpuStream_t first = new_stream();
  gpuStream_t second = new_stream();
  gpuEvent_t event = new_event(gpuEventDisableTiming);
  float* x = new_memory(first, counted(1));
  float* y = new_memory(1);
  add_to(first, 1, x, 1);
  EXPECT_EQ(gpuEventRecord(event, first), gpuSuccess);
  if (waits) {
    EXPECT_EQ(gpuStreamWaitEvent(second, event, 0), gpuSuccess);
  }
  copy_numbers(second, 1, x, y);
  return read(second, y, 1)[0];
}

TEST(EmulatedGpu, AMissingWaitShowsUnderManySeeds) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    EXPECT_EQ(through_two_streams(seed, true), 2) << seed;
    const float without = through_two_streams(seed, false);
    if (without != 2) ++wrong;
    const float again = through_two_streams(seed, false);
    EXPECT_TRUE(again == without || (std::isnan(again) && std::isnan(without))) << seed;
  }
  EXPECT_GE(wrong, seeds / 4);
  EXPECT_LT(wrong, seeds);
}

// Of the other kind: what is read is overwritten by another stream meanwhile.
TEST(EmulatedGpu, OverwritingTooEarlyShowsUnderManySeeds) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const bool waits : {true, false}) {
      begin(seed);
      gpuStream_t reader = new_stream();
      gpuStream_t writer = new_stream();
      gpuEvent_t event = new_event();
      float* x = new_memory(reader, counted(1));
      float* y = new_memory(1);
      ASSERT_FINE(gpuStreamSynchronize(reader));
      copy_numbers(reader, 1, x, y);
      ASSERT_FINE(gpuEventRecord(event, reader));
      if (waits) {
        ASSERT_FINE(gpuStreamWaitEvent(writer, event, 0));
      }
      add_to(writer, 1, x, 1);
      ASSERT_FINE(gpuStreamSynchronize(writer));
      const float got = read(reader, y, 1)[0];
      if (waits) {
        EXPECT_EQ(got, 1) << seed;
      } else if (got != 1) {
        ++wrong;
      }
    }
  }
  EXPECT_GE(wrong, seeds / 4);
}

// An event means its recording at the time of the wait.
TEST(EmulatedGpu, EventsMayBeRecordedAgain) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    begin(seed);
    gpuStream_t first = new_stream();
    gpuStream_t second = new_stream();
    gpuEvent_t there = new_event();
    gpuEvent_t back = new_event();
    float* x = new_memory(first, Numbers{0});
    for (int i = 0; i < 100; ++i) {
      add_to(first, 1, x, 1);
      ASSERT_FINE(gpuEventRecord(there, first));
      ASSERT_FINE(gpuStreamWaitEvent(second, there, 0));
      add_to(second, 1, x, 1);
      ASSERT_FINE(gpuEventRecord(back, second));
      ASSERT_FINE(gpuStreamWaitEvent(first, back, 0));
    }
    ASSERT_FINE(gpuEventDestroy(there));
    ASSERT_EQ(read(first, x, 1)[0], 200);
    ASSERT_FINE(gpuStreamDestroy(second));
    ASSERT_FINE(gpuStreamDestroy(first));
    EXPECT_EQ(gpuStreamSynchronize(first), gpuErrorInvalidResourceHandle);
    EXPECT_EQ(gpuEventQuery(there), gpuErrorInvalidResourceHandle);
  }
}

TEST(EmulatedGpu, LongQueuesRun) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* x = new_memory(stream, Numbers{0});
  for (int i = 0; i < 5000; ++i) add_to(stream, 1, x, 1);
  EXPECT_EQ(read(stream, x, 1)[0], 5000);
}

TEST(EmulatedGpu, EventsTellWhatHasRunAndWhen) {
  begin(1);
  gpuStream_t stream = new_stream();
  gpuEvent_t from = new_event();
  gpuEvent_t to = new_event();
  gpuEvent_t untimed = new_event(gpuEventDisableTiming);
  float time = -1;
  EXPECT_EQ(gpuEventQuery(from), gpuSuccess);  // never recorded
  EXPECT_EQ(gpuEventSynchronize(from), gpuSuccess);
  EXPECT_EQ(gpuEventElapsedTime(&time, from, to), gpuErrorInvalidResourceHandle);
  float* x = new_memory(stream, Numbers{0});
  const auto start = std::chrono::steady_clock::now();
  ASSERT_FINE(gpuEventRecord(from, stream));
  for (int i = 0; i < 10; ++i) add_to(stream, 1, x, 1);
  ASSERT_FINE(gpuEventRecord(untimed, stream));
  ASSERT_FINE(gpuEventRecord(to, stream));
  static_cast<void>(gpuGetLastError());
  EXPECT_EQ(gpuEventElapsedTime(&time, from, to), gpuErrorNotReady);
  int queries = 1;
  while (gpuEventQuery(to) == gpuErrorNotReady) ASSERT_LT(++queries, 20);
  EXPECT_GT(queries, 1);
  EXPECT_EQ(gpuGetLastError(), gpuSuccess);  // not ready is no error
  EXPECT_EQ(gpuEventElapsedTime(&time, untimed, to), gpuErrorInvalidResourceHandle);
  ASSERT_FINE(gpuEventElapsedTime(&time, from, to));
  const std::chrono::duration<float, std::milli> all = std::chrono::steady_clock::now() - start;
  EXPECT_GE(time, 0);
  EXPECT_LE(time, all.count());
}

TEST(EmulatedGpu, StreamsTellWhetherTheyAreDone) {
  begin(1);
  gpuStream_t stream = new_stream();
  EXPECT_EQ(gpuStreamQuery(stream), gpuSuccess);
  float* x = new_memory(stream, Numbers{0});
  for (int i = 0; i < 10; ++i) add_to(stream, 1, x, 1);
  EXPECT_EQ(gpuStreamQuery(stream), gpuErrorNotReady);
  ASSERT_FINE(gpuDeviceSynchronize());
  EXPECT_EQ(gpuStreamQuery(stream), gpuSuccess);
}

TEST(EmulatedGpu, ThreadsOfTheHostWorkSideBySide) {
  for (const std::uint64_t seed : {1, 2}) {
    begin(seed);
    std::vector<float> results(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < results.size(); ++i) {
      threads.emplace_back([&, i] {
        gpuStream_t stream = new_stream();
        float* x = new_memory(stream, counted(256));
        float* y = new_memory(256);
        for (int times = 0; times < 50; ++times) {
          rotate_right(stream, 256, 1, x, y);
          rotate_right(stream, 256, static_cast<int>(i), y, x);
        }
        results[i] = read(stream, x, 1)[0];
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i], static_cast<float>(50 * (1 + i) % 256 + 1));
    }
  }
}

// ---- The host's memory

TEST(EmulatedGpu, PinnedMemoryIsReadWhenTheCopyRuns) {
  begin(1);  // an odd one is lazy
  gpuStream_t stream = new_stream();
  float* x = new_memory(1);
  float* pinned = new_pinned(1);
  EXPECT_TRUE(std::isnan(*pinned));
  *pinned = 1;
  ASSERT_FINE(to_gpu(stream, x, pinned, 1));
  *pinned = 2;  // too early
  EXPECT_EQ(read(stream, x, 1)[0], 2);
  ASSERT_FINE(to_gpu(stream, x, pinned, 1));
  ASSERT_FINE(gpuStreamSynchronize(stream));
  *pinned = 3;
  EXPECT_EQ(read(stream, x, 1)[0], 2);
}

TEST(EmulatedGpu, AnEvenSeedRunsSomeCopiesAtOnce) {
  int early = 0;
  for (std::uint64_t seed = 2; seed <= 2 * seeds; seed += 2) {
    begin(seed);
    gpuStream_t stream = new_stream();
    float* x = new_memory(1);
    float* pinned = new_pinned(1);
    *pinned = 1;
    ASSERT_FINE(to_gpu(stream, x, pinned, 1));
    *pinned = 2;
    if (read(stream, x, 1)[0] == 1) ++early;
  }
  EXPECT_GT(early, seeds / 8);
  EXPECT_LT(early, seeds);
}

TEST(EmulatedGpu, PinnedMemoryIsNaNUntilACopyToItHasRun) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* x = new_memory(stream, counted(1));
  float* pinned = new_pinned(1);
  *pinned = 7;
  ASSERT_FINE(to_host(stream, pinned, x, 1));
  EXPECT_TRUE(std::isnan(*pinned));
  ASSERT_FINE(gpuStreamSynchronize(stream));
  EXPECT_EQ(*pinned, 1);
}

// There and back on one stream, through one place: nothing is wrong with it.
TEST(EmulatedGpu, PinnedMemoryThatAnEarlierCopyNeedsStaysAsItIs) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* x = new_memory(1);
  float* pinned = new_pinned(1);
  *pinned = 5;
  ASSERT_FINE(to_gpu(stream, x, pinned, 1));
  add_to(stream, 1, x, 1);
  ASSERT_FINE(to_host(stream, pinned, x, 1));
  ASSERT_FINE(gpuStreamSynchronize(stream));
  EXPECT_EQ(*pinned, 6);
}

TEST(EmulatedGpu, OtherMemoryIsReadAtOnceAndThereOnReturn) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* x = new_memory(1);
  Numbers number{1};
  ASSERT_FINE(to_gpu(stream, x, number.data(), 1));
  number[0] = 2;
  add_to(stream, 1, x, 10);
  ASSERT_FINE(to_host(stream, number.data(), x, 1));
  EXPECT_EQ(number[0], 11);
}

TEST(EmulatedGpu, PinnedMemoryMayNotGoWhileACopyNeedsIt) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* x = new_memory(1);
  float* pinned = new_pinned(1);
  ASSERT_FINE(to_gpu(stream, x, pinned, 1));
  expect_failure(gpuHostFree(pinned), gpuErrorInvalidValue, "has still to run");
  expect_failure(gpuStreamSynchronize(stream), gpuErrorLaunchFailure, "has still to run");
}

TEST(EmulatedGpu, PinnedMemoryGoesOnceCopiesHaveRun) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* x = new_memory(1);
  float* pinned = new_pinned(1);
  ASSERT_FINE(to_gpu(stream, x, pinned, 1));
  ASSERT_FINE(gpuStreamSynchronize(stream));
  ASSERT_FINE(gpuHostFree(pinned));
  expect_failure(gpuHostFree(pinned), gpuErrorInvalidValue, "was freed before");
  ASSERT_FINE(gpuHostFree(nullptr));
}

// ---- The GPU's memory

TEST(EmulatedGpu, FreshMemoryIsNaNAndAligned) {
  begin(1);
  gpuStream_t stream = new_stream();
  for (int again = 0; again < 3; ++again) {
    for (const int n : {1, 63, 1000}) {
      float* x = new_memory(n);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x) % 256, 0U);
      for (const float value : read(stream, x, n)) ASSERT_TRUE(std::isnan(value));
      ASSERT_FINE(gpuMemsetAsync(x, 0, static_cast<std::size_t>(n) * sizeof(float), stream));
      for (const float value : read(stream, x, n)) ASSERT_EQ(value, 0);
      ASSERT_FINE(gpuFree(x));
    }
  }
}

TEST(EmulatedGpu, MemoryEndsAndServesAgain) {
  begin(1, 1, mib);
  std::size_t left = 0;
  std::size_t total = 0;
  ASSERT_FINE(gpuMemGetInfo(&left, &total));
  EXPECT_EQ(left, mib);
  EXPECT_EQ(total, mib);
  for (int again = 0; again < 20; ++again) {
    std::vector<void*> all;
    void* memory = nullptr;
    while (gpuMalloc(&memory, mib / 16) == gpuSuccess) all.push_back(memory);
    EXPECT_EQ(all.size(), 16U);
    expect_failure(gpuMalloc(&memory, 1), gpuErrorMemoryAllocation, "no memory left");
    EXPECT_EQ(gpuGetLastError(), gpuErrorMemoryAllocation);
    ASSERT_FINE(gpuMemGetInfo(&left, &total));
    EXPECT_EQ(left, 0U);
    for (void* one : all) ASSERT_FINE(gpuFree(one));
  }
  void* memory = nullptr;
  EXPECT_EQ(gpuMalloc(&memory, mib + 1), gpuErrorMemoryAllocation);
  EXPECT_EQ(gpuMalloc(&memory, mib), gpuSuccess);
}

TEST(EmulatedGpu, FreeingWaitsAndIsChecked) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* x = new_memory(stream, counted(4));
  float* pinned = new_pinned(4);
  ASSERT_FINE(to_host(stream, pinned, x, 4));
  ASSERT_FINE(gpuFree(x));
  EXPECT_EQ(pinned[3], 4);
  expect_failure(gpuFree(x), gpuErrorInvalidValue, "was freed before");
  float* y = new_memory(4);
  expect_failure(gpuFree(y + 1), gpuErrorInvalidValue, "was not allocated");
  expect_failure(gpuFree(pinned), gpuErrorInvalidValue, "not the GPU's memory");
  ASSERT_FINE(gpuFree(nullptr));
}

TEST(EmulatedGpu, CopiesStayWithinAllocations) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* x = new_memory(4);
  float* y = new_memory(4);
  float* pinned = new_pinned(4);
  Numbers host(8);
  const auto refused = [](gpuError_t result, const std::string& part) {
    expect_failure(result, gpuErrorInvalidValue, part);
  };
  refused(to_gpu(stream, x, host.data(), 5), "copied to is not within one allocation");
  refused(to_gpu(stream, x + 1, pinned, 4), "copied to is not within one allocation");
  refused(to_gpu(stream, host.data(), pinned, 1), "copied to is not within one allocation");
  refused(to_host(stream, host.data(), x + 2, 3), "copied from is not within one allocation");
  refused(to_host(stream, pinned + 1, x, 4), "not within one pinned allocation");
  refused(to_gpu(stream, x, y, 1), "the host's side of a copy is the GPU's memory");
  refused(gpuMemcpyAsync(x, pinned, 4, gpuMemcpyDeviceToDevice, stream), "copied from");
  refused(gpuMemsetAsync(x, 0, 17, stream), "filled is not within one allocation");
  EXPECT_EQ(to_gpu(nullptr, x, host.data(), 1), gpuErrorInvalidResourceHandle);
  ASSERT_FINE(gpuFree(y));
  refused(to_gpu(stream, y, host.data(), 1), "copied to is not within one allocation");
  ASSERT_FINE(to_gpu(stream, x, pinned, 4));
  ASSERT_FINE(gpuMemcpyAsync(x + 2, x, 8, gpuMemcpyDeviceToDevice, stream));
  ASSERT_FINE(gpuStreamSynchronize(stream));
}

TEST(EmulatedGpuDeath, TheHostCanNotTouchTheGpusMemory) {
  begin(1);
  gpuStream_t stream = new_stream();
  volatile float* x = new_memory(stream, counted(1));
#ifdef PIPESIM_ADDRESS_SANITIZER
  const auto is_refused = ::testing::ExitedWithCode(1);
  const char* report = "AddressSanitizer: SEGV";
#else
  const auto is_refused = ::testing::KilledBySignal(SIGSEGV);
  const char* report = "";
#endif
  EXPECT_EXIT({ static_cast<void>(*x); }, is_refused, report);
  EXPECT_EXIT(
      {
        static_cast<void>(gpuStreamSynchronize(stream));
        *x = 1;
      },
      is_refused, report);
}

#ifdef PIPESIM_ADDRESS_SANITIZER
TEST(EmulatedGpuDeath, ReadingBesideAnAllocationIsReported) {
  begin(1);
  gpuStream_t stream = new_stream();
  float* x = new_memory(stream, counted(101));
  float* freed = new_memory(100);
  ASSERT_FINE(gpuFree(freed));
  float* y = new_memory(1);
  const auto reads = [&](const float* from, std::int64_t at) {
    read_at(stream, from, at, y);
    return gpuStreamSynchronize(stream);
  };
  ASSERT_FINE(reads(x, 0));
  ASSERT_FINE(reads(x, 100));
  EXPECT_DEATH(static_cast<void>(reads(x, -1)), "use-after-poison");
  EXPECT_DEATH(static_cast<void>(reads(x, 101)), "use-after-poison");
  EXPECT_DEATH(static_cast<void>(reads(freed, 0)), "use-after-poison");

  ASSERT_FINE(reads(nullptr, 99));
  EXPECT_DEATH(static_cast<void>(reads(nullptr, -1)), "use-after-poison");
  EXPECT_DEATH(static_cast<void>(reads(nullptr, 100)), "AddressSanitizer: ");
  volatile const float* pinned = new_pinned(5);
  EXPECT_TRUE(std::isnan(pinned[4]));
  EXPECT_DEATH(static_cast<void>(pinned[-1]), "use-after-poison");
  EXPECT_DEATH(static_cast<void>(pinned[5]), "AddressSanitizer: ");
}
#endif

// ---- GPUs

TEST(EmulatedGpu, ThereMayBeNone) {
  begin(1, 0);
  int count = -1;
  EXPECT_EQ(gpuGetDeviceCount(&count), gpuErrorNoDevice);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(gpuSetDevice(0), gpuErrorNoDevice);
  void* memory = nullptr;
  EXPECT_EQ(gpuMalloc(&memory, 1), gpuErrorNoDevice);
}

TEST(EmulatedGpu, SeveralHaveMemoryAndStreamsOfTheirOwn) {
  begin(1, 2, mib);
  int count = 0;
  ASSERT_FINE(gpuGetDeviceCount(&count));
  EXPECT_EQ(count, 2);
  gpuDeviceProp properties;
  ASSERT_FINE(gpuGetDeviceProperties(&properties, 1));
  EXPECT_EQ(std::string(properties.name), "Emulated GPU");
  EXPECT_EQ(properties.totalGlobalMem, mib);
  EXPECT_EQ(gpuGetDeviceProperties(&properties, 2), gpuErrorInvalidDevice);
  EXPECT_EQ(gpuSetDevice(-1), gpuErrorInvalidDevice);

  gpuStream_t first = new_stream();
  float* x = new_memory(first, counted(1));
  ASSERT_FINE(gpuSetDevice(1));
  static_cast<void>(gpuGetLastError());
  std::size_t left = 0;
  std::size_t total = 0;
  ASSERT_FINE(gpuMemGetInfo(&left, &total));
  EXPECT_EQ(left, mib);
  add_to(first, 1, x, 1);  // of the other GPU
  expect_failure(gpuGetLastError(), gpuErrorInvalidResourceHandle, "another GPU");
  gpuEvent_t event = new_event();
  EXPECT_EQ(gpuEventRecord(event, first), gpuErrorInvalidResourceHandle);
  EXPECT_EQ(read(first, x, 1)[0], 1);
  int gpu = -1;
  std::thread([&] { static_cast<void>(gpuGetDevice(&gpu)); }).join();
  EXPECT_EQ(gpu, 0);  // of a thread that didn't choose
}

}  // namespace
}  // namespace pipesim::testing
