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

constexpr const char* differ = "ranks ask for different collectives";

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
    : ranks_(ranks),
      rank_(rank),
      name_(std::move(name)),
      blocks_(blocks),
      lines_(static_cast<std::size_t>(rank > 0 ? 1 : ranks - 1)),
      collectives_(ranks, rank, [this](int to, const Frame& frame, const void* payload) {
        std::ranges::find(lines_, to, &Line::peer)->wire.say(frame, payload);
      }) {
  engine(runtime);
  communicators().push_back(this);
}

ncclResult_t ncclComm::state() const {
  if (failure_ != ncclSuccess) return failure_;
  const bool leaving = leaves_ && !others_leave();
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
  say_to_all({Word::bye});
}

void ncclComm::abort() {
  aborted_ = true;
  for (Line& line : lines_) line.wire.close();
  collectives_.abandon();
  for (const auto& launch : started_) end(*launch);
  started_.clear();
  held_.clear();
}

// ---- In the background

void ncclComm::say_to_all(const Frame& frame) {
  for (Line& line : lines_) line.wire.say(frame);
}

void ncclComm::fail_everywhere(const char* why) {
  say_to_all({Word::wrong});
  fail(ncclInternalError, why);
}

bool ncclComm::others_leave() const { return std::ranges::all_of(lines_, &Line::leaves); }

bool ncclComm::is_alone() const {
  return std::ranges::any_of(lines_,
                             [](const Line& line) { return line.wire.is_gone() && !line.leaves; });
}

void ncclComm::come_to_be() {
  switch (stage_) {
    case Stage::connecting:
      for (Line& line : lines_) {
        if (!line.wire.connect(name_, rank_ == 0)) return;
      }
      if (rank_ == 0) Wire::stop_listening(name_);
      say_to_all({Word::hello, static_cast<std::uint64_t>(rank_)});
      stage_ = ranks_ > 1 ? Stage::greeting : Stage::settling;
      return;
    case Stage::greeting: {
      for (Line& line : lines_) {
        if (line.peer >= 0) continue;
        const auto frame = line.wire.hear();
        if (!frame) return;
        line.peer = static_cast<int>(frame->number);
      }
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
  } else {
    for (Line& line : lines_) {
      line.wire.flush();
      hear(line);
    }
    move_on();
  }
  if (is_alone() && ++turns_gone_ > slowness) {
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

void ncclComm::hear(Line& line) {
  while (failure_ == ncclSuccess) {
    if (!line.frame) line.frame = line.wire.hear();
    if (!line.frame || !hear_payload(line)) return;
    const Frame frame = *std::exchange(line.frame, std::nullopt);
    heed(line, frame);
    line.payload.clear();
  }
}

bool ncclComm::hear_payload(Line& line) {
  const Frame& frame = *line.frame;
  if (frame.word == Word::data) {
    Transfer& transfer = *receiving();
    transfer.moved +=
        line.wire.hear_bytes(transfer.memory + transfer.moved, transfer.bytes - transfer.moved);
    return transfer.moved == transfer.bytes;
  }
  if (frame.word != Word::give && frame.word != Word::take) return true;
  const std::size_t there = line.payload.size();
  line.payload.resize(frame.bytes);
  const std::size_t came = line.wire.hear_bytes(line.payload.data() + there, frame.bytes - there);
  line.payload.resize(there + came);
  return there + came == frame.bytes;
}

void ncclComm::heed(Line& line, const Frame& frame) {
  switch (frame.word) {
    case Word::hello: return;
    case Word::connect:
      if (frame.number == 2) {
        line.wants_collectives = true;
      } else {
        (frame.number == 1 ? receiving_ : sending_).other = true;
      }
      return;
    case Word::ready: room_[frame.number] = frame.bytes; return;
    case Word::data:
      receiving()->is_done = true;
      ++received_;
      return;
    case Word::give:
    case Word::take:
      if (!collectives_.heed(line.peer, frame, line.payload)) fail_everywhere(differ);
      return;
    case Word::wrong: fail(ncclInternalError, "what another rank asked for does not match"); return;
    case Word::bye: line.leaves = true; return;
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
    if (std::ranges::all_of(launch->transfers, &Transfer::is_done) &&
        std::ranges::all_of(launch->collectives, &Collective::is_done)) {
      end(*launch);
    }
  }
  std::erase_if(started_, [](const auto& launch) { return launch->end->done; });
}

bool ncclComm::move(Transfer& transfer) {
  if (transfer.is_lost) return false;
  Wire& wire = lines_.front().wire;
  if (!transfer.sends) {
    if (!transfer.is_said) wire.say({Word::ready, received_, transfer.bytes});
    transfer.is_said = true;
    return false;
  }
  const auto room = room_.find(sent_);
  if (room == room_.end()) return false;
  if (room->second != transfer.bytes) {
    fail_everywhere("a send of other bytes than its receive has room for");
    return false;
  }
  if (!transfer.is_said) wire.say({Word::data, sent_, transfer.bytes}, transfer.memory);
  transfer.is_said = true;
  if (!wire.flush()) return false;
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
    if (!connection.own) say_to_all({Word::connect, transfer.sends ? 1U : 0U});
    connection.own = true;
    all = all && connection.other;
  }
  if (launch.collectives.empty()) return all;
  if (!wants_collectives_) say_to_all({Word::connect, 2});
  wants_collectives_ = true;
  return all && std::ranges::all_of(lines_, &Line::wants_collectives);
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
  for (Collective& one : launch->collectives) {
    if (!collectives_.start(one)) fail_everywhere(differ);
  }
  started_.push_back(launch);
  move_on();
  if (!launch->end->done && engine(runtime).operations.empty()) {
    engine(runtime).operations.push_back({[&runtime] { run_engine(runtime); }});
  }
}
