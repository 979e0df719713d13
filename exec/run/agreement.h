// Ranks agree before they train: on whether all could set up, and on what they
// run.
//
// Every rank calls the same functions in the same order.
#pragma once

#include <functional>
#include <string>

#include "exec/transport/transport.h"

namespace pipesim::exec {

// An error that all ranks throw, so that each may end as it likes.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// Does `work` on every rank. Where it fails on any, all ranks throw the error
// of the lowest one, which names it where that is not rank 0, as an AgreedError.
void agree(Transport& transport, const std::function<void()>& work);

// Likewise an input error where their texts differ.
void agree_on(Transport& transport, const std::string& what, const std::string& text);

}  // namespace pipesim::exec
