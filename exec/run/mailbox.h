// The messages of a rank's stages: every send and receive buffer, and its state.
// A receive buffer is free, then posted (the transport fills it), full, then owned by the stage
// that took it. A send buffer is free, then full, then posted until the transport is done with it;
// only then is its memory freed. A result for a stage on the same rank is handed over directly.
// Misuse is an error that names the action. One rank, one thread. Transports read and write the
// host's memory. If that is not the device's, a message passes through staging memory, by copies
// that overlap operators: a send begins once its copy has run, and users of a received tensor
// follow the copy to it. If devices are linked (exec/device/link.h) they carry messages themselves:
// a received tensor counts as received as soon as it is posted, and its users follow its mark.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/model/staging.h"
#include "exec/run/overlapped_collectives.h"
#include "exec/run/recorder.h"
#include "exec/transport/transport.h"
#include "sim/schedule/placement.h"

namespace pipesim::exec {

class Mailbox {
 public:
  // `bytes` that each stage but the last sends to the next; the gradient that comes back has the
  // same size. Numbers are of that type. Collectives `beside` progress during waits.
  Mailbox(const Placement& placement, int microbatches, std::vector<std::int64_t> bytes,
          Number type, Transport& transport, Pool& pool, Recorder& recorder,
          OverlappedCollectives& beside);
  // While an error unwinds, buffers may be posted: the transport abandons them.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // A RECV or SEND is reached. A RECV may have been posted earlier.
  void post(const Action& receive);
  void send(const Action& send);

  // Makes what follows wait for a transfer that was begun: of a SEND until the transport is done
  // with it, of a RECV until it is there. Over a link the device waits.
  void await(const Action& transfer);

  // Waits for the input of an F, I or B and returns it; empty if it has none.
  Tensor take_input(const Action& action);
  // Stores its result, which is ready at that instant.
  void put_output(const Action& action, Tensor result, Instant there);

  // Records completed transfers, and throws TimedOut if the device waits too long for a linked one.
  void poll();
  // Call while the rank waits for something else: starts the sends whose copies have run, or does
  // what poll() does over a link. Returns whether it must be called again soon.
  bool look_after();
  // Advances transfers until the device has passed the mark.
  void wait_for(Mark mark);
  // Waits for all sends; then every buffer must have been used.
  void finish_iteration();
  // Call after the device has forgotten its marks.
  void forget_marks() { staging_.forget_marks(); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class State : std::uint8_t { free, posted, full, owned };
  struct Buffer {
    State state = State::free;
    Tensor tensor;
    std::span<std::byte> message;  // while posted; the tensor's own, or staging memory
    Mark copied = 0;               // the copy from or to staging memory, or over a link
    Mark usable = 0;               // a received tensor may be used from then on
    std::optional<Ticket> ticket;  // none while a send's copy runs
    ActionNote note;
    // Of a linked one: from this mark on the device is blocked on it.
    std::optional<Mark> awaited;
    std::optional<Time> waited_since;  // when the device reached that mark
    Action consumer;                   // of a received one: the action that awaits it
  };
  // A result in transit, by the stage that makes it: an activation to the next stage, a gradient to
  // the previous one.
  struct Item {
    bool forward;
    std::int32_t stage;
    std::int32_t microbatch;

    std::int32_t consumer() const { return forward ? stage + 1 : stage - 1; }
  };

  static Item item_of_transfer(const Action& transfer);
  Buffer& incoming(const Item& item) { return in_[index(item, item.consumer())]; }
  Buffer& outgoing(const Item& item) { return out_[index(item, item.stage)]; }
  std::size_t index(const Item& item, int own_stage) const;
  bool exists(int stage) const { return stage >= 0 && stage < placement_.stages(); }
  bool is_local(const Item& item) const {
    return peer(item, item.stage) == peer(item, item.consumer());
  }
  // The rank of a stage for the item's microbatch.
  int peer(const Item& item, int stage) const {
    return placement_.rank_of(stage, placement_.copy_of(item.microbatch));
  }
  int tag(const Item& item) const;
  std::int64_t bytes_of(const Item& item) const {
    return bytes_[static_cast<std::size_t>(std::min(item.stage, item.consumer()))];
  }
  std::span<std::byte> message_of(const Buffer& buffer);
  void start_send(Buffer& buffer);
  // Whether any copy of a send still runs.
  bool start_copied();
  void settle(Buffer& buffer);
  void wait_for_one();
  // The same over a link.
  void start_linked(Buffer& buffer);
  void settle_linked(Buffer& buffer);
  void poll_link();
  void check_patience(Buffer& buffer);
  // "1F0 needs 1RECV_F0", for a receive.
  std::string purpose(const Buffer& buffer) const;

  const Placement& placement_;
  std::int32_t microbatches_;
  std::vector<std::int64_t> bytes_;
  Number type_;
  Transport& transport_;
  Pool& pool_;
  Device& device_;
  DeviceLink* link_;  // or null
  bool staged_;
  Staging staging_;
  Recorder& recorder_;
  OverlappedCollectives& beside_;
  std::size_t chunks_;              // on this rank
  std::vector<Buffer> in_;          // [direction][chunk that takes it][microbatch]
  std::vector<Buffer> out_;         // [direction][chunk that makes it][microbatch]
  std::vector<Buffer*> under_way_;  // posted ones; over a link, until they have passed
};

}  // namespace pipesim::exec
