// The emulated NCCL keeps NCCL's rules: both ends of communicators, here within
// one process.
#include <emulated_nccl.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
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

// Whoever waits for one stream holds up no other: a message ends although its other end stands on
// one that nobody asks for.
TEST_F(Pair, MeetWhileTheHostWaitsForOneStream) {
  connect();
  for (char value = 0; value < 20; ++value) {
    sender.fill(value);
    EXPECT_EQ(send(), ncclSuccess);
    EXPECT_EQ(receive(), ncclSuccess);
    const End& waited = value % 2 == 0 ? receiver : sender;
    EXPECT_EQ(gpuStreamSynchronize(waited.stream), gpuSuccess);
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

// ---- Sums

class Trio : public ::testing::Test {
 protected:
  static constexpr std::size_t count = 6;

  Trio() {
    const ncclUniqueId id = new_id();
    for (int rank = 0; rank < 3; ++rank) ends[rank].begin(3, id, rank);
    settle();
    for (const End& end : ends) EXPECT_EQ(state_of(end.communicator), ncclSuccess);
  }

  // Until none is in progress any more, or for as long as anything takes.
  void settle() {
    for (int i = 0; i < turns; ++i) {
      for (const End& end : ends) state_of(end.communicator);
    }
  }
  // Rank r has 10^r, and so on up to 6 of it.
  void fill() const {
    float scale = 1;
    for (const End& end : ends) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = scale * static_cast<float>(i + 1);
      EXPECT_EQ(gpuMemcpyAsync(end.memory, values.data(), count * sizeof(float),
                               gpuMemcpyHostToDevice, end.stream),
                gpuSuccess);
      scale *= 10;
    }
  }
  void disagree(const std::array<int, 3>& order);
  float* numbers(int rank) const { return static_cast<float*>(ends[rank].memory); }
  std::vector<float> content(int rank) const {
    const std::vector<char> bytes_there = ends[rank].content();
    std::vector<float> values(count);
    std::memcpy(values.data(), bytes_there.data(), count * sizeof(float));
    return values;
  }
  ncclResult_t add_all(int rank, std::size_t of = count) const {
    return ncclAllReduce(numbers(rank), numbers(rank), of, ncclFloat32, ncclSum,
                         ends[rank].communicator, ends[rank].stream);
  }
  // Makes the connections that sums need.
  void connect() {
    fill();
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(add_all(rank), ncclInProgress);
    settle();
    for (const End& end : ends) {
      EXPECT_EQ(state_of(end.communicator), ncclSuccess);
      pass(end.record());
    }
  }
  static void pass(gpuEvent_t event) {
    for (int i = 0; i < turns; ++i) {
      if (has_passed(event)) return;
    }
    FAIL() << "it does not come";
  }

  End ends[3];
};

TEST_F(Trio, AllHaveTheSum) {
  connect();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(content(rank), (std::vector<float>{111, 222, 333, 444, 555, 666})) << rank;
  }
}

TEST_F(Trio, EachHasItsOwnPart) {
  connect();
  fill();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ncclReduceScatter(numbers(rank), numbers(rank) + 2 * rank, 2, ncclFloat32, ncclSum,
                                ends[rank].communicator, ends[rank].stream),
              ncclSuccess);
  }
  for (const End& end : ends) pass(end.record());
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::vector<float> got = content(static_cast<int>(rank));
    EXPECT_EQ(got[2 * rank], 111 * static_cast<float>(2 * rank + 1));
    EXPECT_EQ(got[2 * rank + 1], 111 * static_cast<float>(2 * rank + 2));
  }
}

TEST_F(Trio, ARootAloneHasTheSumOfAGroup) {
  connect();
  fill();
  for (int rank = 0; rank < 3; ++rank) {
    const End& end = ends[rank];
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (const int root : {2, 0}) {
      float* at = numbers(rank) + root;
      EXPECT_EQ(ncclReduce(at, at, 1, ncclFloat32, ncclSum, root, end.communicator, end.stream),
                ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  for (const End& end : ends) pass(end.record());
  EXPECT_EQ(content(0)[0], 111);
  EXPECT_EQ(content(1)[0], 10) << "no root";
  EXPECT_EQ(content(2)[2], 333);
}

TEST_F(Trio, AllHaveThePartsOfAll) {
  connect();
  fill();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ncclAllGather(numbers(rank) + 2 * rank, numbers(rank), 2 * sizeof(float), ncclInt8,
                            ends[rank].communicator, ends[rank].stream),
              ncclSuccess);
  }
  for (const End& end : ends) pass(end.record());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(content(rank), (std::vector<float>{1, 2, 30, 40, 500, 600})) << rank;
  }
}

TEST_F(Trio, AllHaveWhatARootHas) {
  connect();
  fill();
  for (int rank = 0; rank < 3; ++rank) {
    const End& end = ends[rank];
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (const int root : {1, 2}) {
      float* at = numbers(rank) + root;
      EXPECT_EQ(ncclBroadcast(at, at, sizeof(float), ncclInt8, root, end.communicator, end.stream),
                ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  for (const End& end : ends) pass(end.record());
  EXPECT_EQ(content(0), (std::vector<float>{1, 20, 300, 4, 5, 6}));
  EXPECT_EQ(content(1), (std::vector<float>{10, 20, 300, 40, 50, 60}));
  EXPECT_EQ(content(2), (std::vector<float>{100, 20, 300, 400, 500, 600}));
}

// Until the last rank has come nothing of use stands where the sums go.
TEST_F(Trio, WaitForTheLast) {
  connect();
  fill();
  EXPECT_EQ(add_all(0), ncclSuccess);
  EXPECT_EQ(add_all(2), ncclSuccess);
  const gpuEvent_t added = ends[0].record();
  for (int i = 0; i < turns; ++i) EXPECT_FALSE(has_passed(added));
  EXPECT_NE(content(0)[0], 1) << "what it gave";
  EXPECT_EQ(add_all(1), ncclSuccess);
  pass(ends[1].record());
  pass(added);
  EXPECT_EQ(content(0)[5], 666);
}

// The last rank adds up one number less than the others. Their streams come to it in that order.
void Trio::disagree(const std::array<int, 3>& order) {
  connect();
  fill();
  std::vector<gpuEvent_t> added;
  for (const int rank : order) {
    EXPECT_EQ(add_all(rank, rank == 2 ? count - 1 : count), ncclSuccess);
    added.push_back(ends[rank].record());
    for (int i = 0; i < turns; ++i) EXPECT_FALSE(has_passed(added.back()));
  }
  settle();
  for (const End& end : ends) EXPECT_EQ(state_of(end.communicator), ncclInternalError);
  for (const End& end : ends) EXPECT_EQ(ncclCommAbort(end.communicator), ncclSuccess);
  for (const gpuEvent_t event : added) pass(event);
}

TEST_F(Trio, MustAgreeOnASum) { disagree({0, 1, 2}); }
TEST_F(Trio, MustAgreeOnASumOfWhichAllAreThereButTheFirst) { disagree({1, 2, 0}); }

}  // namespace
