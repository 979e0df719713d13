#include "tests/emulated_nccl/communicator.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

using emulated_gpu::Runtime;
using namespace emulated_nccl;

namespace {

// For how many turns the background takes its time.
constexpr int slowness = 3;

std::int64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

// Of the process; none is ever taken down, as streams may still hold starts of it.
std::vector<ncclComm*>& communicators() {
  static std::vector<ncclComm*> all;
  return all;
}

// A stream that no thread owns: it runs only for those that wait for it.
emulated_gpu::Stream& engine(Runtime& runtime) {
  static emulated_gpu::Stream* stream = nullptr;
  if (stream == nullptr) {
    stream = runtime.streams.create(-1);
    stream->owner = {};
  }
  return *stream;
}

void run_engine(Runtime& runtime) {
  bool more = false;
  for (ncclComm* communicator : communicators()) more = communicator->turn() || more;
  if (!more) return;
  ::sched_yield();
  engine(runtime).operations.push_back({[&runtime] { run_engine(runtime); }});
}

bool on_one_gpu() {
  const char* text = std::getenv("PIPESIM_EMULATED_NCCL_SAME_GPU");
  return text != nullptr && *text == '1';
}

void end(Launch& launch) {
  launch.end->done = true;
  launch.end->time = now();
}

}  // namespace

ncclComm::ncclComm(Runtime& runtime, int ranks, int rank, std::string name, bool blocks)
    : ranks_(ranks), rank_(rank), name_(std::move(name)), blocks_(blocks) {
  engine(runtime);
  communicators().push_back(this);
}

ncclResult_t ncclComm::state() const {
  if (failure_ != ncclSuccess) return failure_;
  const bool leaving = leaves_ && !other_leaves_ && ranks_ > 1;
  return stage_ != Stage::open || !held_.empty() || leaving ? ncclInProgress : ncclSuccess;
}

void ncclComm::require_idle(const char* call) const {
  if (aborted_) throw Failed{ncclInvalidArgument, std::string(call) + ": it was aborted"};
  if (failure_ != ncclSuccess) throw Failed{failure_, why_};
  if (state() == ncclInProgress) {
    throw Failed{ncclInvalidUsage, std::string(call) + ": the call before is still in progress"};
  }
  if (leaves_) throw Failed{ncclInvalidUsage, std::string(call) + ": it was finalized"};
}

void ncclComm::fail(ncclResult_t result, std::string text) {
  if (failure_ != ncclSuccess) return;
  failure_ = result;
  why_ = std::move(text);
}

void ncclComm::finalize() {
  leaves_ = true;
  if (ranks_ > 1) wire_.say({Word::bye});
}

void ncclComm::abort() {
  aborted_ = true;
  wire_.close();
  for (const auto& launch : started_) end(*launch);
  started_.clear();
  held_.clear();
}

// ---- In the background

void ncclComm::come_to_be() {
  switch (stage_) {
    case Stage::connecting:
      if (ranks_ > 1 && !wire_.connect(name_, rank_ == 0)) return;
      if (ranks_ > 1) wire_.say({Word::hello});
      stage_ = ranks_ > 1 ? Stage::greeting : Stage::settling;
      return;
    case Stage::greeting: {
      if (!wire_.hear()) return;
      if (on_one_gpu()) {
        fail(ncclInvalidUsage, "Duplicate GPU detected : rank 0 and rank 1 both on emulated GPU 0");
      }
      stage_ = Stage::settling;
      return;
    }
    case Stage::settling:
      if (++turns_ > slowness) stage_ = Stage::open;
      return;
    case Stage::open: return;
  }
}

bool ncclComm::turn() {
  if (aborted_ || failure_ != ncclSuccess) return !started_.empty();
  if (stage_ != Stage::open) {
    come_to_be();
  } else if (ranks_ > 1) {
    wire_.flush();
    hear();
    move_on();
  }
  if (wire_.is_gone() && !other_leaves_ && ++turns_gone_ > slowness) {
    fail(ncclRemoteError, "the other process is gone");
  }
  return !started_.empty();
}

Transfer* ncclComm::receiving() {
  for (const auto& launch : started_) {
    for (Transfer& transfer : launch->transfers) {
      if (!transfer.sends && !transfer.is_done) return &transfer;
    }
  }
  return nullptr;
}

void ncclComm::hear() {
  for (;;) {
    if (!hears_data_) {
      const auto frame = wire_.hear();
      if (!frame) return;
      heed(*frame);
      continue;
    }
    Transfer& transfer = *receiving();
    transfer.moved +=
        wire_.hear_bytes(transfer.memory + transfer.moved, transfer.bytes - transfer.moved);
    if (transfer.moved < transfer.bytes) return;
    transfer.is_done = true;
    hears_data_ = false;
    ++received_;
  }
}

void ncclComm::heed(const Frame& frame) {
  switch (frame.word) {
    case Word::hello: return;
    case Word::connect: (frame.number == 1 ? receiving_ : sending_).other = true; return;
    case Word::ready: room_[frame.number] = frame.bytes; return;
    case Word::data: hears_data_ = true; return;
    case Word::wrong:
      fail(ncclInternalError, "a send of other bytes than its receive has room for");
      return;
    case Word::bye: other_leaves_ = true; return;
  }
}

// Those of one direction one after the other.
void ncclComm::move_on() {
  bool sends = true;
  bool receives = true;
  for (const auto& launch : started_) {
    for (Transfer& transfer : launch->transfers) {
      bool& free = transfer.sends ? sends : receives;
      if (!transfer.is_done && (!free || !move(transfer))) free = false;
    }
    if (std::ranges::all_of(launch->transfers, &Transfer::is_done)) end(*launch);
  }
  std::erase_if(started_, [](const auto& launch) { return launch->end->done; });
}

bool ncclComm::move(Transfer& transfer) {
  if (transfer.is_lost) return false;
  if (!transfer.sends) {
    if (!transfer.is_said) wire_.say({Word::ready, received_, transfer.bytes});
    transfer.is_said = true;
    return false;
  }
  const auto room = room_.find(sent_);
  if (room == room_.end()) return false;
  if (room->second != transfer.bytes) {
    wire_.say({Word::wrong});
    fail(ncclInternalError, "a send of other bytes than its receive has room for");
    return false;
  }
  if (!transfer.is_said) wire_.say({Word::data, sent_, transfer.bytes}, transfer.memory);
  transfer.is_said = true;
  if (!wire_.flush()) return false;
  transfer.is_done = true;
  room_.erase(room);
  ++sent_;
  return true;
}

// ---- In calls

void ncclComm::go_on(Runtime& runtime) {
  turn();
  while (!held_.empty() && connect_for(*held_.front()) && failure_ == ncclSuccess) {
    const auto launch = held_.front();
    held_.pop_front();
    push(runtime, launch);
  }
}

// Asks for what isn't there; whether all is.
bool ncclComm::connect_for(const Launch& launch) {
  bool all = true;
  for (const Transfer& transfer : launch.transfers) {
    if (transfer.peer == rank_) continue;
    Connection& connection = transfer.sends ? sending_ : receiving_;
    if (!connection.own) wire_.say({Word::connect, transfer.sends ? 1U : 0U});
    connection.own = true;
    all = all && connection.other;
  }
  return all;
}

void ncclComm::launch(Runtime& runtime, std::shared_ptr<Launch> launch) {
  launch->end = std::make_shared<emulated_gpu::Record>();
  launch->end->stream = &engine(runtime);
  if (connect_for(*launch)) {
    push(runtime, launch);
  } else {
    held_.push_back(std::move(launch));
  }
}

void ncclComm::push(Runtime& runtime, const std::shared_ptr<Launch>& launch) {
  runtime.streams.push(*launch->stream, {[this, &runtime, launch] { start(runtime, launch); }});
  runtime.streams.push(*launch->stream, {[] {}, launch->end});
}

void ncclComm::start(Runtime& runtime, const std::shared_ptr<Launch>& launch) {
  if (aborted_) {
    end(*launch);
    return;
  }
  // To itself: each send into the receive of the same place.
  std::vector<Transfer*> own[2];
  for (Transfer& transfer : launch->transfers) {
    if (!transfer.sends) std::memset(transfer.memory, 0xFF, transfer.bytes);
  }
  for (Transfer& transfer : launch->transfers) {
    if (transfer.peer == rank_) own[transfer.sends ? 0 : 1].push_back(&transfer);
  }
  for (std::size_t i = 0; i < own[0].size(); ++i) {
    std::memmove(own[1][i]->memory, own[0][i]->memory, own[0][i]->bytes);
    own[0][i]->is_done = own[1][i]->is_done = true;
  }
  started_.push_back(launch);
  move_on();
  if (!launch->end->done && engine(runtime).operations.empty()) {
    engine(runtime).operations.push_back({[&runtime] { run_engine(runtime); }});
  }
}
