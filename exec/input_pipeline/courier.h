// Carries the exchanges of a rank's streams over its transport, which only one thread may call.
//
// The transport's thread carries. Stream threads submit their exchanges, and block until
// they are done. Each stream has a lane: exchanges of one lane match in order on all ranks, those
// of different lanes don't wait for each other. A size is sent ahead of data that does not fit next
// to it, so the receiver need not know it. An error of the transport ends carry() and all
// exchanges.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "exec/transport/collectives.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

class Courier {
 public:
  // Thrown by exchanges after the courier has stopped; the caller of stop(), or the error of
  // carry(), has the cause.
  struct Stopped {};

  // A lane's messages have the tag first_free_tag + lane. The transport must outlive it.
  explicit Courier(Transport& transport) : transport_(transport) {}
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  int rank() const { return transport_.rank(); }
  int ranks() const { return transport_.ranks(); }

  // Call on the transport's thread, once: carries until stop(). Throws the transport's errors, and
  // TimedOut if an exchange makes no progress for as long as the transport's patience. All
  // exchanges have ended when it returns, and none will begin.
  void carry();

  // On any thread, one per lane at a time: sends each rank its bytes, and returns those received,
  // by rank. Own bytes pass through. `what` names it in errors.
  std::vector<Bytes> exchange(int lane, const std::string& what, std::vector<Bytes> given);
  // On any thread: ends pending exchanges.
  void stop();

 private:
  // The first message: the size, and as many bytes as fit, possibly all.
  struct Head {
    std::int64_t size = 0;
    std::array<std::byte, 56> first{};
  };
  struct Exchange {
    int tag = 0;
    const std::string* what = nullptr;
    std::vector<Bytes> given, got;                  // by rank
    std::vector<Head> leaving, coming;              // likewise
    int open = 0;                                   // messages in flight
    std::chrono::steady_clock::time_point since{};  // when the last of them was done
    enum class End { none, done, stopped } end = End::none;
  };
  // A message in flight.
  struct Message {
    static constexpr int no_head = -1;
    Exchange* exchange = nullptr;
    Ticket ticket = 0;
    int head_of = no_head;  // the rank whose head it brings
  };

  void carry_on();
  void begin(Exchange& exchange);
  void send(Exchange& exchange, int to, std::span<const std::byte> bytes);
  void receive(Exchange& exchange, int from, std::span<std::byte> bytes, int head_of);
  void take_head(Exchange& exchange, int from);
  // Whether any message was done.
  bool poll();
  bool is_done(const Message& message);
  void check_patience();
  void end(Exchange& exchange, Exchange::End how);
  void stop_all();

  Transport& transport_;
  std::vector<Message> messages_;  // the carrying thread's, like the exchanges they belong to

  std::mutex mutex_;
  std::condition_variable handed_in_;
  std::condition_variable ended_;
  std::vector<Exchange*> waiting_;  // submitted, not begun
  std::vector<Exchange*> begun_;
  bool stopping_ = false;
  bool carries_no_more_ = false;
};

}  // namespace pipesim::exec
