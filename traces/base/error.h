// The one error type of the project.
//
// Libraries throw Error and nothing else of their own; only main() catches it,
// prints `pipesim: <what()>` and turns the cause into the exit status. An
// error is one sentence that says where, what, and how to fix it.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace pipesim {

class Error : public std::runtime_error {
 public:
  enum class Cause {
    work,   // the request was fine, carrying it out failed: exit status 1
    input,  // a flag, a file or a value is wrong: exit status 2
  };

  Error(Cause cause, const std::string& message) : std::runtime_error(message), cause_(cause) {}

  Cause cause() const { return cause_; }
  int exit_status() const { return cause_ == Cause::work ? 1 : 2; }

 private:
  Cause cause_;
};

// The two ways to make one; `message` reads "where: what; how to fix it".
inline Error input_error(const std::string& message) { return {Error::Cause::input, message}; }
inline Error work_error(const std::string& message) { return {Error::Cause::work, message}; }

// Whatever was thrown, as an error: memory that ran out is an input's fault, and what nobody
// foresaw is ours.
Error as_error(const std::exception& thrown);

}  // namespace pipesim
