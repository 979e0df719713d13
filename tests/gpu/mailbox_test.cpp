// What a rank receives and sends, on a device of its own pace: an emulated GPU,
// whose work runs when something waits for it or looks at it.
#include "exec/run/mailbox.h"

#include <gtest/gtest.h>

#include <array>

#include "exec/transport/collectives.h"
#include "exec/transport/linked.h"
#include "exec/transport/local.h"
#include "tests/devices.h"

namespace pipesim::exec {
namespace {

constexpr std::int64_t count = 16;  // numbers of a message
constexpr std::int64_t message_bytes = count * 4;

// A link of which every message waits for many copies, which run beside the operators.
class SlowLink final : public DeviceLink {
 public:
  explicit SlowLink(Device& device)
      : device_(device),
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

 private:
  Mark end(Mark after) {
    for (int i = 0; i < 300; ++i) after = device_.start_upload(to_, from_, message_bytes, after);
    return after;
  }

  Device& device_;
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
  Beside beside(transport, recorder);
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

// As an error leaves it: the copy of what was received has still to run.
TEST(Mailbox, StagingMemoryGoesOnceCopiesHaveRun) {
  Rank rank;
  std::array<float, count> got{};
  {
    Pool pool(*rank.device);
    Recorder recorder(*rank.device, Clock(), false);
    Beside beside(rank.world.transport(0), recorder);
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
