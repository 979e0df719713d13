// The emulated NCCL keeps NCCL's rules: both ends of communicators, here within
// one process.
#include <emulated_nccl.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

constexpr std::size_t bytes = 3000;
constexpr int turns = 50;  // more than anything takes that comes at all

ncclResult_t state_of(ncclComm_t communicator) {
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(communicator, &state), ncclSuccess);
  return state;
}

std::string last_error() { return ncclGetLastError(nullptr); }

bool has_passed(gpuEvent_t event) { return gpuEventQuery(event) == gpuSuccess; }

// One end of a communicator, and a stream with memory for it.
struct End {
  End() {
    EXPECT_EQ(gpuStreamCreateWithFlags(&stream, gpuStreamNonBlocking), gpuSuccess);
    EXPECT_EQ(gpuMalloc(&memory, bytes), gpuSuccess);
  }

  void begin(int ranks, const ncclUniqueId& id, int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    EXPECT_EQ(ncclCommInitRankConfig(&communicator, ranks, id, rank, &config), ncclInProgress);
  }
  void fill(char value) const {
    const std::vector<char> values(bytes, value);
    EXPECT_EQ(gpuMemcpyAsync(memory, values.data(), bytes, gpuMemcpyHostToDevice, stream),
              gpuSuccess);
  }
  // What it holds now, whatever its stream waits for.
  std::vector<char> content() const {
    gpuStream_t other = nullptr;
    EXPECT_EQ(gpuStreamCreateWithFlags(&other, gpuStreamNonBlocking), gpuSuccess);
    std::vector<char> values(bytes);
    EXPECT_EQ(gpuMemcpyAsync(values.data(), memory, bytes, gpuMemcpyDeviceToHost, other),
              gpuSuccess);
    EXPECT_EQ(gpuStreamDestroy(other), gpuSuccess);
    return values;
  }
  gpuEvent_t record() const {
    gpuEvent_t event = nullptr;
    EXPECT_EQ(gpuEventCreateWithFlags(&event, 0), gpuSuccess);
    EXPECT_EQ(gpuEventRecord(event, stream), gpuSuccess);
    return event;
  }

  ncclComm_t communicator = nullptr;
  gpuStream_t stream = nullptr;
  void* memory = nullptr;
};

ncclUniqueId new_id() {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

class Pair : public ::testing::Test {
 protected:
  Pair() {
    const ncclUniqueId id = new_id();
    sender.begin(2, id, 0);
    receiver.begin(2, id, 1);
  }

  // Until neither is in progress any more; whether that comes.
  bool settle() {
    for (int i = 0; i < turns; ++i) {
      const bool own = state_of(sender.communicator) != ncclInProgress;
      if (state_of(receiver.communicator) != ncclInProgress && own) return true;
    }
    return false;
  }
  ncclResult_t send(std::size_t count = bytes) {
    return ncclSend(sender.memory, count, ncclInt8, 1, sender.communicator, sender.stream);
  }
  ncclResult_t receive(std::size_t count = bytes) {
    return ncclRecv(receiver.memory, count, ncclInt8, 0, receiver.communicator, receiver.stream);
  }
  // A first message, which makes the connection.
  void connect() {
    ASSERT_TRUE(settle());
    EXPECT_EQ(send(), ncclInProgress);
    EXPECT_EQ(receive(), ncclInProgress);
    ASSERT_TRUE(settle());
    pass(receiver.record());
    pass(sender.record());
  }
  void pass(gpuEvent_t event) {
    for (int i = 0; i < turns; ++i) {
      if (has_passed(event)) return;
    }
    FAIL() << "it does not come";
  }

  End sender, receiver;
};

TEST_F(Pair, IsMadeInTheBackground) {
  EXPECT_EQ(send(), ncclInvalidUsage);
  EXPECT_NE(last_error().find("still in progress"), std::string::npos);
  EXPECT_TRUE(settle());
  EXPECT_EQ(state_of(sender.communicator), ncclSuccess);
  EXPECT_EQ(state_of(receiver.communicator), ncclSuccess);
}

TEST_F(Pair, OneEndAloneIsNeverReady) {
  const ncclUniqueId id = new_id();
  End alone;
  alone.begin(2, id, 0);
  for (int i = 0; i < turns; ++i) EXPECT_EQ(state_of(alone.communicator), ncclInProgress);
}

// The first message needs a connection, for which both must ask.
TEST_F(Pair, AreConnectedByBoth) {
  ASSERT_TRUE(settle());
  EXPECT_EQ(send(), ncclInProgress);
  for (int i = 0; i < turns; ++i) EXPECT_EQ(state_of(sender.communicator), ncclInProgress);
  EXPECT_EQ(send(), ncclInvalidUsage);
  EXPECT_EQ(receive(), ncclInProgress);
  EXPECT_TRUE(settle());
}

// A send ends once its receive is there, and is read no earlier; until then what
// is received into holds nothing of use.
TEST_F(Pair, MeetOnTheirStreams) {
  connect();
  EXPECT_EQ(send(), ncclSuccess);
  const gpuEvent_t sent = sender.record();
  for (int i = 0; i < turns; ++i) EXPECT_FALSE(has_passed(sent));
  EXPECT_EQ(gpuMemcpyAsync(sender.memory, std::vector<char>(bytes, 7).data(), bytes,
                           gpuMemcpyHostToDevice, receiver.stream),
            gpuSuccess);
  EXPECT_EQ(receive(), ncclSuccess);
  pass(receiver.record());
  pass(sent);
  EXPECT_EQ(receiver.content(), std::vector<char>(bytes, 7));

  EXPECT_EQ(receive(), ncclSuccess);
  const gpuEvent_t received = receiver.record();
  for (int i = 0; i < turns; ++i) EXPECT_FALSE(has_passed(received));
  EXPECT_EQ(receiver.content(), std::vector<char>(bytes, -1));
  sender.fill(9);
  EXPECT_EQ(send(), ncclSuccess);
  pass(sender.record());
  pass(received);
  EXPECT_EQ(receiver.content(), std::vector<char>(bytes, 9));
}

TEST_F(Pair, KeepTheOrder) {
  connect();
  for (const char value : std::string("abc")) {
    sender.fill(value);
    EXPECT_EQ(send(), ncclSuccess);
  }
  for (const char value : std::string("abc")) {
    EXPECT_EQ(receive(), ncclSuccess);
    pass(receiver.record());
    EXPECT_EQ(receiver.content(), std::vector<char>(bytes, value));
  }
  pass(sender.record());
}

TEST_F(Pair, MustAgreeOnTheSize) {
  connect();
  EXPECT_EQ(send(bytes), ncclSuccess);
  EXPECT_EQ(receive(bytes - 1), ncclSuccess);
  const gpuEvent_t received = receiver.record();
  const gpuEvent_t sent = sender.record();
  for (int i = 0; i < turns; ++i) {
    EXPECT_FALSE(has_passed(received));
    EXPECT_FALSE(has_passed(sent));
  }
  EXPECT_EQ(state_of(sender.communicator), ncclInternalError);
  EXPECT_EQ(state_of(receiver.communicator), ncclInternalError);
  EXPECT_EQ(send(), ncclInternalError);
  for (End* end : {&sender, &receiver}) {
    EXPECT_EQ(ncclCommAbort(end->communicator), ncclSuccess);
  }
  pass(received);
  pass(sent);
}

// An abort ends what hangs, and the other end hears of it.
TEST_F(Pair, HearOfAnAbort) {
  connect();
  EXPECT_EQ(receive(), ncclSuccess);
  const gpuEvent_t received = receiver.record();
  EXPECT_FALSE(has_passed(received));
  EXPECT_EQ(ncclCommAbort(receiver.communicator), ncclSuccess);
  pass(received);
  EXPECT_TRUE(settle());
  EXPECT_EQ(state_of(receiver.communicator), ncclSuccess) << "its own";
  for (int i = 0; i < turns && state_of(sender.communicator) == ncclSuccess; ++i) {
  }
  EXPECT_EQ(state_of(sender.communicator), ncclRemoteError);
  EXPECT_EQ(send(), ncclRemoteError);
}

TEST_F(Pair, TakeLeaveTogether) {
  connect();
  EXPECT_EQ(ncclCommFinalize(sender.communicator), ncclInProgress);
  EXPECT_EQ(ncclCommDestroy(sender.communicator), ncclInvalidUsage);
  for (int i = 0; i < turns; ++i) EXPECT_EQ(state_of(sender.communicator), ncclInProgress);
  EXPECT_EQ(ncclCommFinalize(receiver.communicator), ncclInProgress);
  EXPECT_TRUE(settle());
  EXPECT_EQ(ncclCommDestroy(sender.communicator), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(receiver.communicator), ncclSuccess);
}

TEST_F(Pair, TransfersAreOfTheGpusMemory) {
  connect();
  std::vector<char> host(bytes);
  EXPECT_EQ(ncclSend(host.data(), bytes, ncclInt8, 1, sender.communicator, sender.stream),
            ncclInvalidArgument);
  EXPECT_EQ(send(bytes + 100000), ncclInvalidArgument);
  EXPECT_EQ(ncclSend(sender.memory, bytes, ncclInt8, 2, sender.communicator, sender.stream),
            ncclInvalidArgument);
}

TEST(Alone, SendsToItselfWithinAGroup) {
  End end, other;
  end.begin(1, new_id(), 0);
  for (int i = 0; i < turns && state_of(end.communicator) == ncclInProgress; ++i) {
  }
  ASSERT_EQ(state_of(end.communicator), ncclSuccess);
  end.fill(5);
  EXPECT_EQ(ncclSend(end.memory, bytes, ncclInt8, 0, end.communicator, end.stream),
            ncclInvalidUsage);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclSend(end.memory, bytes, ncclInt8, 0, end.communicator, end.stream), ncclSuccess);
  EXPECT_EQ(ncclRecv(other.memory, bytes, ncclInt8, 0, end.communicator, end.stream), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(gpuStreamSynchronize(end.stream), gpuSuccess);
  EXPECT_EQ(other.content(), std::vector<char>(bytes, 5));
}

}  // namespace
