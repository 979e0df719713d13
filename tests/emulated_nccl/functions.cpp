// The functions of NCCL: they check what is asked for and hand it to
// communicators.
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "tests/emulated_nccl/communicator.h"

namespace {

using namespace emulated_nccl;
using emulated_gpu::Runtime;

// Of the process, under the emulated GPU's lock.
struct Calls {
  std::string last_error;
  std::set<std::string> texts;  // that were handed out
  int groups = 0;               // that are open
  // Of the open groups, by communicator, in the order of their first use.
  std::vector<std::pair<ncclComm_t, std::shared_ptr<Launch>>> grouped;
  int transfers = 0;  // that were asked for, and collectives
  // All that were ever made: streams may still hold starts of them.
  std::vector<std::unique_ptr<ncclComm>> communicators;
};
// Never taken down, like the process's GPUs.
Calls& calls() {
  static Calls& all = *new Calls;
  return all;
}

void require(bool holds, ncclResult_t result, const char* text) {
  if (!holds) throw Failed{result, text};
}

// Runs `body`, which says how it went, under the lock.
template <typename Body>
ncclResult_t call(Body body) {
  emulated_gpu::Process& process = emulated_gpu::process();
  const std::lock_guard lock(process.lock);
  emulated_gpu::host_thread();  // makes the runtime
  Runtime& runtime = *process.runtime;
  try {
    require(runtime.broken.empty(), ncclUnhandledCudaError, runtime.broken.c_str());
    const emulated_gpu::OpenMemory open(runtime);
    return body(runtime);
  } catch (const Failed& failed) {
    calls().last_error = failed.text;
    return failed.result;
  } catch (const emulated_gpu::Failure& failure) {
    calls().last_error = failure.text;
    return ncclUnhandledCudaError;
  }
}

// What a call says that has been handed to the communicator.
ncclResult_t outcome(Runtime& runtime, ncclComm& communicator) {
  while (communicator.blocks() && communicator.state() == ncclInProgress) {
    communicator.go_on(runtime);
    ::sched_yield();
  }
  const ncclResult_t state = communicator.state();
  if (state != ncclSuccess && state != ncclInProgress) throw Failed{state, communicator.why()};
  return state;
}

// What PIPESIM_EMULATED_NCCL_FAULT asks for at this transfer.
std::string fault() {
  const char* text = std::getenv("PIPESIM_EMULATED_NCCL_FAULT");
  const std::string wanted = text == nullptr ? "" : text;
  const std::size_t colon = wanted.find(':');
  if (colon == std::string::npos) return {};
  return std::atoi(wanted.c_str() + colon + 1) == calls().transfers ? wanted.substr(0, colon) : "";
}

// A transfer or a collective.
void strike(ncclComm& communicator, bool& is_lost) {
  ++calls().transfers;
  const std::string kind = fault();
  if (kind == "lose") is_lost = true;
  if (kind == "fail") communicator.fail(ncclRemoteError, "the network is down");
  if (kind == "kill") std::raise(SIGKILL);
  if (kind == "stop") std::raise(SIGSTOP);
}

// Sends to itself and their receives, one by one.
void require_matches(const ncclComm& communicator, const Launch& launch) {
  std::vector<std::size_t> bytes[2];
  for (const Transfer& transfer : launch.transfers) {
    if (transfer.peer == communicator.rank()) bytes[transfer.sends].push_back(transfer.bytes);
  }
  require(bytes[0] == bytes[1], ncclInvalidUsage,
          "a transfer to oneself without its other end in the same group");
}

// Adds to what is asked for at once, which `add` does, and launches it unless a group is open.
template <typename Add>
ncclResult_t put(Runtime& runtime, ncclComm& communicator, gpuStream_t stream, const Add& add) {
  if (calls().groups > 0) {
    auto& grouped = calls().grouped;
    auto found = std::find_if(grouped.begin(), grouped.end(), [&](const auto& one) {
      return one.first == &communicator && one.second->stream == stream;
    });
    if (found == grouped.end()) {
      found = grouped.insert(found, {&communicator, std::make_shared<Launch>()});
      found->second->stream = stream;
    }
    add(*found->second);
    return ncclSuccess;
  }
  const auto launch = std::make_shared<Launch>();
  launch->stream = stream;
  add(*launch);
  require_matches(communicator, *launch);
  communicator.launch(runtime, launch);
  return outcome(runtime, communicator);
}

ncclResult_t transfer(bool sends, const void* memory, std::size_t bytes, int peer,
                      ncclComm_t communicator, gpuStream_t stream) {
  return call([&](Runtime& runtime) {
    require(communicator != nullptr, ncclInvalidArgument, "there is no communicator");
    communicator->require_idle(sends ? "ncclSend" : "ncclRecv");
    require(peer >= 0 && peer < communicator->ranks(), ncclInvalidArgument,
            "there is no such rank");
    require(runtime.streams.has(stream), ncclInvalidArgument, "there is no such stream");
    require(bytes == 0 || runtime.holds(memory, bytes), ncclInvalidArgument,
            "what is sent or received is not within one allocation of the GPU");
    Transfer own;
    own.sends = sends;
    own.peer = peer;
    own.memory = static_cast<char*>(const_cast<void*>(memory));
    own.bytes = bytes;
    strike(*communicator, own.is_lost);
    require(communicator->ranks() <= 2, ncclInvalidArgument,
            "transfers in communicators of one or two ranks alone are emulated");
    return put(runtime, *communicator, stream,
               [&](Launch& launch) { launch.transfers.push_back(own); });
  });
}

bool have_common(const char* one, std::size_t one_bytes, const char* other,
                 std::size_t other_bytes) {
  return one < other + other_bytes && other < one + one_bytes;
}

// Of so many elements of a type, over all ranks.
ncclResult_t collective(const char* name, Collective::Terms terms, const void* from, void* to,
                        ncclDataType_t type, ncclComm_t communicator, gpuStream_t stream,
                        ncclRedOp_t operation = ncclSum) {
  return call([&](Runtime& runtime) {
    require(communicator != nullptr, ncclInvalidArgument, "there is no communicator");
    communicator->require_idle(name);
    require(terms.adds() ? type == ncclFloat32 && operation == ncclSum : type == ncclInt8,
            ncclInvalidArgument, "sums of float32, and gathers of int8, alone are emulated");
    if (terms.adds()) terms.bytes *= sizeof(float);
    require(terms.root >= 0 && terms.root < communicator->ranks(), ncclInvalidArgument,
            "there is no such rank");
    require(runtime.streams.has(stream), ncclInvalidArgument, "there is no such stream");
    const int rank = communicator->rank();
    const int ranks = communicator->ranks();
    Collective own;
    own.terms = terms;
    own.from = static_cast<const char*>(from);
    own.to = static_cast<char*>(to);
    const std::size_t given = own.bytes_from(rank, ranks);
    const std::size_t taken = own.bytes_to(rank, ranks);
    require((given == 0 || runtime.holds(from, given)) && (taken == 0 || runtime.holds(to, taken)),
            ncclInvalidArgument, "what is given or taken is not within one allocation of the GPU");
    // In place: a rank's own part, of what it gives or of what it takes.
    const std::size_t part = static_cast<std::size_t>(rank) * terms.bytes;
    const char* begin = own.from;
    if (terms.kind == Collective::Kind::reduce_scatter) begin += part;
    if (terms.kind == Collective::Kind::all_gather) begin -= part;
    require(
        taken == 0 || given == 0 || own.to == begin || !have_common(own.from, given, own.to, taken),
        ncclInvalidArgument, "what is given and what is taken have memory in common");
    strike(*communicator, own.is_lost);
    return put(runtime, *communicator, stream,
               [&](Launch& launch) { launch.collectives.push_back(own); });
  });
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return call([&](Runtime&) {
    const std::string name = Wire::listen();
    require(!name.empty(), ncclSystemError, "no socket to listen on");
    *id = {};
    std::memcpy(id->internal, name.data(), name.size());
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return call([&](Runtime& runtime) {
    require(rank >= 0 && rank < ranks, ncclInvalidArgument, "there is no such rank");
    require(config == nullptr || config->size == sizeof *config, ncclInvalidArgument,
            "the configuration is not initialized");
    require(calls().groups == 0, ncclInvalidUsage, "communicators are not emulated within groups");
    const bool blocks = config == nullptr || config->blocking != 0;
    auto made = std::make_unique<ncclComm>(runtime, ranks, rank, id.internal, blocks);
    *communicator = calls().communicators.emplace_back(std::move(made)).get();
    return outcome(runtime, **communicator);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  return call([&](Runtime& runtime) {
    communicator->require_idle("ncclCommFinalize");
    communicator->finalize();
    return outcome(runtime, *communicator);
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  return call([&](Runtime&) {
    require(communicator->state() == ncclSuccess, ncclInvalidUsage,
            "ncclCommDestroy: the call before has failed or is still in progress");
    communicator->abort();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  return call([&](Runtime&) {
    communicator->abort();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  return call([&](Runtime& runtime) {
    communicator->go_on(runtime);
    *state = communicator->state();
    if (!communicator->why().empty()) calls().last_error = communicator->why();
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t /*communicator*/) {
  const std::lock_guard lock(emulated_gpu::process().lock);
  return calls().texts.insert(calls().last_error).first->c_str();
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t /*type*/, int peer,
                      ncclComm_t communicator, gpuStream_t stream) {
  return transfer(true, from, count, peer, communicator, stream);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t /*type*/, int peer,
                      ncclComm_t communicator, gpuStream_t stream) {
  return transfer(false, to, count, peer, communicator, stream);
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, gpuStream_t stream) {
  return collective("ncclAllReduce", {Collective::Kind::all_reduce, 0, count}, from, to, type,
                    communicator, stream, operation);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t communicator, gpuStream_t stream) {
  return collective("ncclReduceScatter", {Collective::Kind::reduce_scatter, 0, count}, from, to,
                    type, communicator, stream, operation);
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t communicator,
                        gpuStream_t stream) {
  return collective("ncclReduce", {Collective::Kind::reduce, root, count}, from, to, type,
                    communicator, stream, operation);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, gpuStream_t stream) {
  return collective("ncclAllGather", {Collective::Kind::all_gather, 0, count}, from, to, type,
                    communicator, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, gpuStream_t stream) {
  return collective("ncclBroadcast", {Collective::Kind::broadcast, root, count}, from, to, type,
                    communicator, stream);
}

ncclResult_t ncclGroupStart() {
  return call([](Runtime&) {
    ++calls().groups;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  return call([](Runtime& runtime) {
    require(calls().groups > 0, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--calls().groups > 0) return ncclSuccess;
    const auto grouped = std::exchange(calls().grouped, {});
    for (const auto& [communicator, launch] : grouped) require_matches(*communicator, *launch);
    ncclResult_t result = ncclSuccess;
    for (const auto& [communicator, launch] : grouped) communicator->launch(runtime, launch);
    for (const auto& [communicator, launch] : grouped) {
      if (outcome(runtime, *communicator) == ncclInProgress) result = ncclInProgress;
    }
    return result;
  });
}
}
