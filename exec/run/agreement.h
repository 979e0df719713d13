// Agreement among ranks before they train: whether all could set up, and what they run.
//
// Every rank calls the same functions in the same order.
#pragma once

#include <functional>
#include <string>

#include "exec/transport/transport.h"

namespace pipesim::exec {

// An error that all ranks throw, so that each may exit on its own.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// Runs `work` on every rank. If it fails on any, all ranks throw the error of the lowest one as an
// AgreedError, which names the rank unless it is rank 0.
void agree(Transport& transport, const std::function<void()>& work);

// Throws an input error in the same way if their texts differ.
void agree_on(Transport& transport, const std::string& what, const std::string& text);

}  // namespace pipesim::exec
