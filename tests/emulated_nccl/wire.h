// What passes between two processes of a communicator: frames on a socket,
// which nothing here waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace emulated_nccl {

enum class Word : std::uint32_t {
  hello,    // number: the rank of who says it
  connect,  // number: 1 where who says it wants to send, 0 to receive, 2 for collectives
  ready,    // the receive of that number has so many bytes of room
  data,     // of the send of that number; the bytes follow
  give,     // what a rank gives to the collective of that number follows, behind its terms
  take,     // what the rank gets of it follows
  wrong,    // a transfer of other bytes than this one was asked for, or another collective
  bye,
};

struct Frame {
  Word word = Word::hello;
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
};

class Wire {
 public:
  Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire();

  // A name on which this process listens from now on.
  static std::string listen();
  // Goes on with becoming connected, by the name's listener or to it; whether it is.
  bool connect(const std::string& name, bool listens);
  // Once all are connected that come by that name.
  static void stop_listening(const std::string& name);

  void say(const Frame& frame, const void* payload = nullptr);
  // Whether the other end has all that was said; false once it is gone.
  bool flush();
  // The next frame, once there is one.
  std::optional<Frame> hear();
  // More of the bytes that follow a frame of data: how many came.
  std::size_t hear_bytes(char* to, std::size_t most);
  // Whether the other end, or this one, has closed it.
  bool is_gone() const { return gone_; }
  void close();

 private:
  int socket_ = -1;
  bool gone_ = false;
  std::string to_say_;
  Frame heard_;
  std::size_t heard_bytes_ = 0;  // of that frame
};

}  // namespace emulated_nccl
