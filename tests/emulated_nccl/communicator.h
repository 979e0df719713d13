// A communicator: how it comes to be, its transfers and collectives, and how it ends.
//
// Rank 0 has a wire to each other rank, these have one to it: transfers are between two ranks,
// in communicators of so many.
//
// Everything happens in go_on(), which never waits: the functions of NCCL call
// it, and the stream `engine`, which others wait for while transfers are under
// way. All of it under the emulated GPU's lock, with the GPU's memory open.
#pragma once

#include <emulated_nccl.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulated_gpu/runtime.h"
#include "tests/emulated_nccl/collectives.h"
#include "tests/emulated_nccl/wire.h"

namespace emulated_nccl {

struct Transfer {
  bool sends = false;
  int peer = 0;
  char* memory = nullptr;
  std::size_t bytes = 0;
  bool is_lost = false;
  std::size_t moved = 0;
  bool is_said = false;  // that it is ready, or its data
  bool is_done = false;
};

// What runs on a stream at once: one transfer or collective, or a group of them.
struct Launch {
  gpuStream_t stream = nullptr;
  std::vector<Transfer> transfers;
  std::vector<Collective> collectives;
  std::shared_ptr<emulated_gpu::Record> end;
};

// That a communicator has failed, and why.
struct Failed {
  ncclResult_t result;
  std::string text;
};

}  // namespace emulated_nccl

struct ncclComm {
 public:
  ncclComm(emulated_gpu::Runtime& runtime, int ranks, int rank, std::string name, bool blocks);

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  bool blocks() const { return blocks_; }
  // Success, in progress, or why it failed.
  ncclResult_t state() const;
  const std::string& why() const { return why_; }

  // Whether a call may be made; throws Failed.
  void require_idle(const char* call) const;
  // Puts it on its stream, once both ends are connected for that.
  void launch(emulated_gpu::Runtime& runtime, std::shared_ptr<emulated_nccl::Launch> launch);
  void fail(ncclResult_t result, std::string text);
  void finalize();
  // Ends all, whatever has arrived.
  void abort();

  // For its calls: what happens in the background, and then puts on streams what
  // had to wait for that.
  void go_on(emulated_gpu::Runtime& runtime);
  // What happens in the background; whether transfers are left.
  bool turn();

 private:
  enum class Stage : std::uint8_t { connecting, greeting, settling, open };

  // To another rank.
  struct Line {
    emulated_nccl::Wire wire;
    int peer = -1;                              // once it has greeted
    std::optional<emulated_nccl::Frame> frame;  // that was heard, but not yet what follows
    std::string payload;                        // so much of it, but for data
    bool wants_collectives = false;
    bool leaves = false;
  };

  void come_to_be();
  void hear(Line& line);
  // Whether all of what follows the line's frame is there.
  bool hear_payload(Line& line);
  void heed(Line& line, const emulated_nccl::Frame& frame);
  void say_to_all(const emulated_nccl::Frame& frame);
  void fail_everywhere(const char* why);
  bool others_leave() const;
  bool is_alone() const;  // another rank's process is gone
  void move_on();
  bool move(emulated_nccl::Transfer& transfer);
  bool connect_for(const emulated_nccl::Launch& launch);
  void push(emulated_gpu::Runtime& runtime, const std::shared_ptr<emulated_nccl::Launch>& launch);
  void start(emulated_gpu::Runtime& runtime, const std::shared_ptr<emulated_nccl::Launch>& launch);
  emulated_nccl::Transfer* receiving();

  int ranks_;
  int rank_;
  std::string name_;
  bool blocks_;
  Stage stage_ = Stage::connecting;
  int turns_ = 0;  // for which it has been connected
  std::vector<Line> lines_;
  emulated_nccl::Collectives collectives_;
  ncclResult_t failure_ = ncclSuccess;
  std::string why_;

  // By direction: whether this end, and the other, has asked for it.
  struct Connection {
    bool own = false;
    bool other = false;
  };
  Connection sending_, receiving_;
  bool wants_collectives_ = false;
  std::deque<std::shared_ptr<emulated_nccl::Launch>> held_;  // until connected
  std::deque<std::shared_ptr<emulated_nccl::Launch>> started_;
  std::uint64_t sent_ = 0;                       // sends that are done
  std::uint64_t received_ = 0;                   // receives
  std::map<std::uint64_t, std::uint64_t> room_;  // that the other end is ready for, by send
  int turns_gone_ = 0;                           // since the other process is
  bool leaves_ = false;
  bool aborted_ = false;
};
