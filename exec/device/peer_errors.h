// Errors that end a rank because of another one, which reports the cause.
#pragma once

#include <string>

#include "traces/base/error.h"

namespace pipesim::exec {

// A wait for another rank has lasted longer than one has patience.
class TimedOut : public Error {
 public:
  explicit TimedOut(const std::string& message) : Error(Cause::work, message) {}
};

// Another rank can't be reached any more.
class PeerLost : public Error {
 public:
  explicit PeerLost(const std::string& message) : Error(Cause::work, message) {}
};

}  // namespace pipesim::exec
