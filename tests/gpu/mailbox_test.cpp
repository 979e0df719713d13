// What a rank receives and sends, on a device of its own pace: an emulated GPU,
// whose work runs when something waits for it or looks at it.
#include "exec/run/mailbox.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "exec/transport/collectives.h"
#include "exec/transport/linked.h"
#include "exec/transport/local.h"
#include "tests/devices.h"
#include "tests/forwarding_transport.h"

namespace pipesim::exec {
namespace {

constexpr std::int64_t count = 16;  // numbers of a message
constexpr std::int64_t message_bytes = count * 4;

// A link of which every message waits for many copies, which run beside the operators.
class SlowLink final : public DeviceLink {
 public:
  explicit SlowLink(Device& device, int copies = 300)
      : device_(device),
        copies_(copies),
        from_(device.allocate_host(message_bytes)),
        to_(device.allocate(message_bytes)) {}
  SlowLink(const SlowLink&) = delete;
  SlowLink& operator=(const SlowLink&) = delete;
  ~SlowLink() override {
    device_.release_host(from_);
    device_.release(to_);
  }

  Mark send(const Channel&, const void*, std::int64_t, Mark after) override { return end(after); }
  Mark receive(const Channel&, void*, std::int64_t, Mark after) override { return end(after); }
  void check() override {}
  void abort() override {}
  // The end of the last message.
  Mark last() const { return last_; }

 private:
  Mark end(Mark after) {
    for (int i = 0; i < copies_; ++i) {
      after = device_.start_upload(to_, from_, message_bytes, after);
    }
    last_ = after;
    return after;
  }

  Device& device_;
  int copies_;
  Mark last_ = 0;
  void* from_;
  void* to_;
};

// Of the first of two ranks.
struct Rank {
  std::unique_ptr<Device> device = testing::make_test_device();
  LocalWorld world{2};
  Placement placement = Placement::loop(2, 1);
};

// The other rank may take a message when it pleases, as long as this one has
// something else to do: even without any patience.
TEST(Mailbox, ASendIsWaitedForAtTheEndAlone) {
  Rank rank;
  rank.world.transport(0).set_patience(std::chrono::nanoseconds(0));
  LinkedTransport transport(rank.world.transport(0), std::make_unique<SlowLink>(*rank.device),
                            "slow");
  Pool pool(*rank.device);
  Recorder recorder(*rank.device, Clock(), false);
  OverlappedCollectives beside(transport, recorder);
  Mailbox mailbox(rank.placement, 1, {message_bytes}, Number::float32, transport, pool, recorder,
                  beside);
  mailbox.put_output(make_action(0, Kind::F, 0), pool.take(count, Use::activations),
                     recorder.mark());
  mailbox.send(make_action(0, Kind::SEND_F, 0));
  for (int i = 0; i < 10; ++i) ASSERT_NO_THROW(mailbox.poll());
  try {
    mailbox.finish_iteration();
    FAIL() << "no patience, and yet it waited";
  } catch (const TimedOut& error) {
    EXPECT_STREQ(error.what(), "0SEND_F0: waited 0 ms for rank 1 to take a message");
  }
}

// Counts what is sent.
class Counted final : public testing::ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    ++sends;
    return ForwardingTransport::send(to, tag, bytes);
  }
  int sends = 0;
};

// Waits for what the other rank has, while it receives a message over the link.
struct Waiting {
  Waiting(std::optional<std::chrono::nanoseconds> patience, int copies) {
    if (patience) control.set_patience(*patience);
    auto made = std::make_unique<SlowLink>(*rank.device, copies);
    link = made.get();
    transport.emplace(control, std::move(made), "slow");
    beside.emplace(*transport, recorder);
    mailbox.emplace(rank.placement, 1, std::vector{message_bytes}, Number::float32, *transport,
                    pool, recorder, *beside);
    mailbox->post(make_action(0, Kind::RECV_B, 0));
  }
  // What the other rank has is wanted with that tag.
  void wait(int tag) {
    const Tensor numbers = pool.take(count, Use::workspace);
    OverlappedCollectives::Part part;
    part.steps.push_back(std::make_unique<Broadcast>(*transport, pool, numbers.all(), 1, tag));
    const OverlappedCollectives::Id id = beside->open(std::nullopt);
    beside->add(id, std::move(part));
    beside->close(id);
    beside->wait_for(id);
  }

  Rank rank;
  Counted control{rank.world.transport(0)};
  SlowLink* link = nullptr;
  Pool pool{*rank.device};
  Recorder recorder{*rank.device, Clock(), false};
  std::optional<LinkedTransport> transport;
  std::optional<OverlappedCollectives> beside;
  std::optional<Mailbox> mailbox;
};

TEST(Mailbox, WhatIsLinkedGoesByNoOtherWay) {
  Waiting one({}, 3);
  const std::vector<float> theirs(count, 5);
  bool is_sent = false;
  one.beside->also_drive([&] {
    const bool again = one.mailbox->look_after();
    if (!again && !std::exchange(is_sent, true)) {
      one.rank.world.transport(1).send(0, first_free_tag, std::as_bytes(std::span(theirs)));
    }
    return again;
  });
  one.wait(first_free_tag);
  EXPECT_TRUE(one.rank.device->has_passed(one.link->last()));
  EXPECT_EQ(one.control.sends, 0);
}

TEST(Mailbox, PatienceEndsWhateverIsUnderWayOverALink) {
  Waiting one(std::chrono::nanoseconds(0), 300);
  one.beside->also_drive([&] { return one.mailbox->look_after(); });
  EXPECT_THROW(one.wait(first_free_tag), TimedOut);
  EXPECT_FALSE(one.rank.device->has_passed(one.link->last()));
}

// As an error leaves it: the copy of what was received has still to run.
TEST(Mailbox, StagingMemoryGoesOnceCopiesHaveRun) {
  Rank rank;
  std::array<float, count> got{};
  {
    Pool pool(*rank.device);
    Recorder recorder(*rank.device, Clock(), false);
    OverlappedCollectives beside(rank.world.transport(0), recorder);
    Mailbox mailbox(rank.placement, 1, {message_bytes}, Number::float32, rank.world.transport(0),
                    pool, recorder, beside);
    const std::vector<float> sent(count, 5);
    rank.world.transport(1).send(0, first_free_tag + 3,
                                 std::as_bytes(std::span(sent)));  // what 1SEND_B0 has as its tag
    mailbox.post(make_action(0, Kind::RECV_B, 0));
    const Tensor x = mailbox.take_input(make_action(0, Kind::B, 0));
    rank.device->copy(count, x.data(), x.data());
  }
  void* memory = rank.device->allocate(message_bytes);
  rank.device->fill(count, static_cast<float*>(memory), 3);
  rank.device->download(got.data(), memory, message_bytes);
  rank.device->release(memory);
  EXPECT_EQ(got.front(), 3);
}

}  // namespace
}  // namespace pipesim::exec
