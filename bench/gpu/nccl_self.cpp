// Checks NCCL on one GPU with one rank: all of its calls that links between devices use, as far as
// possible without a second GPU.
//   nccl_self [GPU]
// One line per check; status 1 if one fails or takes longer than 15 s.
#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t bytes = std::size_t{1} << 20;
constexpr std::chrono::seconds most(15);

int failures = 0;

void report(bool fine, const char* check, const std::string& detail) {
  std::printf("%s  %s: %s\n", fine ? "ok  " : "FAIL", check, detail.c_str());
  std::fflush(stdout);
  failures += fine ? 0 : 1;
}

// After such a failure no result is meaningful; nothing is cleaned up, as that might hang.
[[noreturn]] void give_up(const char* check, const std::string& detail) {
  report(false, check, detail);
  ::_exit(1);
}

void need(cudaError_t result, const char* what) {
  if (result != cudaSuccess) give_up(what, cudaGetErrorString(result));
}

std::string text(ncclResult_t result) {
  std::string said = ncclGetErrorString(result);
  const char* more = ncclGetLastError(nullptr);
  if (result != ncclSuccess && more != nullptr && *more != '\0')
    said += std::string(" (") + more + ")";
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return said;
}

void wait_until(const char* check, const std::function<bool()>& done) {
  const auto start = std::chrono::steady_clock::now();
  while (!done()) {
    if (std::chrono::steady_clock::now() - start > most) give_up(check, "hangs");
    std::this_thread::yield();
  }
}

// The result of the communicator's last call, once it has ended.
ncclResult_t settled(const char* check, ncclComm_t communicator, ncclResult_t result) {
  if (result != ncclInProgress) return result;
  wait_until(check, [&] {
    if (ncclCommGetAsyncError(communicator, &result) != ncclSuccess) give_up(check, "has no state");
    return result != ncclInProgress;
  });
  return result;
}

void wait_for(const char* check, cudaStream_t stream) {
  wait_until(check, [&] {
    const cudaError_t result = cudaStreamQuery(stream);
    if (result != cudaErrorNotReady) need(result, check);
    return result == cudaSuccess;
  });
}

ncclComm_t make(const char* check, int blocking) {
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) give_up(check, "no name for a communicator");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  config.maxCTAs = 4;
  ncclComm_t communicator = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&communicator, 1, id, 0, &config);
  const bool began = result == ncclSuccess || (blocking == 0 && result == ncclInProgress);
  if (!began) give_up(check, text(result));
  const ncclResult_t state = settled(check, communicator, result);
  if (state != ncclSuccess) give_up(check, text(state));
  report(true, check, result == ncclInProgress ? "made in the background" : "made at once");
  return communicator;
}

// Memory on the GPU.
class Buffer {
 public:
  explicit Buffer(unsigned char fill) {
    need(cudaMalloc(&data_, bytes), "memory of the GPU");
    const std::vector<unsigned char> values = pattern(fill);
    // A copy from pageable memory returns before everything has arrived, and other streams don't
    // wait.
    need(cudaMemcpy(data_, values.data(), bytes, cudaMemcpyHostToDevice), "copy to the GPU");
    need(cudaDeviceSynchronize(), "copy to the GPU");
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { static_cast<void>(cudaFree(data_)); }

  void* get() const { return data_; }
  bool holds(unsigned char fill) const {
    std::vector<unsigned char> values(bytes);
    need(cudaMemcpy(values.data(), data_, bytes, cudaMemcpyDeviceToHost), "copy from the GPU");
    return values == pattern(fill);
  }

 private:
  static std::vector<unsigned char> pattern(unsigned char fill) {
    std::vector<unsigned char> values(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      values[i] = static_cast<unsigned char>(fill + i * 7 + i / 251);
    }
    return values;
  }

  void* data_ = nullptr;
};

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  return stream;
}

ncclResult_t send_to_self(ncclComm_t communicator, const Buffer& from, const Buffer& to,
                          cudaStream_t stream) {
  ncclResult_t result = ncclGroupStart();
  if (result == ncclSuccess) {
    result = ncclSend(from.get(), bytes, ncclInt8, 0, communicator, stream);
  }
  if (result == ncclSuccess || result == ncclInProgress) {
    result = ncclRecv(to.get(), bytes, ncclInt8, 0, communicator, stream);
  }
  const ncclResult_t end = ncclGroupEnd();
  return result == ncclSuccess || result == ncclInProgress ? end : result;
}

void check_self(const char* check, ncclComm_t communicator, cudaStream_t stream) {
  const Buffer from(1);
  const Buffer to(2);
  const ncclResult_t result =
      settled(check, communicator, send_to_self(communicator, from, to, stream));
  if (result != ncclSuccess) return report(false, check, text(result));
  wait_for(check, stream);
  report(to.holds(1), check, "1 MiB arrived");
}

// Two communicators active at the same time, each on its own stream.
void check_both(ncclComm_t first, ncclComm_t second, cudaStream_t a, cudaStream_t b) {
  const char* check = "two communicators side by side";
  const Buffer from(3), to(4), other_from(5), other_to(6);
  const ncclResult_t one = send_to_self(first, from, to, a);
  const ncclResult_t two = send_to_self(second, other_from, other_to, b);
  if (settled(check, first, one) != ncclSuccess || settled(check, second, two) != ncclSuccess) {
    return report(false, check, text(one) + ", " + text(two));
  }
  wait_for(check, a);
  wait_for(check, b);
  report(to.holds(3) && other_to.holds(5), check, "both arrived");
}

void check_all_reduce(const char* check, ncclComm_t communicator, cudaStream_t stream) {
  const Buffer from(7);
  const Buffer to(8);
  const ncclResult_t result =
      settled(check, communicator,
              ncclAllReduce(from.get(), to.get(), bytes, ncclInt8, ncclSum, communicator, stream));
  if (result != ncclSuccess) return report(false, check, text(result));
  wait_for(check, stream);
  report(to.holds(7), check, "one rank's sum is its own");
}

// In place, like replicas' sums and gathers: with one rank each leaves the buffer unchanged.
void check_in_place(ncclComm_t communicator, cudaStream_t stream) {
  const char* check = "collectives in place, two of them in a group";
  const Buffer own(9);
  void* all = own.get();
  const auto fails = [&](ncclResult_t result) {
    result = settled(check, communicator, result);
    if (result != ncclSuccess) report(false, check, text(result));
    return result != ncclSuccess;
  };
  if (fails(ncclReduceScatter(all, all, bytes / sizeof(float), ncclFloat32, ncclSum, communicator,
                              stream)) ||
      fails(ncclAllGather(all, all, bytes, ncclInt8, communicator, stream)) ||
      fails(ncclGroupStart())) {
    return;
  }
  const ncclResult_t reduced =
      ncclReduce(all, all, bytes / sizeof(float), ncclFloat32, ncclSum, 0, communicator, stream);
  const ncclResult_t sent = ncclBroadcast(all, all, bytes, ncclInt8, 0, communicator, stream);
  if (fails(ncclGroupEnd()) || fails(reduced) || fails(sent)) return;
  wait_for(check, stream);
  report(own.holds(9), check, "1 MiB is what it was");
}

// A send to itself waits for a receive that can only come later on the same
// thread: NCCL refuses it as invalid usage. Its communicator is unusable afterwards.
void check_alone(cudaStream_t stream) {
  const char* check = "a send to itself without its receive in the group";
  ncclComm_t communicator = make("a communicator to misuse", 0);
  const Buffer from(9);
  const ncclResult_t result =
      settled(check, communicator, ncclSend(from.get(), bytes, ncclInt8, 0, communicator, stream));
  report(result == ncclInvalidUsage, check,
         (result == ncclSuccess ? "was taken; " : "") + text(result) + "; expected: invalid usage");
  const ncclResult_t aborted = ncclCommAbort(communicator);
  report(aborted == ncclSuccess || aborted == ncclInProgress, "abort after that", text(aborted));
}

ncclComm_t check_split(ncclComm_t communicator) {
  const char* check = "split";
  ncclComm_t part = nullptr;
  const ncclResult_t result =
      settled(check, communicator, ncclCommSplit(communicator, 0, 0, &part, nullptr));
  report(result == ncclSuccess && part != nullptr, check, text(result));
  return part;
}

void check_end(const char* check, ncclComm_t communicator) {
  ncclResult_t result = settled(check, communicator, ncclCommFinalize(communicator));
  if (result == ncclSuccess) result = ncclCommDestroy(communicator);
  report(result == ncclSuccess, check, text(result));
}

}  // namespace

int main(int argc, char** argv) {
  need(cudaSetDevice(argc > 1 ? std::atoi(argv[1]) : 0), "the GPU");
  int version = 0;
  const bool told = ncclGetVersion(&version) == ncclSuccess;
  report(told && version >= NCCL_VERSION(2, 17, 0), "version",
         std::to_string(version) + ", compiled for " + std::to_string(NCCL_VERSION_CODE));
  cudaStream_t stream = make_stream();
  cudaStream_t other = make_stream();
  ncclComm_t blocking = make("a communicator that blocks", 1);
  ncclComm_t background = make("one that doesn't", 0);
  check_self("to itself, blocking", blocking, stream);
  check_self("to itself, in the background", background, other);
  check_both(blocking, background, stream, other);
  check_all_reduce("all-reduce", blocking, stream);
  if (ncclComm_t part = check_split(blocking)) {
    check_all_reduce("all-reduce of a part", part, stream);
    check_end("end of the part", part);
  }
  check_in_place(background, other);
  check_alone(stream);
  check_self("to itself, after another's abort", background, other);
  check_end("end of the one that blocks", blocking);
  const ncclResult_t aborted = ncclCommAbort(background);
  report(aborted == ncclSuccess || aborted == ncclInProgress, "abort", text(aborted));
  need(cudaDeviceSynchronize(), "nothing runs any more");
  std::printf("%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
