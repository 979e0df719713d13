// The destination of rank 0's output.
#pragma once

namespace pipesim::exec {

// A launcher gives its processes its own pseudo terminals and pipes; the launcher's own output
// counts. Owns the descriptor that it opened.
class Destination {
 public:
  Destination(int descriptor, bool launched);
  ~Destination();
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
  int opened_ = -1;
};

}  // namespace pipesim::exec
