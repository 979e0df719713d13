// A wait for another rank that has lasted longer than one has patience.
#pragma once

#include <string>

#include "traces/base/error.h"

namespace pipesim::exec {

class TimedOut : public Error {
 public:
  explicit TimedOut(const std::string& message) : Error(Cause::work, message) {}
};

}  // namespace pipesim::exec
